-- `:Tinsmith`: one table, from which dispatch, completion and messages follow.

local M = {}

---@class tinsmith.Subcommand
---@field run fun(text: string, invocation: table)
---@field needs? string what must be given
---@field choices? string[] what may be given

---@return table
local function api()
  return require("tinsmith")
end

---@type table<string, tinsmith.Subcommand>
local subcommands = {
  toggle = {
    run = function(_, invocation)
      api().toggle(invocation.mods)
    end,
    choices = {},
  },
  ask = {
    run = function(text, invocation)
      local has_range = invocation.range > 0
      local selection = has_range
        and require("tinsmith.context").selection(invocation.line1, invocation.line2)
      api().ask(text, selection or nil)
    end,
  },
  steer = {
    run = function(text)
      api().steer(text)
    end,
  },
  stop = {
    run = function()
      api().stop()
    end,
    choices = {},
  },
  new = {
    run = function()
      api().new()
    end,
    choices = {},
  },
  list = {
    run = function()
      api().list()
    end,
    choices = {},
  },
  load = {
    run = function(id)
      api().load(id)
    end,
    needs = "the id of a conversation; :Tinsmith list lets you choose",
  },
  approve = {
    run = function(_, invocation)
      api().approve(invocation.bang and "conversation" or "once")
    end,
    choices = {},
  },
  deny = {
    run = function(reason)
      api().deny(reason ~= "" and reason or nil)
    end,
  },
  inspect = {
    run = function(what)
      api().inspect(what ~= "" and what or nil)
    end,
    choices = { "context", "messages", "config", "server" },
  },
  restart = {
    run = function()
      api().restart()
    end,
    choices = {},
  },
  log = {
    run = function()
      api().log()
    end,
    choices = {},
  },
}

---@return string[]
function M.names()
  return vim.fn.sort(vim.tbl_keys(subcommands))
end

--- Carry out a command line. `:Tinsmith approve!` and `:Tinsmith! approve` are the same.
---@param invocation table as of nvim_create_user_command
function M.run(invocation)
  local say = require("tinsmith.say")
  local name, bang, text = invocation.args:match("^(%a*)(!?)%s*(.-)%s*$")
  name = name == "" and invocation.args == "" and "toggle" or name
  local subcommand = subcommands[name]
  if not subcommand then
    say(
      ("%q is no subcommand; there are %s."):format(invocation.args, table.concat(M.names(), ", ")),
      vim.log.levels.ERROR
    )
  elseif subcommand.needs and text == "" then
    say(("%s needs %s."):format(name, subcommand.needs), vim.log.levels.ERROR)
  elseif subcommand.choices and text ~= "" and not vim.list_contains(subcommand.choices, text) then
    local allowed = #subcommand.choices > 0 and table.concat(subcommand.choices, ", ") or "nothing"
    say(("%s takes %s, not %q."):format(name, allowed, text), vim.log.levels.ERROR)
  else
    invocation.bang = invocation.bang or bang == "!"
    subcommand.run(text, invocation)
  end
end

--- Completion of `:Tinsmith`.
---@param lead string
---@param line string
---@return string[]
function M.complete(lead, line)
  local name = line:match("Tinsmith!?%s+(%a+)!?%s")
  local candidates = M.names()
  if name then
    candidates = subcommands[name] and subcommands[name].choices or {}
  end
  return vim.tbl_filter(function(candidate)
    return vim.startswith(candidate, lead)
  end, candidates)
end

return M
