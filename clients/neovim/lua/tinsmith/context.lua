-- What goes with a message: the selection, and what the person is looking at.

local client = require("tinsmith.client")
local documents = require("tinsmith.documents")
local mirror = require("tinsmith.mirror")

local api = vim.api

local M = {}

---@class tinsmith.Selection
---@field buf integer
---@field first [integer, integer] line and byte, both from 0
---@field last [integer, integer] the byte after the last selected one
---@field lines string[]

--- The text of a command's range: the Visual selection when the range is that, else whole lines.
---@param line1 integer
---@param line2 integer
---@return tinsmith.Selection
function M.selection(line1, line2)
  local buf = api.nvim_get_current_buf()
  local from, to, mode = vim.fn.getpos("'<"), vim.fn.getpos("'>"), vim.fn.visualmode()
  if mode ~= "v" or from[2] ~= line1 or to[2] ~= line2 then
    local lines = api.nvim_buf_get_lines(buf, line1 - 1, line2, false)
    return { buf = buf, first = { line1 - 1, 0 }, last = { line2 - 1, #lines[#lines] }, lines = lines }
  end
  local lines = vim.fn.getregion(from, to, { type = "v" })
  local first = { line1 - 1, from[3] - 1 }
  local last = { line2 - 1, #lines == 1 and first[2] + #lines[1] or #lines[#lines] }
  return { buf = buf, first = first, last = last, lines = lines }
end

---@param buf integer
---@param position [integer, integer]
---@param encoding string
local function lsp_position(buf, position, encoding)
  local line = api.nvim_buf_get_lines(buf, position[1], position[1] + 1, false)[1] or ""
  return { line = position[1], character = vim.str_utfindex(line, encoding, position[2], false) }
end

--- A selection as an input part: with its place when the server knows the document, as text when not.
---@param selection tinsmith.Selection
---@return table input
function M.input(selection)
  local lsp, buf = client.lsp(), selection.buf
  local text = table.concat(selection.lines, "\n")
  if not lsp or not mirror.has(buf) then
    return { type = "text", text = text }
  end
  return {
    type = "selection",
    uri = vim.uri_from_bufnr(buf),
    text = text,
    range = {
      start = lsp_position(buf, selection.first, lsp.offset_encoding),
      ["end"] = lsp_position(buf, selection.last, lsp.offset_encoding),
    },
    version = documents.version(buf),
    hash = documents.hash(buf),
  }
end

--- The document in the current window, or in the one before it.
---@return string? uri
function M.focus()
  for _, win in ipairs({ 0, vim.fn.win_getid(vim.fn.winnr("#")) }) do
    local buf = api.nvim_win_is_valid(win) and api.nvim_win_get_buf(win)
    if buf and mirror.has(buf) then
      return vim.uri_from_bufnr(buf)
    end
  end
end

return M
