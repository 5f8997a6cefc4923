-- The conversations this editor follows: their events in order, their state, and getting one back.

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

---@type table<string, tinsmith.Conversation>
local known = {}
---@type tinsmith.Conversation?
local current

---@param record table the wire's Conversation, or at least its id
---@return tinsmith.Conversation
local function adopt(record)
  local conversation = known[record.conversationId]
  if not conversation then
    conversation = setmetatable({
      id = record.conversationId,
      seq = 0,
      is_catching_up = false,
      activity = "idle",
      usage = {},
      context = {},
      transcript = transcript.new(record.conversationId),
    }, Conversation)
    known[conversation.id] = conversation
  end
  conversation.title = record.title or conversation.title or ""
  conversation.model = record.model or conversation.model or ""
  conversation.role = record.role or conversation.role or ""
  return conversation
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

---@param event table agent/event
local function receive(event)
  local conversation = known[event.conversationId]
  if not conversation then
    return
  end
  local is_next = event.seq == conversation.seq + 1
  if not conversation.epoch or (event.epoch == conversation.epoch and is_next) then
    conversation.is_catching_up = false
    conversation:take(event)
  elseif
    not conversation.is_catching_up and (event.epoch ~= conversation.epoch or event.seq > conversation.seq)
  then
    conversation:catch_up()
  end
end

--- Get a conversation with its stored items.
---@param id string
---@param callback fun(problem?: string, conversation?: tinsmith.Conversation)
local function fetch(id, callback)
  client.request("agent/conversationLoad", { conversationId = id }, function(problem, result)
    if problem then
      callback(problem.message)
      return
    end
    local conversation = adopt(result.conversation)
    conversation.is_catching_up = false
    conversation:restore(result.snapshot, result.epoch, result.seq)
    if result.heldBy then
      conversation:notice("warning", "Another window works in this conversation; here it can only be read.")
    end
    callback(nil, conversation)
  end)
end

---@param how string
local function died(how)
  approval.close()
  for _, conversation in pairs(known) do
    local unsettled = conversation.transcript.blocks:close_open("failed")
    if conversation.turn or conversation == current then
      conversation.lost = conversation.turn and unsettled or nil
      local turn = conversation.turn and " The running turn is interrupted." or ""
      conversation:rest("dead")
      conversation:notice("error", ("The server stopped (%s).%s"):format(how, turn))
    end
  end
end

local function recovered()
  for id, before in pairs(known) do
    local lost = before.lost
    before.lost = nil
    fetch(id, function(problem, conversation)
      if problem then
        before:notice("error", "The server is back, but not this conversation: " .. problem)
      elseif not lost then
        conversation:notice("info", "The server is back and the conversation goes on.")
      else
        local unstored = lost > 0 and (" %d characters of its last answer were not stored."):format(lost)
          or ""
        local text = "The server is back and the conversation goes on. The running turn was interrupted;"
          .. " what had finished is kept."
          .. unstored
        conversation:notice("warning", text)
      end
    end)
  end
end

--- Stop the server whatever it does, start it again and take every conversation up where it was stored.
function M.restart()
  client.stop(function()
    for _, conversation in pairs(known) do
      if conversation.turn then
        conversation.lost = conversation.transcript.blocks:close_open("cancelled")
        conversation:rest("dead")
      end
    end
    approval.close()
    client.ensure(function(problem)
      if problem then
        say(problem, vim.log.levels.ERROR)
      else
        recovered()
      end
    end)
  end)
end

---@param conversation tinsmith.Conversation
local function make_current(conversation)
  local before = current
  current = conversation
  if before and before ~= conversation then
    for _, win in ipairs(before.transcript:windows()) do
      vim.api.nvim_win_set_buf(win, conversation.transcript:buffer())
    end
  end
  conversation:refresh()
end

---@return string uri
local function workspace()
  return vim.uri_from_fname(assert(client.root()))
end

--- Begin a conversation and make it the current one.
---@param callback fun(problem?: string, conversation?: tinsmith.Conversation)
function M.create(callback)
  client.request("agent/conversationNew", { workspace = workspace() }, function(problem, result)
    if problem then
      callback(problem.message)
      return
    end
    local conversation = adopt(result.conversation)
    make_current(conversation)
    callback(nil, conversation)
  end)
end

--- Load a conversation and make it the current one.
---@param id string
---@param callback fun(problem?: string, conversation?: tinsmith.Conversation)
function M.load(id, callback)
  fetch(id, function(problem, conversation)
    if conversation then
      make_current(conversation)
    end
    callback(problem, conversation)
  end)
end

--- The workspace's conversations, newest first.
---@param limit integer
---@param callback fun(problem?: string, records?: table[])
function M.list(limit, callback)
  local params = { workspace = workspace(), limit = limit }
  client.request("agent/conversationList", params, function(problem, result)
    callback(problem and problem.message, result and result.conversations)
  end)
end

---@type fun(problem?: string, conversation?: tinsmith.Conversation)[]
local opening = {}

---@param problem? string
---@param conversation? tinsmith.Conversation
local function opened(problem, conversation)
  local callbacks = opening
  opening = {}
  for _, callback in ipairs(callbacks) do
    callback(problem, conversation)
  end
end

local function open_latest()
  M.list(1, function(problem, records)
    local latest = records and records[1]
    if problem then
      opened(problem)
    elseif not latest then
      M.create(opened)
    else
      M.load(latest.conversationId, function(unloadable, conversation)
        if unloadable then
          M.create(opened)
        else
          opened(nil, conversation)
        end
      end)
    end
  end)
end

--- The current conversation, with the server running: the workspace's last one when there is none yet.
---@param callback fun(problem?: string, conversation?: tinsmith.Conversation)
function M.ensure(callback)
  client.ensure(function(problem)
    if problem or current then
      callback(problem, current)
      return
    end
    table.insert(opening, callback)
    if #opening == 1 then
      open_latest()
    end
  end)
end

---@return tinsmith.Conversation?
function M.current()
  return current
end

---@param id string
---@return tinsmith.Conversation?
function M.find(id)
  return known[id]
end

client.observe({
  event = receive,
  permission = function(request)
    local conversation = adopt({ conversationId = request.conversationId })
    conversation.transcript.blocks:ask(request)
    return approval.ask(request, conversation)
  end,
  died = died,
  recovered = recovered,
  changed = function()
    if current then
      current:refresh()
    else
      status.changed()
    end
  end,
})

return M
