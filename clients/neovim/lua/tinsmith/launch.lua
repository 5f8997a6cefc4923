-- Starting the server's process as an LSP client of Neovim.

local config = require("tinsmith.config")

local M = {}

---@class tinsmith.Launch
---@field root string
---@field handlers table<string, function>
---@field on_ready fun(client: vim.lsp.Client)
---@field on_exit fun(code: integer, signal: integer)

--- Start the process as Neovim would, but report its end ourselves: Neovim's own report is longer than the
--- message area and would hold the editor at a prompt.
---@param base table the client's configuration
---@param on_exit fun(code: integer, signal: integer)
---@return fun(dispatchers: table, config: table): table
local function starter(base, on_exit)
  return function(dispatchers, resolved)
    local told = vim.tbl_extend("force", dispatchers, {
      on_exit = function(code, signal)
        vim.schedule(function()
          on_exit(code, signal)
        end)
        dispatchers.on_exit(0, 0)
      end,
    })
    if type(base.cmd) == "function" then
      return base.cmd(told, resolved)
    end
    local spawning = { cwd = base.cmd_cwd, env = base.cmd_env, detached = base.detached }
    return vim.lsp.rpc.start(base.cmd, told, spawning)
  end
end

--- The workspace of what is being edited: the nearest directory with a root marker, else the current one.
---@return string path
function M.root()
  local markers = vim.lsp.config.tinsmith.root_markers
  local is_file = vim.bo.buftype == "" and vim.api.nvim_buf_get_name(0) ~= ""
  return (is_file and vim.fs.root(0, markers)) or vim.fs.root(vim.fn.getcwd(), markers) or vim.fn.getcwd()
end

--- Start the server; it is ready when it has said so.
---@param launch tinsmith.Launch
---@return vim.lsp.Client? client
---@return string? problem
function M.start(launch)
  local options = config.get()
  local base = vim.deepcopy(vim.lsp.config.tinsmith)
  base.cmd = options.cmd or base.cmd
  local program = type(base.cmd) == "table" and base.cmd[1]
  if program and vim.fn.executable(program) == 0 then
    return nil, ("cannot run %s; :checkhealth tinsmith helps."):format(program)
  end
  local settings = vim.tbl_deep_extend("force", base, {
    name = "tinsmith",
    cmd = starter(base, launch.on_exit),
    root_dir = launch.root,
    init_options = options.settings and { settings = options.settings },
    handlers = launch.handlers,
    on_init = launch.on_ready,
  })
  local id = vim.lsp.start(settings, {
    attach = false,
    silent = true,
    reuse_client = function()
      return false
    end,
  })
  local client = id and vim.lsp.get_client_by_id(id)
  return client, not client and "the server could not be started; see :Tinsmith log." or nil
end

return M
