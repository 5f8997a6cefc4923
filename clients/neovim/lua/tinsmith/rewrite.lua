-- Turns a buffer's text into another by its smallest changes: cursors, marks and the selection stay with their text.

local modes = require("tinsmith.modes")

local api = vim.api

local M = {}

--- How many bytes two lines share at their start; whole characters only.
---@param old string
---@param new string
---@return integer
local function shared_head(old, new)
  local head, limit = 0, math.min(#old, #new)
  while head < limit and old:byte(head + 1) == new:byte(head + 1) do
    head = head + 1
  end
  return head < #old and head + vim.str_utf_start(old, head + 1) or head
end

--- The same for their ends, at most `limit` bytes.
---@param old string
---@param new string
---@param limit integer
---@return integer
local function shared_tail(old, new, limit)
  local tail = 0
  while tail < limit and old:byte(#old - tail) == new:byte(#new - tail) do
    tail = tail + 1
  end
  while tail > 0 and vim.str_utf_start(old, #old - tail + 1) ~= 0 do
    tail = tail - 1
  end
  return tail
end

--- Put `lines` in the place of `old[first]` to `old[last]`, leaving what both share at the two ends alone.
---@param buf integer
---@param old string[]
---@param first integer
---@param last integer
---@param lines string[]
local function replace(buf, old, first, last, lines)
  local head = shared_head(old[first], lines[1])
  local old_limit = #old[last] - (first == last and head or 0)
  local new_limit = #lines[#lines] - (#lines == 1 and head or 0)
  local tail = shared_tail(old[last], lines[#lines], math.min(old_limit, new_limit))
  lines[#lines] = lines[#lines]:sub(1, #lines[#lines] - tail)
  lines[1] = lines[1]:sub(head + 1)
  api.nvim_buf_set_text(buf, first - 1, head, last - 1, #old[last] - tail, lines)
end

--- Raises what Neovim raises when the buffer cannot be changed; then a part of the changes may be made.
---@param buf integer
---@param old string[] the buffer's lines
---@param new string[]
function M.lines(buf, old, new)
  local diff = vim.text.diff or vim.diff
  local hunks =
    diff(table.concat(old, "\n") .. "\n", table.concat(new, "\n") .. "\n", { result_type = "indices" })
  modes.keep_selection(buf, function()
    for index = #hunks, 1, -1 do
      local first, removed, new_first, added = unpack(hunks[index])
      if removed == 0 then
        api.nvim_buf_set_lines(buf, first, first, true, vim.list_slice(new, new_first, new_first + added - 1))
      elseif added == 0 then
        api.nvim_buf_set_lines(buf, first - 1, first - 1 + removed, true, {})
      else
        replace(buf, old, first, first + removed - 1, vim.list_slice(new, new_first, new_first + added - 1))
      end
    end
  end)
end

--- End the buffer's current undo step: what follows can be undone by itself.
---@param buf integer
function M.break_undo(buf)
  vim.bo[buf].undolevels = vim.bo[buf].undolevels
end

return M
