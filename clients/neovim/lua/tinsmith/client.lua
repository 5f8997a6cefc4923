-- The server process: started on first use, watched, restarted with backoff, stopped for certain.
--
--   absent -> starting -> ready -> absent (asked to stop)
--                 \         \----> waiting -> starting (it died; at most three times in a row)
--                  \-------------> absent (it never became ready)

local config = require("tinsmith.config")
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
---@field launch? table tells one start from the next
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

---@param launch table
---@param code integer
---@param signal integer
local function on_exit(launch, code, signal)
  if process.launch ~= launch then
    return
  end
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

--- Start the process as Neovim would, but report its end ourselves: Neovim's own report is longer than the
--- message area and would hold the editor at a prompt.
---@param base table the client's configuration
---@param launch table
---@return fun(dispatchers: table, config: table): table
local function launcher(base, launch)
  return function(dispatchers, resolved)
    local told = vim.tbl_extend("force", dispatchers, {
      on_exit = function(code, signal)
        vim.schedule(function()
          on_exit(launch, code, signal)
        end)
        dispatchers.on_exit(0, 0)
      end,
    })
    if type(base.cmd) == "function" then
      return base.cmd(told, resolved)
    end
    return vim.lsp.rpc.start(
      base.cmd,
      told,
      { cwd = base.cmd_cwd, env = base.cmd_env, detached = base.detached }
    )
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
}

---@param client vim.lsp.Client
local function on_ready(client)
  note(("ready after %d ms"):format(vim.uv.now() - process.started))
  mirror.follow(client)
  enter("ready")
  answer_waiting()
  if process.crashes > 0 then
    observer.recovered()
  end
end

---@return string
local function find_root()
  local markers = vim.lsp.config.tinsmith.root_markers
  local is_file = vim.bo.buftype == "" and vim.api.nvim_buf_get_name(0) ~= ""
  return (is_file and vim.fs.root(0, markers)) or vim.fs.root(vim.fn.getcwd(), markers) or vim.fn.getcwd()
end

---@param problem string
local function give_up(problem)
  note(problem)
  enter("absent")
  answer_waiting(problem)
end

function start()
  process.root = process.root or find_root()
  process.started = vim.uv.now()
  enter("starting")
  local options = config.get()
  local base = vim.deepcopy(vim.lsp.config.tinsmith)
  base.cmd = options.cmd or base.cmd
  local program = type(base.cmd) == "table" and base.cmd[1]
  if program and vim.fn.executable(program) == 0 then
    give_up(("cannot run %s; :checkhealth tinsmith helps."):format(program))
    return
  end
  local launch = {}
  process.launch = launch
  local settings = vim.tbl_deep_extend("force", base, {
    name = "tinsmith",
    cmd = launcher(base, launch),
    root_dir = process.root,
    init_options = options.settings and { settings = options.settings },
    handlers = handlers,
    on_init = on_ready,
  })
  local id = vim.lsp.start(settings, {
    attach = false,
    silent = true,
    reuse_client = function()
      return false
    end,
  })
  process.client = id and vim.lsp.get_client_by_id(id)
  if not process.client then
    give_up("the server could not be started; see :Tinsmith log.")
    return
  end
  after(READY_WITHIN_MS, function()
    if process.launch == launch and process.state == "starting" then
      note("not ready in time")
      process.client.rpc.terminate()
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
