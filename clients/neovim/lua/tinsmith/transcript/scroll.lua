-- Follows the end of a transcript in each window whose cursor is on its last line, and nowhere else.

local api = vim.api

local M = {}

--- The windows that follow. Call before the buffer grows.
---@param buf integer
---@return integer[]
function M.following(buf)
  local is_selecting = vim.list_contains({ "v", "V", "\22" }, api.nvim_get_mode().mode:sub(1, 1))
  return vim.tbl_filter(function(win)
    local is_busy = is_selecting and win == api.nvim_get_current_win()
    return not is_busy and api.nvim_win_get_cursor(win)[1] == api.nvim_buf_line_count(buf)
  end, vim.fn.win_findbuf(buf))
end

--- The first line of a window so that the last line of the buffer is its last.
---@param win integer
---@param last integer
---@return integer
local function top_for(win, last)
  local height = api.nvim_win_get_height(win) - (vim.wo[win].winbar ~= "" and 1 or 0)
  local low, high = math.max(1, last - height + 1), last
  -- A fold counts as one row whatever it holds, so the top may lie far above.
  while low > 1 and api.nvim_win_text_height(win, { start_row = low - 1, end_row = last - 1 }).all < height do
    high, low = low, math.max(1, low - 2 * height)
  end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if api.nvim_win_text_height(win, { start_row = middle - 1, end_row = last - 1 }).all > height then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

--- Show the end of the buffer in these windows. Call after the buffer grew.
---@param buf integer
---@param wins integer[]
function M.follow(buf, wins)
  local last = api.nvim_buf_line_count(buf)
  for _, win in ipairs(wins) do
    if api.nvim_win_is_valid(win) and api.nvim_win_get_buf(win) == buf then
      local top = top_for(win, last)
      api.nvim_win_call(win, function()
        vim.fn.winrestview({ lnum = last, col = 0, topline = top, leftcol = 0 })
      end)
    end
  end
end

return M
