-- A conversation's transcript: its buffer and windows, and drawing in batches.

local blocks = require("tinsmith.transcript.blocks")
local folds = require("tinsmith.transcript.folds")
local format = require("tinsmith.transcript.format")
local render = require("tinsmith.transcript.render")
local scroll = require("tinsmith.transcript.scroll")
local windows = require("tinsmith.transcript.windows")

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
      windows.dress(api.nvim_get_current_win())
      folds.close(buf, { api.nvim_get_current_win() }, self.blocks.list)
    end,
  })
  vim.bo[buf].filetype = "tinsmith"
  self:redraw()
  return buf
end

--- The line of a closed fold. Called by 'foldtext'.
---@return tinsmith.Chunk[]|string
function M.foldtext()
  local buf = api.nvim_get_current_buf()
  local transcript = by_buf[buf]
  local block = transcript and render.block_at(buf, transcript.blocks.list, vim.v.foldstart - 1)
  return block and block.is_foldable and format.fold_line(block) or vim.fn.foldtext()
end

--- The line above a transcript; where it is narrow, the title and the end stay. Called by 'winbar'.
---@return string
function M.winbar()
  local transcript = by_buf[api.nvim_get_current_buf()]
  local parts = transcript and require("tinsmith.status").describe(transcript.id) or {}
  local title = table.remove(parts, 1) or ""
  local room = math.floor(api.nvim_win_get_width(0) / 2)
  if vim.fn.strdisplaywidth(title) > room then
    title = vim.fn.strcharpart(title, 0, room - 1) .. "…"
  end
  local rest = vim.tbl_map(function(part)
    return " · " .. part
  end, parts)
  return (title:gsub("%%", "%%%%")) .. "%<" .. table.concat(rest):gsub("%%", "%%%%")
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

--- Show it. The focus stays unless asked for.
---@param options? {enter?: boolean, mods?: string}
function Transcript:show(options)
  windows.show(self:buffer(), options or {})
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

--- Close its windows in this tab page.
function Transcript:close()
  windows.close(self:buffer())
end

---@return boolean
function Transcript:is_visible()
  return windows.is_visible(self.buf)
end

return M
