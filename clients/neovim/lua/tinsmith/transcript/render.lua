-- Draws blocks into a buffer: each where it stands, streamed text only at its end. Its last two lines stay empty.

local format = require("tinsmith.transcript.format")

local api = vim.api

local M = {}

local TAIL_LINES = 2

local places = api.nvim_create_namespace("tinsmith.blocks")
local colours = api.nvim_create_namespace("tinsmith.colours")
local activity = api.nvim_create_namespace("tinsmith.activity")

---@param buf integer
---@param block tinsmith.Block
---@return integer row of its first line
function M.row(buf, block)
  return api.nvim_buf_get_extmark_by_id(buf, places, block.mark, {})[1]
end

--- The block that owns a line; nil between blocks.
---@param buf integer
---@param list tinsmith.Block[]
---@param row integer
---@return tinsmith.Block? block
---@return integer? row in the block
function M.block_at(buf, list, row)
  local mark = api.nvim_buf_get_extmarks(buf, places, { row, -1 }, 0, { limit = 1 })[1]
  for _, block in ipairs(mark and list or {}) do
    if block.mark == mark[1] and not block.is_removed and row < mark[2] + block.height then
      return block, row - mark[2]
    end
  end
end

---@param buf integer
---@param block tinsmith.Block
---@param row integer
---@param drawing tinsmith.Drawing
local function place(buf, block, row, drawing)
  block.height = #drawing.lines
  block.is_foldable = drawing.fold or false
  block.mark = api.nvim_buf_set_extmark(buf, places, row, 0, { id = block.mark })
  api.nvim_buf_clear_namespace(buf, colours, row, row + block.height)
  for _, highlight in ipairs(drawing.highlights) do
    local line, first, last, group = unpack(highlight)
    api.nvim_buf_set_extmark(
      buf,
      colours,
      row + line,
      first,
      { end_col = last, hl_group = group, priority = 150 }
    )
  end
end

---@param buf integer
---@param block tinsmith.Block
local function insert(buf, block)
  local drawing = format.draw(block)
  local row = api.nvim_buf_line_count(buf) - TAIL_LINES
  local distance = row > 0 and { "" } or {}
  api.nvim_buf_set_lines(buf, row, row, true, vim.list_extend(distance, drawing.lines))
  place(buf, block, row > 0 and row + 1 or 0, drawing)
end

---@param buf integer
---@param block tinsmith.Block
local function replace(buf, block)
  local row = M.row(buf, block)
  local drawing = format.draw(block)
  if not vim.deep_equal(api.nvim_buf_get_lines(buf, row, row + block.height, true), drawing.lines) then
    api.nvim_buf_set_lines(buf, row, row + block.height, true, drawing.lines)
  end
  place(buf, block, row, drawing)
end

---@param buf integer
---@param block tinsmith.Block
local function extend(buf, block)
  local lines = format.tail(block)
  local row = M.row(buf, block) + block.height - 1
  local column = #api.nvim_buf_get_lines(buf, row, row + 1, true)[1]
  api.nvim_buf_set_text(buf, row, column, row, column, lines)
  block.height = block.height + #lines - 1
end

---@param buf integer
---@param block tinsmith.Block
local function remove(buf, block)
  local row = M.row(buf, block)
  api.nvim_buf_set_lines(buf, math.max(row - 1, 0), row + block.height, true, {})
  api.nvim_buf_del_extmark(buf, places, block.mark)
  block.mark = nil
end

--- Draw one block as far as it changed.
---@param buf integer
---@param block tinsmith.Block
---@return boolean has_changed
function M.draw(buf, block)
  local parts = block.parts and #block.parts or 0
  if block.is_dirty then
    block.is_dirty = false
    if block.is_removed then
      if block.mark then
        remove(buf, block)
      end
    elseif block.mark then
      replace(buf, block)
    else
      insert(buf, block)
    end
  elseif block.mark and parts > (block.drawn or 0) then
    extend(buf, block)
  else
    return false
  end
  block.drawn = parts
  return true
end

--- What the agent is doing, on the empty line at the end; nil clears it.
---@param buf integer
---@param text? string
function M.activity(buf, text)
  api.nvim_buf_clear_namespace(buf, activity, 0, -1)
  if text then
    local last = api.nvim_buf_line_count(buf) - 1
    api.nvim_buf_set_extmark(buf, activity, last, 0, {
      virt_text = { { text, "TinsmithActivity" } },
      virt_text_pos = "overlay",
    })
  end
end

--- Empty the buffer; every block must be drawn anew.
---@param buf integer
function M.clear(buf)
  for _, namespace in ipairs({ places, colours, activity }) do
    api.nvim_buf_clear_namespace(buf, namespace, 0, -1)
  end
  api.nvim_buf_set_lines(buf, 0, -1, true, { "", "" })
end

return M
