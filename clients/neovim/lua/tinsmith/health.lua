-- `:checkhealth tinsmith`: starts the server unless it runs, and says what works.

local client = require("tinsmith.client")
local config = require("tinsmith.config")

local M = {}

local WAIT_MS = 15000

---@param description string
---@param call fun(done: fun(...))
---@return boolean is_done, any ...
local function await(description, call)
  local results
  call(function(...)
    results = { ... }
  end)
  vim.wait(WAIT_MS, function()
    return results ~= nil
  end, 10)
  if not results then
    vim.health.error(("%s: no answer within %d s."):format(description, WAIT_MS / 1000), ":Tinsmith log")
    return false
  end
  return true, unpack(results)
end

local function check_editor()
  vim.health.start("Neovim")
  vim.health.ok(("Neovim %s"):format(vim.version()))
  if vim.treesitter.language.add("markdown") then
    vim.health.ok("the Markdown parser highlights transcripts")
  else
    vim.health.info("no Markdown parser: transcripts are shown without Markdown colours")
  end
  local problems = config.problems()
  for _, problem in ipairs(problems) do
    vim.health.warn(problem, ":help tinsmith-options")
  end
  if #problems == 0 then
    vim.health.ok("options are valid")
  end
end

---@return boolean
local function check_program()
  local cmd = config.get().cmd or vim.lsp.config.tinsmith.cmd
  if type(cmd) ~= "table" then
    vim.health.info("the server is reached by a function of vim.lsp.config")
    return true
  end
  local path = vim.fn.exepath(cmd[1])
  if path == "" then
    vim.health.error(("%s cannot be run"):format(cmd[1]), {
      "Install it: pip install tinsmith",
      'Or name it: vim.g.tinsmith = { cmd = { "/path/to/tinsmith", "serve" } }',
    })
    return false
  end
  vim.health.ok(("%s (%s)"):format(table.concat(cmd, " "), path))
  return true
end

---@param lsp vim.lsp.Client
local function check_agreement(lsp)
  local server = lsp.server_info or {}
  vim.health.ok(
    ("server %s %s, workspace %s"):format(server.name or "?", server.version or "?", client.root())
  )
  local agent = vim.tbl_get(lsp.server_capabilities, "experimental", "agent")
  if agent and agent.version == 1 then
    vim.health.ok(("protocol version %d, positions in %s"):format(agent.version, lsp.offset_encoding))
  else
    vim.health.error(
      "the server does not speak version 1 of the agent protocol",
      "Update Tinsmith and this plug-in together."
    )
  end
end

local function check_settings()
  local is_done, problem, settings = await("agent/configGet", function(done)
    client.request("agent/configGet", vim.empty_dict(), done)
  end)
  if not is_done then
    return
  elseif problem then
    vim.health.error("agent/configGet: " .. problem.message)
    return
  end
  for _, fault in ipairs(settings.problems or {}) do
    vim.health.warn(fault)
  end
  local values = settings.values
  local model = vim.tbl_get(values, "models", values.active_role or "direct")
    or vim.tbl_get(values, "models", "default")
    or values.default_model
  if model then
    vim.health.ok(
      ("model: %s, role: %s, permission mode: %s"):format(model, values.active_role, values.permission_mode)
    )
  else
    vim.health.warn("no model is configured: a turn would fail at once", {
      "Set default_model and llm_config.base_url in tinsmith.json",
      'Or here: vim.g.tinsmith = { settings = { default_model = "..." } }',
    })
  end
end

function M.check()
  check_editor()
  vim.health.start("Server")
  if not check_program() then
    return
  end
  local was_running = client.state() == "ready"
  require("tinsmith.conversations")
  local began = vim.uv.hrtime()
  local is_done, problem = await("initialize", client.ensure)
  if not is_done then
    return
  elseif problem then
    vim.health.error(problem, ":Tinsmith log")
    return
  end
  if was_running then
    vim.health.ok("the server is running")
  else
    vim.health.ok(("started and answered in %d ms"):format((vim.uv.hrtime() - began) / 1e6))
  end
  check_agreement(assert(client.lsp()))
  check_settings()
  if not was_running then
    await("shutdown", client.stop)
  end
end

return M
