-- `agent/symbols`: what the other language servers know of a name, or of one buffer.

local documents = require("tinsmith.documents")

local M = {}

local MOST_FOUND = 1000
local MOST_IN_A_BUFFER = 6000

--- Ask all of these clients at once; what each answered within the time, in their order.
---@param clients vim.lsp.Client[]
---@param method string
---@param params table
---@param buf integer
---@param wait_ms integer
---@return table[][] answers, without the empty ones
local function ask(clients, method, params, buf, wait_ms)
  local asking = coroutine.running()
  local results, open, is_waiting = {}, {}, false
  local function go_on()
    if is_waiting then
      is_waiting = false
      coroutine.resume(asking)
    end
  end
  for at, client in ipairs(clients) do
    open[at] = true
    local is_sent, id = client:request(method, params, function(problem, result)
      results[at] = not problem and type(result) == "table" and result or nil
      open[at] = nil
      if next(open) == nil then
        go_on()
      end
    end, buf)
    open[at] = is_sent and open[at] and id or nil
  end
  if next(open) ~= nil then
    is_waiting = true
    vim.defer_fn(go_on, wait_ms)
    coroutine.yield()
  end
  for at, id in pairs(open) do
    clients[at]:cancel_request(id)
  end
  local answers = {}
  for at = 1, #clients do
    if results[at] and #results[at] > 0 then
      table.insert(answers, results[at])
    end
  end
  return answers
end

--- The other clients that answer a method, all of them or those of a buffer.
---@param own vim.lsp.Client
---@param method string
---@param buf? integer
---@return vim.lsp.Client[]
local function able(own, method, buf)
  return vim.tbl_filter(function(client)
    return client.id ~= own.id
  end, vim.lsp.get_clients({ method = method, bufnr = buf }))
end

--- Add a symbol and what stands in it, in the shape of our protocol; LSP has three others.
---@param found table[]
---@param symbol lsp.DocumentSymbol|lsp.SymbolInformation|lsp.WorkspaceSymbol
---@param uri? string
---@param container? string
---@param most integer
local function add(found, symbol, uri, container, most)
  local range = symbol.range or symbol.location and symbol.location.range
  if not range or #found >= most then
    return
  end
  local last = range["end"].line
  if range["end"].character == 0 and last > range.start.line then
    last = last - 1
  end
  table.insert(found, {
    uri = symbol.location and symbol.location.uri or uri,
    name = symbol.name,
    kind = symbol.kind,
    startLine = range.start.line,
    endLine = last,
    containerName = container or symbol.containerName or "",
  })
  for _, inner in ipairs(symbol.children or {}) do
    add(found, inner, uri, symbol.name, most)
  end
end

---@param own vim.lsp.Client
---@param uri string
---@param wait_ms integer
---@return table SymbolsResult
local function of_buffer(own, uri, wait_ms)
  local buf = documents.find(uri)
  local found = {}
  if not buf then
    return { symbols = found }
  end
  local method = "textDocument/documentSymbol"
  local version = documents.version(buf)
  local params = { textDocument = { uri = vim.uri_from_bufnr(buf) } }
  local answers = ask(able(own, method, buf), method, params, buf, wait_ms)
  for _, symbol in ipairs(answers[1] or {}) do
    add(found, symbol, uri, nil, MOST_IN_A_BUFFER)
  end
  return { symbols = found, version = version }
end

---@param own vim.lsp.Client
---@param query string
---@param wait_ms integer
---@return table SymbolsResult
local function of_workspace(own, query, wait_ms)
  local method = "workspace/symbol"
  local found = {}
  for _, answer in ipairs(ask(able(own, method), method, { query = query }, 0, wait_ms)) do
    for _, symbol in ipairs(answer) do
      add(found, symbol, nil, nil, MOST_FOUND)
    end
  end
  return { symbols = found }
end

--- Answer the server; other requests are served meanwhile.
---@param own vim.lsp.Client
---@param params {waitMs: integer, query?: string, uri?: string}
---@return table SymbolsResult
function M.answer(own, params)
  if type(params.uri) == "string" then
    return of_buffer(own, params.uri, params.waitMs)
  end
  return of_workspace(own, params.query, params.waitMs)
end

return M
