-- `agent/diagnostics`: what the other language servers find in a buffer, once they have seen the version asked for.
--
-- Neovim does not say which version a finding speaks of. Here it is the one that every server of the buffer had been
-- sent when findings last arrived.

local documents = require("tinsmith.documents")

local api = vim.api

local M = {}

local SETTLE_MS = 100

---@type table<integer, integer> by buffer: the version that its findings speak of
local spoken = {}
---@type table<integer, table<integer, integer>> by buffer and client: the version that was sent last
local sent = {}
---@type fun()[] who waits for findings
local waiting = {}

--- The clients of a buffer but ours.
---@param own vim.lsp.Client
---@param buf integer
---@return vim.lsp.Client[]
local function others(own, buf)
  return vim.tbl_filter(function(client)
    return client.id ~= own.id
  end, vim.lsp.get_clients({ bufnr = buf }))
end

---@param own vim.lsp.Client
---@param buf integer
local function on_changed(own, buf)
  local least
  for _, client in ipairs(others(own, buf)) do
    local version = sent[buf] and sent[buf][client.id] or spoken[buf]
    if version then
      least = math.min(least or version, version)
    end
  end
  spoken[buf] = least or spoken[buf]
  for _, look in ipairs(vim.list_slice(waiting)) do
    look()
  end
end

--- Watch what the other servers are sent and what they find, from now on.
---@param own vim.lsp.Client
function M.follow(own)
  spoken, sent = {}, {}
  local group = api.nvim_create_augroup("tinsmith.diagnostics", {})
  api.nvim_create_autocmd("LspNotify", {
    group = group,
    callback = function(event)
      local notified = event.data
      if notified.method == "textDocument/didChange" and notified.client_id ~= own.id then
        local document = notified.params.textDocument
        local buf = vim.uri_to_bufnr(document.uri)
        sent[buf] = sent[buf] or {}
        sent[buf][notified.client_id] = document.version
      end
    end,
  })
  api.nvim_create_autocmd("DiagnosticChanged", {
    group = group,
    callback = function(event)
      on_changed(own, event.buf)
    end,
  })
  api.nvim_create_autocmd("BufUnload", {
    group = group,
    callback = function(event)
      spoken[event.buf], sent[event.buf] = nil, nil
    end,
  })
end

--- A position of a finding, in bytes, as our server counts.
---@param buf integer
---@param row integer
---@param column integer
---@param encoding string
local function position(buf, row, column, encoding)
  local line = api.nvim_buf_is_loaded(buf) and api.nvim_buf_get_lines(buf, row, row + 1, false)[1] or ""
  local bytes = math.min(column, #line)
  return { line = row, character = line == "" and column or vim.str_utfindex(line, encoding, bytes, false) }
end

---@param own vim.lsp.Client
---@param buf integer
---@param uri string
local function document_of(own, buf, uri)
  local encoding = own.offset_encoding
  local items = {}
  for _, found in ipairs(vim.diagnostic.get(buf)) do
    table.insert(items, {
      range = {
        start = position(buf, found.lnum, found.col, encoding),
        ["end"] = position(buf, found.end_lnum or found.lnum, found.end_col or found.col, encoding),
      },
      message = found.message,
      severity = found.severity,
      source = found.source,
      code = found.code,
    })
  end
  local is_watched = #others(own, buf) > 0
  return { uri = uri, version = is_watched and spoken[buf] or nil, items = items }
end

--- Wait, in the coroutine of the server's request, until these buffers' findings speak of these versions.
---@param wanted table<integer, integer> version by buffer
---@param wait_ms integer
local function wait(wanted, wait_ms)
  local asking = coroutine.running()
  local look
  local function go_on()
    if look then
      waiting = vim.tbl_filter(function(each)
        return each ~= look
      end, waiting)
      look = nil
      coroutine.resume(asking)
    end
  end
  look = function()
    for buf, version in pairs(wanted) do
      if (spoken[buf] or 0) < version and api.nvim_buf_is_loaded(buf) then
        return
      end
    end
    vim.defer_fn(go_on, SETTLE_MS) -- another server may have something to add
  end
  table.insert(waiting, look)
  vim.defer_fn(go_on, wait_ms)
  coroutine.yield()
end

--- The buffers that are asked for: those named, or all with findings.
---@param uris string[]
---@return {uri: string, buf: integer}[]
local function asked_for(uris)
  local found = {}
  for _, uri in ipairs(uris) do
    local buf = documents.find(uri)
    if buf then
      table.insert(found, { uri = uri, buf = buf })
    end
  end
  if #uris > 0 then
    return found
  end
  local seen = {}
  for _, each in ipairs(vim.diagnostic.get()) do
    local buf = each.bufnr
    if not seen[buf] and api.nvim_buf_is_valid(buf) and vim.bo[buf].buftype == "" then
      seen[buf] = true
      table.insert(found, { uri = vim.uri_from_bufnr(buf), buf = buf })
    end
  end
  return found
end

--- Answer the server; other requests are served meanwhile.
---@param own vim.lsp.Client
---@param params {uris: string[], minVersions: table<string, integer>, waitMs: integer}
---@return table DiagnosticsResult
function M.answer(own, params)
  local wanted = {}
  for _, each in ipairs(asked_for(params.uris)) do
    spoken[each.buf] = spoken[each.buf] or documents.version(each.buf)
  end
  for uri, version in pairs(params.minVersions) do
    local buf = documents.find(uri)
    if buf and #others(own, buf) > 0 and (spoken[buf] or version) < version then
      wanted[buf] = version
    end
  end
  if params.waitMs > 0 and next(wanted) then
    wait(wanted, params.waitMs)
  end
  local found = {}
  for _, each in ipairs(asked_for(params.uris)) do
    table.insert(found, document_of(own, each.buf, each.uri))
  end
  return { documents = found }
end

return M
