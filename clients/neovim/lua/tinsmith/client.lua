-- The server process: started on first use, watched, restarted with backoff, stopped for certain.
--
--   absent -> starting -> ready -> absent (asked to stop)
--                 \         \----> waiting -> starting (it died; at most three times in a row)
--                  \-------------> absent (it never became ready)

local launch = require("tinsmith.launch")
local mirror = require("tinsmith.mirror")

local M = {}

local READY_WITHIN_MS = 15000
local ANSWER_WITHIN_MS = 30000
local TERMINATE_AFTER_MS = 2000
local BACKOFF_MS = { 200, 1000, 3000 }
local STEADY_AFTER_MS = 60000

---@class tinsmith.Process
---@field state "absent"|"starting"|"ready"|"waiting"
---@field client? vim.lsp.Client
---@field starts integer tells one start from the next
---@field root? string
---@field waiting fun(problem?: string)[] who wants to know when it is ready
---@field open table<integer, fun(problem: table)> requests without an answer
---@field crashes integer in a row
---@field started integer ms of the loop's clock
---@field is_stopping boolean
---@field gone fun()[] who asked it to stop
---@field journal string[] what happened to the process, for :Tinsmith log

---@type tinsmith.Process
local process = {
  state = "absent",
  waiting = {},
  open = {},
  starts = 0,
  crashes = 0,
  started = 0,
  is_stopping = false,
  gone = {},
  journal = {},
}

--- Told about the process's life; set once by the conversations.
---@class tinsmith.Observer
---@field event fun(event: table)
---@field permission fun(params: table): table
---@field died fun(how: string)
---@field recovered fun()
---@field changed fun()
local observer

---@param line string
local function note(line)
  table.insert(process.journal, os.date("%H:%M:%S ") .. line)
  if #process.journal > 200 then
    table.remove(process.journal, 1)
  end
end

---@param state "absent"|"starting"|"ready"|"waiting"
local function enter(state)
  process.state = state
  note(state)
  observer.changed()
end

---@param problem? string
local function answer_waiting(problem)
  local waiting = process.waiting
  process.waiting = {}
  for _, callback in ipairs(waiting) do
    callback(problem)
  end
end

---@param milliseconds integer
---@param callback fun()
local function after(milliseconds, callback)
  vim.defer_fn(callback, milliseconds)
end

---@param how string
local function fail_open_requests(how)
  local open = process.open
  process.open = {}
  for _, fail in pairs(open) do
    fail({ message = how })
  end
end

local start

---@param code integer
---@param signal integer
local function on_exit(code, signal)
  local how = signal ~= 0 and ("signal %d"):format(signal) or ("exit code %d"):format(code)
  note("exited: " .. how)
  process.client = nil
  fail_open_requests(("The server stopped (%s)."):format(how))
  if process.is_stopping or process.state == "starting" then
    local gone = process.gone
    process.is_stopping, process.gone = false, {}
    enter("absent")
    answer_waiting(("the server ended at once (%s); see :Tinsmith log."):format(how))
    for _, callback in ipairs(gone) do
      callback()
    end
    return
  end
  local now = vim.uv.now()
  process.crashes = now - process.started > STEADY_AFTER_MS and 1 or process.crashes + 1
  local delay = BACKOFF_MS[process.crashes]
  enter(delay and "waiting" or "absent")
  observer.died(delay and how or how .. ", too often in a row; :Tinsmith restart tries again")
  if delay then
    after(delay, function()
      if process.state == "waiting" then
        start()
      end
    end)
  end
end

local handlers = {
  ["agent/event"] = function(_, event)
    observer.event(event)
  end,
  ["agent/requestPermission"] = function(_, params)
    return observer.permission(params)
  end,
  ["agent/applyEdits"] = function(_, params)
    return require("tinsmith.edits").apply(process.client, params)
  end,
  ["agent/reloadDocument"] = function(_, params)
    return require("tinsmith.reload").reload(params)
  end,
  ["agent/diagnostics"] = function(_, params)
    return require("tinsmith.diagnostics").answer(process.client, params)
  end,
  ["agent/symbols"] = function(_, params)
    return require("tinsmith.symbols").answer(process.client, params)
  end,
}

---@param client vim.lsp.Client
local function on_ready(client)
  note(("ready after %d ms"):format(vim.uv.now() - process.started))
  mirror.follow(client)
  require("tinsmith.diagnostics").follow(client)
  enter("ready")
  answer_waiting()
  if process.crashes > 0 then
    observer.recovered()
  end
end

function start()
  process.root = process.root or launch.root()
  process.started = vim.uv.now()
  process.starts = process.starts + 1
  local number = process.starts
  enter("starting")
  local client, problem = launch.start({
    root = process.root,
    handlers = handlers,
    on_ready = on_ready,
    on_exit = function(code, signal)
      if process.starts == number then
        on_exit(code, signal)
      end
    end,
  })
  process.client = client
  if not client then
    note(problem or "")
    enter("absent")
    answer_waiting(problem)
    return
  end
  after(READY_WITHIN_MS, function()
    if process.client == client and process.state == "starting" then
      note("not ready in time")
      client.rpc.terminate()
    end
  end)
end

--- Tell the conversations about this process. Called once, by them.
---@param given tinsmith.Observer
function M.observe(given)
  observer = given
end

--- Call back when the server is ready, starting it if need be.
---@param callback fun(problem?: string)
function M.ensure(callback)
  if process.state == "ready" then
    callback()
    return
  end
  table.insert(process.waiting, callback)
  if process.state ~= "starting" then
    start()
  end
end

--- Ask the server; every call is answered exactly once, also when the server dies or is silent.
---@param method string
---@param params table
---@param callback fun(problem?: {message: string, data?: table}, result?: table)
function M.request(method, params, callback)
  local client = process.client
  if not client or process.state ~= "ready" then
    callback({ message = "The server is not running; :Tinsmith restart starts it." })
    return
  end
  local id
  local function answer(problem, result)
    if callback then
      local answered = callback
      callback = nil
      process.open[id or -1] = nil
      answered(problem, result)
    end
  end
  local is_sent, request_id = client:request(method, params, answer)
  if not is_sent or not request_id then
    answer({ message = "The server is stopping; try again in a moment." })
    return
  end
  id = request_id
  process.open[id] = answer
  after(ANSWER_WITHIN_MS, function()
    answer({
      message = ("The server did not answer %s; :Tinsmith restart helps."):format(method),
    })
  end)
end

--- Stop the server: politely, and after two seconds for certain. Calls back when it is gone.
---@param callback fun()
function M.stop(callback)
  process.crashes = 0
  local client = process.client
  if not client then
    if process.state == "waiting" then
      enter("absent")
    end
    callback()
    return
  end
  table.insert(process.gone, callback)
  process.is_stopping = true
  client:stop()
  after(TERMINATE_AFTER_MS, function()
    if process.client == client then
      note("did not stop when asked; terminated")
      client.rpc.terminate()
    end
  end)
end

---@return "absent"|"starting"|"ready"|"waiting"
function M.state()
  return process.state
end

---@return string? path of the workspace's root
function M.root()
  return process.root
end

---@return vim.lsp.Client?
function M.lsp()
  return process.client
end

---@return string[]
function M.journal()
  return process.journal
end

return M
