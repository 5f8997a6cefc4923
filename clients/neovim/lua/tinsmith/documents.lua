-- Buffers as documents: their text, its hash, and finding one by its URI.

local api = vim.api

local M = {}

--- What ends a line, by 'fileformat'.
M.LINE_ENDS = { unix = "\n", dos = "\r\n", mac = "\r" }

---@type table<integer, {key: string, hash: string|false}>
local hashes = {}

--- The text of these lines as it counts for a hash: line ends as in the buffer, then CRLF read as LF.
---@param lines string[]
---@param has_eol boolean
---@param fileformat string
---@return string
function M.normalised(lines, has_eol, fileformat)
  local line_end = M.LINE_ENDS[fileformat]
  local text = table.concat(lines, line_end) .. (has_eol and line_end or "")
  return (text:gsub("\r\n", "\n"))
end

--- First 16 hex digits of SHA-256; nil for a text with NUL bytes, which is no text.
---@param text string
---@return string?
function M.digest(text)
  if text:find("\0", 1, true) then
    return nil
  end
  return vim.fn.sha256(text):sub(1, 16)
end

--- The hash of a loaded buffer's text, computed once per change.
---@param buf integer number of the buffer, not 0
---@return string?
function M.hash(buf)
  local options = vim.bo[buf]
  local key = ("%d %s %s"):format(api.nvim_buf_get_changedtick(buf), options.fileformat, options.endofline)
  local known = hashes[buf]
  if not known or known.key ~= key then
    local lines = api.nvim_buf_get_lines(buf, 0, -1, true)
    local hash = M.digest(M.normalised(lines, options.endofline, options.fileformat))
    known = { key = key, hash = hash or false }
    hashes[buf] = known
  end
  return known.hash or nil
end

--- The buffer's text was replaced or unloaded; its change count says nothing any more.
---@param buf integer
function M.forget(buf)
  hashes[buf] = nil
end

--- Whether a loaded buffer holds the text of a file.
---@param buf integer
---@return boolean
function M.is_file(buf)
  return api.nvim_buf_is_loaded(buf)
    and vim.bo[buf].buftype == ""
    and api.nvim_buf_get_name(buf) ~= ""
    and not api.nvim_buf_get_name(buf):find("^%a[%w+.-]+://")
end

--- The loaded buffer of a document; links in the path do not matter.
---@param uri string
---@return integer?
function M.find(uri)
  local path = vim.fs.normalize(vim.uri_to_fname(uri))
  local real = vim.uv.fs_realpath(path)
  for _, buf in ipairs(api.nvim_list_bufs()) do
    if M.is_file(buf) then
      local name = vim.fs.normalize(api.nvim_buf_get_name(buf))
      if name == path or (real and vim.uv.fs_realpath(name) == real) then
        return buf
      end
    end
  end
end

---@param buf integer
---@return integer?
function M.version(buf)
  return vim.lsp.util.buf_versions[buf]
end

return M
