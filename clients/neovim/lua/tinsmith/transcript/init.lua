-- A conversation's transcript: its buffer and windows, and drawing in batches.

local blocks = require("tinsmith.transcript.blocks")
local config = require("tinsmith.config")
local folds = require("tinsmith.transcript.folds")
local format = require("tinsmith.transcript.format")
local render = require("tinsmith.transcript.render")
local scroll = require("tinsmith.transcript.scroll")

local api = vim.api

local M = {}

local BATCH_MS = 40
local IDLE_MS = 200

---@class tinsmith.Transcript
---@field id string conversation
---@field blocks tinsmith.Blocks
---@field buf? integer
---@field activity? string
---@field is_scheduled boolean
---@field is_busy boolean a turn runs: no highlighter follows the stream
local Transcript = {}
Transcript.__index = Transcript

---@type table<integer, tinsmith.Transcript>
local by_buf = {}

---@param id string
---@return tinsmith.Transcript
function M.new(id)
  return setmetatable({
    id = id,
    blocks = blocks.new(),
    is_scheduled = false,
    is_busy = false,
  }, Transcript)
end

---@param buf integer
---@return tinsmith.Transcript?
function M.of(buf)
  return by_buf[buf]
end

--- The buffer, made when there is none (any more).
---@return integer
function Transcript:buffer()
  if self.buf and api.nvim_buf_is_valid(self.buf) then
    return self.buf
  end
  local buf = api.nvim_create_buf(false, true)
  self.buf = buf
  by_buf[buf] = self
  api.nvim_buf_set_name(buf, "tinsmith://conversation/" .. self.id)
  vim.bo[buf].bufhidden = "hide"
  vim.bo[buf].undolevels = -1
  vim.bo[buf].modifiable = false
  api.nvim_create_autocmd("BufWipeout", {
    buffer = buf,
    callback = function()
      by_buf[buf] = nil
    end,
  })
  api.nvim_create_autocmd("BufWinEnter", {
    buffer = buf,
    callback = function()
      M.dress(api.nvim_get_current_win())
      folds.close(buf, { api.nvim_get_current_win() }, self.blocks.list)
    end,
  })
  vim.bo[buf].filetype = "tinsmith"
  self:redraw()
  return buf
end

--- Options of a window for as long as it shows a transcript.
---@param win integer
function M.dress(win)
  local options = {
    wrap = true,
    linebreak = true,
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
  }
  for name, value in pairs(options) do
    vim.wo[win][0][name] = value
  end
end

--- The line of a closed fold. Called by 'foldtext'.
---@return tinsmith.Chunk[]|string
function M.foldtext()
  local buf = api.nvim_get_current_buf()
  local transcript = by_buf[buf]
  local block = transcript and render.block_at(buf, transcript.blocks.list, vim.v.foldstart - 1)
  return block and block.is_foldable and format.fold_line(block) or vim.fn.foldtext()
end

--- The line above a transcript. Called by 'winbar'.
---@return string
function M.winbar()
  local transcript = by_buf[api.nvim_get_current_buf()]
  local text = transcript and require("tinsmith.status").describe(transcript.id) or ""
  return (text:gsub("%%", "%%%%"))
end

--- Draw everything anew, as after a load.
function Transcript:redraw()
  if not self.buf or not api.nvim_buf_is_valid(self.buf) then
    return
  end
  for _, block in ipairs(self.blocks.list) do
    block.mark, block.drawn, block.is_dirty = nil, 0, not block.is_removed
  end
  self:_write(function()
    render.clear(self.buf)
  end)
  self:draw()
end

---@param change fun()
function Transcript:_write(change)
  vim.bo[self.buf].modifiable = true
  local is_done, problem = pcall(change)
  vim.bo[self.buf].modifiable = false
  vim.bo[self.buf].modified = false
  if not is_done then
    error(problem, 0)
  end
end

--- Draw what changed, now.
function Transcript:draw()
  local buf = self.buf
  if not buf or not api.nvim_buf_is_loaded(buf) then
    return
  end
  local following = scroll.following(buf)
  local drawn = {}
  self:_write(function()
    for _, block in ipairs(self.blocks.list) do
      if render.draw(buf, block) then
        drawn[#drawn + 1] = block
      end
    end
    render.activity(buf, self.activity)
  end)
  folds.close(buf, vim.fn.win_findbuf(buf), drawn)
  scroll.follow(buf, following)
end

--- Draw what changed with the next batch.
function Transcript:touch()
  if self.is_scheduled then
    return
  end
  self.is_scheduled = true
  vim.defer_fn(function()
    self.is_scheduled = false
    self:draw()
  end, BATCH_MS)
end

--- Say what the agent is doing, at once.
---@param text? string
function Transcript:show_activity(text)
  if self.activity ~= text then
    self.activity = text
    self:touch()
  end
end

--- Markdown is highlighted while nothing streams: a highlighter that follows a stream costs more than the stream.
---@param is_busy boolean
function Transcript:set_busy(is_busy)
  self.is_busy = is_busy
  vim.defer_fn(function()
    local buf = self.buf
    if not buf or not api.nvim_buf_is_loaded(buf) then
      return
    end
    if self.is_busy then
      vim.treesitter.stop(buf)
    elseif vim.treesitter.language.add("markdown") then
      vim.treesitter.start(buf, "markdown")
    end
  end, is_busy and 0 or IDLE_MS)
end

--- Start over with these items.
---@param items table[]
function Transcript:reset(items)
  self.blocks = blocks.new()
  for _, item in ipairs(items) do
    self.blocks:item(item)
  end
  self:redraw()
end

---@return integer[] windows that show it, in every tab page
function Transcript:windows()
  return self.buf and vim.fn.win_findbuf(self.buf) or {}
end

---@return integer? win of this tab page with a transcript
function Transcript:_window()
  for _, win in ipairs(api.nvim_tabpage_list_wins(0)) do
    if by_buf[api.nvim_win_get_buf(win)] then
      return win
    end
  end
end

---@param buf integer
---@param mods string
---@return integer? win
local function new_window(buf, mods)
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

--- Show it, in a window of this tab page that shows a transcript or in a new one. The focus stays unless asked for.
---@param options? {enter?: boolean, mods?: string}
function Transcript:show(options)
  options = options or {}
  local buf = self:buffer()
  local win = self:_window() or new_window(buf, options.mods or "")
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

--- The block under the cursor of the current window.
---@return tinsmith.Block? block
---@return integer? row in the block
function M.block_under_cursor()
  local buf = api.nvim_get_current_buf()
  local transcript = by_buf[buf]
  if transcript then
    return render.block_at(buf, transcript.blocks.list, api.nvim_win_get_cursor(0)[1] - 1)
  end
end

--- Close its windows in this tab page; a last window stays.
function Transcript:close()
  for _, win in ipairs(api.nvim_tabpage_list_wins(0)) do
    if api.nvim_win_get_buf(win) == self.buf and #api.nvim_tabpage_list_wins(0) > 1 then
      api.nvim_win_close(win, false)
    end
  end
end

---@return boolean
function Transcript:is_visible()
  for _, win in ipairs(self:windows()) do
    if api.nvim_win_get_tabpage(win) == api.nvim_get_current_tabpage() then
      return true
    end
  end
  return false
end

return M
