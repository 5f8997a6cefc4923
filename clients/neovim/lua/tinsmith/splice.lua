-- Text edits as a pure function over lines: all positions refer to the text before, CRLF is one line end.

local M = {}

---@class tinsmith.Piece
---@field first integer offset of the first replaced byte
---@field last integer offset after the last replaced byte
---@field text string
---@field order integer

---@param lines string[] the document's lines; a final newline is a last empty line
---@param starts integer[] byte offset of each line
---@param position {line: integer, character: integer}
---@param encoding "utf-8"|"utf-16"|"utf-32"
---@return integer? offset
local function offset_of(lines, starts, position, encoding)
  local line = lines[position.line + 1]
  if not line then
    return nil
  end
  return starts[position.line + 1] + vim.str_byteindex(line, encoding, position.character, false)
end

---@param lines string[]
---@param edits {range: {start: table, ["end"]: table}, newText: string}[]
---@param encoding "utf-8"|"utf-16"|"utf-32"
---@return tinsmith.Piece[]?
local function pieces_of(lines, edits, encoding)
  local starts, total = {}, 0
  for index, line in ipairs(lines) do
    starts[index] = total
    total = total + #line + 1
  end
  local pieces = {}
  for order, edit in ipairs(edits) do
    local first = offset_of(lines, starts, edit.range.start, encoding)
    local last = offset_of(lines, starts, edit.range["end"], encoding)
    if not first or not last or last < first then
      return nil
    end
    pieces[order] = { first = first, last = last, text = edit.newText, order = order }
  end
  table.sort(pieces, function(a, b)
    if a.first ~= b.first then
      return a.first < b.first
    end
    return a.order < b.order
  end)
  return pieces
end

--- The lines after the edits, and whether the last of them ends in a newline; nil when a position lies
--- outside the text or edits overlap.
---@param lines string[] a buffer's lines
---@param has_eol boolean
---@param edits table[] LSP TextEdits
---@param encoding "utf-8"|"utf-16"|"utf-32"
---@param keeps_cr boolean a carriage return before a newline is text, as in a buffer with mixed line ends
---@return string[]? lines
---@return boolean? has_eol
function M.spliced(lines, has_eol, edits, encoding, keeps_cr)
  local document = has_eol and vim.list_extend(vim.list_slice(lines), { "" }) or lines
  local pieces = pieces_of(document, edits, encoding)
  if not pieces then
    return nil
  end
  local before = table.concat(document, "\n")
  local parts, position = {}, 0
  for _, piece in ipairs(pieces) do
    if piece.first < position then
      return nil
    end
    parts[#parts + 1] = before:sub(position + 1, piece.first)
    parts[#parts + 1] = keeps_cr and piece.text or piece.text:gsub("\r\n", "\n")
    position = piece.last
  end
  parts[#parts + 1] = before:sub(position + 1)
  local after = vim.split(table.concat(parts), "\n", { plain = true })
  if #after > 1 and after[#after] == "" then
    after[#after] = nil
    return after, true
  end
  return after, false
end

return M
