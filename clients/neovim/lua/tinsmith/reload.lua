-- `agent/reloadDocument`: a clean buffer whose file was changed by a command takes the new text, without a word.
--
-- The text is rewritten first, so that cursors, marks and folds move with it as one undo step. Then Neovim reads
-- the file itself, for it asks before it writes one that it has not read. That reading would be a second step:
-- the undo history is put aside meanwhile.

local documents = require("tinsmith.documents")
local modes = require("tinsmith.modes")
local rewrite = require("tinsmith.rewrite")

local api = vim.api

local M = {}

local UTF8_MARK = "\239\187\191"
local UTF16 = { ["\255\254"] = "utf-16le", ["\254\255"] = "utf-16be" }

--- The file's text as it counts for a hash: decoded, without its byte order mark, CRLF read as LF.
---@param buf integer
---@return string?
local function text_on_disk(buf)
  local file = io.open(api.nvim_buf_get_name(buf), "rb")
  local content = file and file:read("*a")
  if not file or not content then
    return nil
  end
  file:close()
  local wide = UTF16[content:sub(1, 2)]
  if wide then
    content = vim.iconv(content:sub(3), wide, "utf-8")
  elseif vim.startswith(content, UTF8_MARK) then
    content = content:sub(#UTF8_MARK + 1)
  end
  return content and (content:gsub("\r\n", "\n"))
end

---@param command string
local function quietly(command)
  pcall(vim.cmd, "noautocmd silent! " .. command)
end

--- Have Neovim read the file of a clean buffer that has its text already.
---@param buf integer
local function read_again(buf)
  local history = vim.fn.tempname()
  api.nvim_buf_call(buf, function()
    local own = vim.bo.autoread
    quietly("wundo! " .. history)
    vim.bo.autoread = true
    quietly("checktime " .. buf)
    vim.bo.autoread = own
    quietly("rundo " .. history)
  end)
  vim.fn.delete(history)
end

--- Give the buffer this text as an undo step of its own; undone, the buffer differs from its file.
---@param buf integer
---@param text string
local function take(buf, text)
  local options = vim.bo[buf]
  local lines = vim.split(text, "\n", { plain = true })
  local has_eol = #lines > 1 and lines[#lines] == ""
  lines[#lines] = not has_eol and lines[#lines] or nil
  local modifiable, readonly = options.modifiable, options.readonly
  options.modifiable, options.readonly, options.modified = true, false, true
  rewrite.break_undo(buf)
  -- What cannot be rewritten here comes with the file.
  pcall(rewrite.lines, buf, api.nvim_buf_get_lines(buf, 0, -1, true), lines)
  rewrite.break_undo(buf)
  options.endofline = has_eol
  options.modifiable, options.readonly, options.modified = modifiable, readonly, false
end

--- Whether the buffer is clean and its file has this hash.
---@param buf? integer
---@param hash string
---@return string? text of the file when so
local function wanted(buf, hash)
  local text = buf and not vim.bo[buf].modified and text_on_disk(buf)
  return text and documents.digest(text) == hash and text or nil
end

--- Read the file again. Runs in the coroutine of the server's request.
---@param params table ReloadDocumentParams
---@return table ReloadDocumentResult
function M.reload(params)
  local is_settled = modes.settle()
  local buf = documents.find(params.uri)
  local text = is_settled and wanted(buf, params.diskHash)
  if not buf or not text then
    return { reloaded = false }
  end
  if documents.hash(buf) ~= params.diskHash then
    take(buf, text)
  end
  if vim.fn.getcmdwintype() == "" then
    read_again(buf)
  else -- nothing is read while the command-line window is open
    api.nvim_create_autocmd("CmdwinLeave", {
      once = true,
      callback = vim.schedule_wrap(function()
        local found = documents.find(params.uri)
        if found and wanted(found, params.diskHash) then
          read_again(found)
        end
      end),
    })
  end
  if text == "" then -- Neovim says of an empty file that its last line is ended
    vim.bo[buf].endofline, vim.bo[buf].modified = false, false
  end
  require("tinsmith.mirror").flush()
  return { reloaded = documents.hash(buf) == params.diskHash }
end

return M
