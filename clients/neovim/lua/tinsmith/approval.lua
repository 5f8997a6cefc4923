-- Questions of the server that a person answers whenever they like: nothing blocks, nothing takes the focus.

local say = require("tinsmith.say")
local status = require("tinsmith.status")

local M = {}

---@class tinsmith.Question
---@field request table RequestPermissionParams
---@field conversation tinsmith.Conversation
---@field reply fun(result: table)

---@type tinsmith.Question[]
local waiting = {}

--- The questions without an answer, oldest first.
---@param conversation? string only those of this conversation
---@return tinsmith.Question[]
function M.pending(conversation)
  return vim.tbl_filter(function(question)
    return not conversation or question.request.conversationId == conversation
  end, waiting)
end

---@param key string requestKey
---@return tinsmith.Question?
local function take(key)
  for index, question in ipairs(waiting) do
    if question.request.requestKey == key then
      return table.remove(waiting, index)
    end
  end
end

---@param question tinsmith.Question
---@param outcome string
---@param result table
local function finish(question, outcome, result)
  local request, conversation = question.request, question.conversation
  conversation.transcript.blocks:resolved(request.requestKey, outcome)
  conversation:refresh()
  question.reply(result)
  status.announce("ApprovalResolved", {
    requestKey = request.requestKey,
    conversationId = request.conversationId,
    outcome = outcome,
  })
end

--- Wait, in the coroutine of the server's request, for the person's answer.
---@param request table RequestPermissionParams
---@param conversation tinsmith.Conversation
---@return table RequestPermissionResult
function M.ask(request, conversation)
  local asking = coroutine.running()
  local function reply(result)
    local is_done, problem = coroutine.resume(asking, result)
    if not is_done then
      say(("the answer could not be sent: %s"):format(problem), vim.log.levels.ERROR)
    end
  end
  table.insert(waiting, { request = request, conversation = conversation, reply = reply })
  conversation:refresh()
  status.announce("ApprovalRequested", {
    requestKey = request.requestKey,
    conversationId = request.conversationId,
    title = request.title,
  })
  say(("%s? :Tinsmith approve | deny"):format(request.title), vim.log.levels.WARN)
  return coroutine.yield()
end

--- Give an answer.
---@param question tinsmith.Question
---@param option table PermissionOption
---@param feedback? string
function M.answer(question, option, feedback)
  if take(question.request.requestKey) then
    finish(question, option.kind == "allow" and "allow" or "deny", {
      optionId = option.optionId,
      feedback = feedback or "",
    })
  end
end

--- The question needs no answer any more: somebody else gave one, or nobody waits for it.
---@param key string requestKey
---@param outcome string
function M.resolve(key, outcome)
  local question = take(key)
  if question then
    finish(question, outcome, { optionId = "", feedback = "" })
  end
end

--- Close every question of a turn, or of every turn.
---@param turn? string
function M.close(turn)
  for _, question in ipairs(M.pending()) do
    if not turn or question.request.turnId == turn then
      M.resolve(question.request.requestKey, "cancelled")
    end
  end
end

--- The option of a kind with a scope.
---@param question tinsmith.Question
---@param kind "allow"|"deny"|"cancelTurn"
---@param scope string
---@return table? option
function M.option(question, kind, scope)
  for _, option in ipairs(question.request.options) do
    if option.kind == kind and option.scope == scope then
      return option
    end
  end
end

return M
