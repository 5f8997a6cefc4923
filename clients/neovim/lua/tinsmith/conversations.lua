-- The conversations this editor follows: which is current, getting one, and getting all back after a crash.

local approval = require("tinsmith.approval")
local client = require("tinsmith.client")
local Conversation = require("tinsmith.conversation")
local say = require("tinsmith.say")
local status = require("tinsmith.status")

local M = {}

---@type table<string, tinsmith.Conversation>
local known = {}
---@type tinsmith.Conversation?
local current

---@param record table the wire's Conversation, or at least its id
---@return tinsmith.Conversation
local function adopt(record)
  local id = record.conversationId
  known[id] = known[id] or Conversation.new(id)
  for _, field in ipairs({ "title", "model", "role" }) do
    known[id][field] = record[field] or known[id][field]
  end
  return known[id]
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
  event = function(event)
    local conversation = known[event.conversationId]
    if conversation then
      conversation:receive(event)
    end
  end,
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
