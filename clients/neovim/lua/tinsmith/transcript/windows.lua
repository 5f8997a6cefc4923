-- Windows that show transcripts: opened beside the current one, never entered unasked.

local config = require("tinsmith.config")
local scroll = require("tinsmith.transcript.scroll")

local api = vim.api

local M = {}

--- Set the options of a window for as long as it shows a transcript.
---@param win integer
function M.dress(win)
  local options = {
    wrap = true,
    linebreak = true,
    breakindent = true,
    number = false,
    relativenumber = false,
    signcolumn = "no",
    foldcolumn = "0",
    list = false,
    spell = false,
    foldenable = true,
    foldmethod = "manual",
    foldlevel = 0,
    foldtext = "v:lua.require'tinsmith.transcript'.foldtext()",
    fillchars = "fold: ,eob: ",
    winbar = "%{%v:lua.require'tinsmith.transcript'.winbar()%}",
    statusline = "[tinsmith] %=%-14.(%l,%c%) %P",
  }
  for name, value in pairs(options) do
    vim.wo[win][0][name] = value
  end
end

---@param buf integer
---@param mods string
---@return integer? win
local function open(buf, mods)
  if vim.fn.getcmdwintype() ~= "" then
    return nil -- no window can be opened from the command-line window
  end
  if mods ~= "" then
    local before = api.nvim_get_current_win()
    vim.cmd(("%s sbuffer %d"):format(mods, buf))
    local win = api.nvim_get_current_win()
    api.nvim_set_current_win(before)
    return win
  end
  local window = config.get().window
  local is_side = window.split == "left" or window.split == "right"
  return api.nvim_open_win(buf, false, {
    win = -1,
    split = window.split,
    [is_side and "width" or "height"] = math.floor((is_side and vim.o.columns or vim.o.lines) * window.size),
  })
end

---@return integer? win of this tab page that shows some transcript
local function find()
  for _, win in ipairs(api.nvim_tabpage_list_wins(0)) do
    if vim.bo[api.nvim_win_get_buf(win)].filetype == "tinsmith" then
      return win
    end
  end
end

--- Show a transcript's buffer, in a window of this tab page that shows a transcript or in a new one.
---@param buf integer
---@param options {enter?: boolean, mods?: string}
function M.show(buf, options)
  local win = find() or open(buf, options.mods or "")
  if not win then
    return
  end
  if api.nvim_win_get_buf(win) ~= buf then
    api.nvim_win_set_buf(win, buf)
  end
  scroll.follow(buf, { win })
  if options.enter then
    api.nvim_set_current_win(win)
  end
end

--- Close the buffer's windows in this tab page; a last window stays.
---@param buf integer
function M.close(buf)
  for _, win in ipairs(api.nvim_tabpage_list_wins(0)) do
    if api.nvim_win_get_buf(win) == buf and #api.nvim_tabpage_list_wins(0) > 1 then
      api.nvim_win_close(win, false)
    end
  end
end

--- Whether the buffer can be seen in this tab page.
---@param buf? integer
---@return boolean
function M.is_visible(buf)
  return vim.iter(api.nvim_tabpage_list_wins(0)):any(function(win)
    return api.nvim_win_get_buf(win) == buf
  end)
end

return M
