-- One conversation as this editor follows it: its events in order, its state, its transcript.

local approval = require("tinsmith.approval")
local client = require("tinsmith.client")
local say = require("tinsmith.say")
local status = require("tinsmith.status")
local transcript = require("tinsmith.transcript")

local M = {}

---@class tinsmith.Turn
---@field id string
---@field since integer
---@field is_stopping? boolean

---@class tinsmith.Conversation
---@field id string
---@field title string
---@field model string
---@field role string
---@field epoch? string of the server instance that numbers the events
---@field seq integer last event taken in
---@field is_catching_up boolean events are passed over until the answer that replays or replaces them
---@field turn? tinsmith.Turn
---@field activity string
---@field usage table
---@field context table
---@field lost? integer code points of the answer that a dead server had not stored
---@field transcript tinsmith.Transcript
local Conversation = {}
Conversation.__index = Conversation

---@param id string
---@return tinsmith.Conversation
function M.new(id)
  return setmetatable({
    id = id,
    title = "",
    model = "",
    role = "",
    seq = 0,
    is_catching_up = false,
    activity = "idle",
    usage = {},
    context = {},
    transcript = transcript.new(id),
  }, Conversation)
end

--- Draw what changed and tell who wants to know.
function Conversation:refresh()
  self.transcript:show_activity(status.activity(self.id))
  self.transcript:touch()
  status.changed()
end

---@param turn_id string
function Conversation:begin(turn_id)
  if not self.turn or self.turn.id ~= turn_id then
    self.turn = { id = turn_id, since = os.time() }
  end
  self.activity = "thinking"
  self.transcript:set_busy(true)
  self:refresh()
end

---@param activity string
function Conversation:rest(activity)
  self.turn = nil
  self.activity = activity
  self.transcript:set_busy(false)
  self:refresh()
end

---@param severity string
---@param message string
function Conversation:notice(severity, message)
  self.transcript.blocks:notice(severity, message)
  self:refresh()
  if not self.transcript:is_visible() then
    say(message, severity == "info" and vim.log.levels.INFO or vim.log.levels.ERROR)
  end
end

---@type table<string, fun(conversation: tinsmith.Conversation, event: table)>
local on = {}

function on.turnStarted(conversation, event)
  conversation.model, conversation.role = event.model, event.role
  conversation:begin(event.turnId)
  status.announce("TurnStarted", { conversationId = conversation.id, turnId = event.turnId })
end

function on.activityUpdated(conversation, event)
  if conversation.turn and event.state == "cancelling" then
    conversation.turn.is_stopping = true
  elseif event.state ~= "cancelling" then
    conversation.activity = event.state
  end
end

function on.textDelta(conversation)
  conversation.activity = "streaming"
end

on.reasoningDelta = on.textDelta

function on.toolUpdated(conversation, event)
  local is_at_work = event.status == "pending" or event.status == "running"
  conversation.activity = is_at_work and "tool" or "thinking"
end

function on.usageUpdated(conversation, event)
  conversation.usage, conversation.context = event.conversation, event.context
end

function on.conversationUpdated(conversation, event)
  conversation.title = event.title or conversation.title
  if conversation.turn and event.state == "idle" then
    conversation:rest("idle") -- it ran in another window, which is gone
  end
  if event.resync then
    conversation:draw_anew()
  end
end

function on.permissionResolved(_, event)
  approval.resolve(event.requestKey, event.outcome)
end

function on.notice(conversation, event)
  if not conversation.transcript:is_visible() then
    say(event.message, event.severity == "info" and vim.log.levels.INFO or vim.log.levels.WARN)
  end
end

function on.turnEnded(conversation, event)
  approval.close(event.turnId)
  conversation:rest(event.outcome == "error" and "error" or "idle")
  local problem = event.message or (event.error and event.error.message)
  if problem and not conversation.transcript:is_visible() then
    say(problem, vim.log.levels.ERROR)
  end
  status.announce("TurnEnded", {
    conversationId = conversation.id,
    turnId = event.turnId,
    outcome = event.outcome,
    usage = event.usage,
  })
end

---@param event table
function Conversation:take(event)
  self.epoch, self.seq = event.epoch, event.seq
  self.transcript.blocks:event(event)
  if on[event.type] then
    on[event.type](self, event)
  end
  self:refresh()
end

---@param snapshot table
---@param epoch string
---@param seq integer
function Conversation:restore(snapshot, epoch, seq)
  self.epoch, self.seq = epoch, seq
  self.usage, self.context = snapshot.usage or {}, snapshot.context or {}
  self.transcript:reset(snapshot.lastItems or {})
  for _, question in ipairs(approval.pending(self.id)) do
    self.transcript.blocks:ask(question.request)
  end
  if snapshot.activeTurn then
    self:begin(snapshot.activeTurn.turnId)
  else
    self:rest("idle")
  end
end

--- What was there has changed: a rewind, an edit, a deletion.
function Conversation:draw_anew()
  client.request("agent/conversationLoad", { conversationId = self.id }, function(problem, result)
    if problem then
      self:notice("error", "This conversation has changed and could not be drawn anew: " .. problem.message)
    else
      self:restore(result.snapshot, result.epoch, result.seq)
    end
  end)
end

--- An event is missing: have it sent again, or the whole state.
function Conversation:catch_up()
  self.is_catching_up = true
  local params = { conversationId = self.id, epoch = self.epoch, afterSeq = self.seq }
  client.request("agent/subscribe", params, function(problem, result)
    if problem then
      self.is_catching_up = false
      self:notice("error", "Events of this conversation were lost: " .. problem.message)
    elseif result.snapshot then
      self.is_catching_up = false
      self:restore(result.snapshot, result.epoch, result.seq)
    end
  end)
end

--- Take the next event; ask for what is missing when it is not the next.
---@param event table agent/event
function Conversation:receive(event)
  local is_next = event.seq == self.seq + 1
  if not self.epoch or (event.epoch == self.epoch and is_next) then
    self.is_catching_up = false
    self:take(event)
  elseif not self.is_catching_up and (event.epoch ~= self.epoch or event.seq > self.seq) then
    self:catch_up()
  end
end

return M
