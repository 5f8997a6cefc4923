-- What Tinsmith is doing, as data, as text and as `User Tinsmith*` events. Never starts anything.

local M = {}

local REDRAW_MS = 100

---@class tinsmith.Status
---@field state "idle"|"connecting"|"thinking"|"streaming"|"tool"|"approval"|"stopping"|"error"|"dead"
---@field conversation? string id
---@field title? string
---@field model? string
---@field role? string
---@field turn? string id of the running turn
---@field pending integer approvals that wait for an answer, in every conversation
---@field tokens {input: integer, output: integer, total: integer, context: integer, limit: integer}
---@field since? integer when the running turn started, in seconds since the epoch

local WORDS = {
  idle = "",
  connecting = "starting the server…",
  thinking = "thinking…",
  streaming = "writing…",
  tool = "working…",
  approval = "waits for your answer",
  stopping = "stopping…",
  error = "failed",
  dead = "server stopped",
}

local shown = {}
local is_scheduled = false

---@param conversation? tinsmith.Conversation
---@param pending integer of this conversation
---@return string
local function state_of(conversation, pending)
  local server = require("tinsmith.client").state()
  if server == "starting" then
    return "connecting"
  elseif server == "waiting" then
    return "dead"
  elseif not conversation then
    return "idle"
  elseif conversation.turn and conversation.turn.is_stopping then
    return "stopping"
  elseif pending > 0 then
    return "approval"
  end
  return conversation.activity
end

---@param id? string conversation; absent = the current one
---@return tinsmith.Status
function M.get(id)
  local conversations = package.loaded["tinsmith.conversations"]
  local status = {
    state = "idle",
    pending = 0,
    tokens = { input = 0, output = 0, total = 0, context = 0, limit = 0 },
  }
  if not conversations then
    return status
  end
  local approval = require("tinsmith.approval")
  local conversation = id and conversations.find(id) or conversations.current()
  status.pending = #approval.pending()
  status.state = state_of(conversation, conversation and #approval.pending(conversation.id) or 0)
  if conversation then
    local usage, context = conversation.usage, conversation.context
    status.conversation = conversation.id
    status.title = conversation.title
    status.model = conversation.model
    status.role = conversation.role
    status.turn = conversation.turn and conversation.turn.id
    status.since = conversation.turn and conversation.turn.since
    status.tokens = {
      input = usage.input or 0,
      output = usage.output or 0,
      total = usage.total or 0,
      context = context.used or 0,
      limit = context.size or 0,
    }
  end
  return status
end

--- One short text for a status line; empty when there is nothing to say.
---@return string
function M.text()
  local status = M.get()
  local parts = { WORDS[status.state] }
  if status.pending > 0 then
    parts[#parts + 1] = ("%d to approve"):format(status.pending)
  end
  local text = table.concat(
    vim.tbl_filter(function(part)
      return part ~= ""
    end, parts),
    " · "
  )
  return text == "" and "" or "Tinsmith " .. text
end

--- What the agent is doing in a conversation, in words; nil when it rests.
---@param id string
---@return string?
function M.activity(id)
  local state = M.get(id).state
  return state ~= "idle" and state ~= "error" and WORDS[state] or nil
end

--- What stands above a transcript, the title or what there is instead of it first.
---@param id string
---@return string[]
function M.describe(id)
  local status = M.get(id)
  local parts = { status.title or "", status.model or "", WORDS[status.state] }
  if status.tokens.limit > 0 then
    parts[#parts + 1] = ("context %d %%"):format(100 * status.tokens.context / status.tokens.limit)
  end
  return vim.tbl_filter(function(part)
    return part ~= ""
  end, parts)
end

--- Fire `User Tinsmith<name>`. A faulty subscriber stops nothing.
---@param name string
---@param payload table
function M.announce(name, payload)
  local event = { pattern = "Tinsmith" .. name, modeline = false, data = payload }
  local is_done, problem = pcall(vim.api.nvim_exec_autocmds, "User", event)
  if not is_done then
    require("tinsmith.say")(
      ("a User %s autocommand failed: %s"):format(event.pattern, problem),
      vim.log.levels.ERROR
    )
  end
end

--- Something may have changed: tell who wants to know, if it did.
function M.changed()
  local status = M.get()
  if vim.deep_equal(status, shown) then
    return
  end
  shown = status
  M.announce("Status", status)
  if not is_scheduled then
    is_scheduled = true
    vim.defer_fn(function()
      is_scheduled = false
      vim.cmd.redrawstatus({ bang = true })
    end, REDRAW_MS)
  end
end

return M
