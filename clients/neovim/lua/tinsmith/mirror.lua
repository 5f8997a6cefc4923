-- Keeps the server's copy of every open file of the workspace exact to the byte.
--
-- Neovim's own incremental sync is off for this client: it reports a final newline that is not there when
-- lines at the end of a buffer without one change, and then no hash would ever agree again. Here a change is
-- the span of lines between the first and the last line touched since the previous one.

local documents = require("tinsmith.documents")

local api = vim.api

local M = {}

local DEBOUNCE_MS = 150
local NONE = 0

---@class tinsmith.Copy
---@field buf integer
---@field client vim.lsp.Client
---@field uri string
---@field lines integer lines that the server's copy has
---@field last integer length of its last line, in the agreed encoding
---@field has_eol boolean
---@field fileformat string
---@field top integer untouched lines at the start
---@field bottom integer untouched lines at the end
---@field now integer lines of the buffer, by what was reported
---@field is_scheduled boolean

---@type table<integer, tinsmith.Copy>
local copies = {}

--- The server has the buffer's text as it is now.
---@param copy tinsmith.Copy
local function settle(copy)
  local buf = copy.buf
  local count = api.nvim_buf_line_count(buf)
  local last = api.nvim_buf_get_lines(buf, count - 1, count, true)[1]
  copy.lines, copy.now, copy.top, copy.bottom = count, count, count, count
  copy.last = vim.str_utfindex(last, copy.client.offset_encoding)
  copy.has_eol, copy.fileformat = vim.bo[buf].endofline, vim.bo[buf].fileformat
end

---@param buf integer
---@param first integer
---@param last integer
---@param has_eol boolean whether a line end follows the last line
local function text_of(buf, first, last, has_eol)
  local line_end = documents.LINE_ENDS[vim.bo[buf].fileformat]
  local lines = api.nvim_buf_get_lines(buf, first, last, true)
  return table.concat(lines, line_end) .. (has_eol and #lines > 0 and line_end or "")
end

--- What turns the server's copy into the buffer's text, as one content change; nil when they agree.
---@param copy tinsmith.Copy
---@return table?
local function difference(copy)
  local buf = copy.buf
  local count, has_eol = api.nvim_buf_line_count(buf), vim.bo[buf].endofline
  if count ~= copy.now or vim.bo[buf].fileformat ~= copy.fileformat then
    return { text = text_of(buf, 0, -1, has_eol) }
  end
  local bottom = has_eol == copy.has_eol and copy.bottom or 0
  if bottom > 0 and copy.top + bottom >= math.max(count, copy.lines) then
    return nil
  elseif bottom > 0 then
    return {
      range = {
        start = { line = copy.top, character = 0 },
        ["end"] = { line = copy.lines - bottom, character = 0 },
      },
      text = text_of(buf, copy.top, count - bottom, true),
    }
  end
  -- The end of the text belongs to the change: begin at a line that both have.
  local top = math.max(0, math.min(copy.top, copy.lines - 1, count - 1))
  local finish = { line = copy.lines, character = 0 }
  if not copy.has_eol then
    finish = { line = copy.lines - 1, character = copy.last }
  end
  return {
    range = { start = { line = top, character = 0 }, ["end"] = finish },
    text = text_of(buf, top, -1, has_eol),
  }
end

---@param copy tinsmith.Copy
local function send(copy)
  local is_current = copies[copy.buf] == copy and not copy.client:is_stopped()
  if not is_current or not api.nvim_buf_is_loaded(copy.buf) then
    return
  end
  local change = difference(copy)
  if change then
    settle(copy)
    copy.client:notify("textDocument/didChange", {
      textDocument = { uri = copy.uri, version = documents.version(copy.buf) },
      contentChanges = { change },
    })
  end
end

---@param copy tinsmith.Copy
local function schedule(copy)
  if not copy.is_scheduled then
    copy.is_scheduled = true
    vim.defer_fn(function()
      copy.is_scheduled = false
      send(copy)
    end, DEBOUNCE_MS)
  end
end

---@param copy tinsmith.Copy
local function watch(copy)
  api.nvim_buf_attach(copy.buf, false, {
    on_lines = function(_, buf, _, first, last, new_last)
      if copies[buf] ~= copy then
        return true
      end
      copy.top = math.min(copy.top, first)
      copy.bottom = math.min(copy.bottom, copy.now - last)
      copy.now = copy.now + new_last - last
      schedule(copy)
    end,
    on_reload = function(_, buf)
      documents.forget(buf)
      if copies[buf] == copy then
        settle(copy)
      end
    end,
    on_detach = function(_, buf)
      documents.forget(buf)
      if copies[buf] == copy then
        copies[buf] = nil
      end
    end,
  })
end

---@param client vim.lsp.Client
---@param buf integer
local function attach(client, buf)
  local known = copies[buf]
  local is_known = known and known.client == client
  local is_inside = not client.root_dir or vim.fs.relpath(client.root_dir, api.nvim_buf_get_name(buf))
  if is_known or not documents.is_file(buf) or not is_inside then
    return
  end
  local copy = { buf = buf, client = client, uri = vim.uri_from_bufnr(buf), is_scheduled = false }
  copies[buf] = copy
  settle(copy)
  watch(copy)
  vim.lsp.buf_attach_client(buf, client.id)
end

--- The buffer has another name now: the document is closed under its old one.
---@param copy tinsmith.Copy
local function close(copy)
  copies[copy.buf] = nil
  copy.client:notify("textDocument/didClose", { textDocument = { uri = copy.uri } })
  vim.lsp.buf_detach_client(copy.buf, copy.client.id)
end

--- Let the server see every loaded file of the workspace, and each that comes later.
---@param client vim.lsp.Client
function M.follow(client)
  client.server_capabilities.textDocumentSync.change = NONE
  local group = api.nvim_create_augroup("tinsmith.mirror", { clear = true })
  local function on(events, pattern, act)
    api.nvim_create_autocmd(events, {
      group = group,
      pattern = pattern,
      callback = function(event)
        if not client:is_stopped() then
          act(event.buf, copies[event.buf])
        end
      end,
    })
  end
  on({ "BufReadPost", "BufNewFile" }, "*", function(buf)
    attach(client, buf)
  end)
  on("BufFilePost", "*", function(buf, copy)
    if copy and copy.uri ~= vim.uri_from_bufnr(buf) then
      close(copy)
    end
    attach(client, buf)
  end)
  on("BufWritePre", "*", function(_, copy)
    if copy then
      send(copy)
    end
  end)
  on("OptionSet", "endofline,fileformat", function(_, copy)
    if copy then
      schedule(copy)
    end
  end)
  for _, buf in ipairs(api.nvim_list_bufs()) do
    attach(client, buf)
  end
end

--- Send whatever the server does not know yet, before anything that relies on it.
function M.flush()
  for _, copy in pairs(copies) do
    send(copy)
  end
end

--- Whether the server has a copy of the buffer.
---@param buf integer
---@return boolean
function M.has(buf)
  return copies[buf] ~= nil
end

--- The open documents, for a turn's context.
---@return {uri: string, version: integer?, hash: string?, dirty: boolean}[]
function M.open()
  local open = {}
  for buf, copy in vim.spairs(copies) do
    open[#open + 1] = {
      uri = copy.uri,
      version = documents.version(buf),
      hash = documents.hash(buf),
      dirty = vim.bo[buf].modified,
    }
  end
  return open
end

return M
