-- A transcript as an ordered list of blocks, built from events and items. Knows nothing of buffers.

local M = {}

---@class tinsmith.Block
---@field key string
---@field kind "user"|"heading"|"text"|"reasoning"|"tool"|"approval"|"notice"|"retry"|"outcome"
---@field is_dirty boolean must be drawn anew, as a whole
---@field is_removed? boolean
---@field is_open? boolean still being written
---@field parts? string[] the text so far, in pieces
---@field points? integer code points of the text so far
---@field drawn? integer how many parts are on the screen
---@field mark? integer extmark of its first line; set once it is drawn
---@field height? integer drawn lines
---@field [string] any what its kind shows

---@class tinsmith.Blocks
---@field list tinsmith.Block[]
---@field by_key table<string, tinsmith.Block>
---@field speaker? "person"|"agent"
local Blocks = {}
Blocks.__index = Blocks

---@return tinsmith.Blocks
function M.new()
  return setmetatable({ list = {}, by_key = {} }, Blocks)
end

---@param key string
---@param kind string
---@param speaker? "person"|"agent"
---@return tinsmith.Block
function Blocks:_block(key, kind, speaker)
  local block = self.by_key[key]
  if block then
    return block
  end
  if speaker == "agent" and self.speaker ~= "agent" then
    self.speaker = "agent"
    self:_block("heading:" .. key, "heading")
  end
  self.speaker = speaker or self.speaker
  block = { key = key, kind = kind, is_dirty = true }
  self.by_key[key] = block
  table.insert(self.list, block)
  return block
end

---@param key string
---@param kind string
---@param fields table
---@param speaker? "person"|"agent"
---@return tinsmith.Block
function Blocks:_put(key, kind, fields, speaker)
  local block = self:_block(key, kind, speaker)
  for name, value in pairs(fields) do
    block[name] = value
  end
  block.is_dirty = true
  return block
end

---@param key string
function Blocks:_remove(key)
  local block = self.by_key[key]
  if block then
    block.is_removed, block.is_dirty = true, true
    self.by_key[key] = nil
  end
end

--- More text of an item. What is already there, or lies beyond a gap, waits for the item itself.
---@param key string
---@param kind "text"|"reasoning"
---@param offset integer
---@param text string
function Blocks:_append(key, kind, offset, text)
  local block = self:_block(key, kind, "agent")
  block.parts, block.points, block.is_open = block.parts or {}, block.points or 0, true
  if offset == block.points then
    table.insert(block.parts, text)
    block.points = block.points + vim.str_utfindex(text, "utf-32")
  end
end

---@param key string
---@param kind "text"|"reasoning"
---@param text string
---@param fields? table
function Blocks:_settle(key, kind, text, fields)
  if text == "" then
    self:_remove(key)
    return
  end
  local block = self:_put(key, kind, fields or {}, "agent")
  block.parts, block.points = { text }, vim.str_utfindex(text, "utf-32")
  block.is_open = false
end

---@param item table UserItem | AssistantItem | ToolItem
function Blocks:item(item)
  if item.kind == "user" then
    local fields = { text = item.text, is_steering = item.steering }
    self:_put("user:" .. item.itemId, "user", fields, "person")
  elseif item.kind == "assistant" then
    local is_shown = not item.withdrawn
    local is_cut = vim.list_contains(item.marks or {}, "cancelled")
    self:_settle("reasoning:" .. item.itemId, "reasoning", is_shown and item.reasoning or "")
    self:_settle("text:" .. item.itemId, "text", is_shown and item.text or "", { is_cut = is_cut })
  elseif item.kind == "tool" then
    self:_tool(item)
  end
end

local FINAL = { completed = true, failed = true, declined = true, cancelled = true }

---@param call table ToolItem or toolUpdated; absent fields leave what is known
function Blocks:_tool(call)
  local block = self:_put("tool:" .. call.callId, "tool", {
    name = call.name,
    title = call.title,
    status = call.status,
    args = call.args,
    result = call.result,
  }, "agent")
  if call.status == "running" then
    block.began = block.began or call.ts
  elseif FINAL[call.status] and block.is_open and block.began then
    block.took = call.ts - block.began
  end
  block.is_open = not FINAL[call.status]
end

---@type table<string, fun(self: tinsmith.Blocks, event: table)>
local on = {}

function on.turnStarted(self, event)
  self:_put("user:" .. event.itemId, "user", { text = event.text }, "person")
end

function on.textDelta(self, event)
  self:_append("text:" .. event.itemId, "text", event.offset, event.text)
end

function on.reasoningDelta(self, event)
  self:_append("reasoning:" .. event.itemId, "reasoning", event.offset, event.text)
end

function on.toolUpdated(self, event)
  self:_tool(event)
end

function on.toolOutput(self, event)
  local block = self.by_key["tool:" .. event.callId]
  if block and block.is_open then
    block.output = block.output or {}
    table.insert(block.output, event.text)
    block.is_dirty = true
  end
end

function on.itemUpdated(self, event)
  self:item(event.item)
end

function on.retrying(self, event)
  local fields = { attempt = event.attempt, reason = event.reason, delay = event.delayMs }
  self:_put("retry:" .. event.turnId .. ":" .. event.attempt, "retry", fields, "agent")
end

function on.notice(self, event)
  self:notice(event.severity, event.message)
end

function on.permissionResolved(self, event)
  self:resolved(event.requestKey, event.outcome)
end

function on.turnEnded(self, event)
  self:_put("outcome:" .. event.turnId, "outcome", {
    outcome = event.outcome,
    message = event.message or (event.error and event.error.message),
    usage = event.usage,
    files = event.files,
  })
  self:close_open(event.outcome == "cancelled" and "cancelled" or "failed")
  self.speaker = nil
end

--- Take an event in; kinds without something to show are passed over.
---@param event table
function Blocks:event(event)
  local take = on[event.type]
  if take then
    take(self, event)
  end
end

---@param severity string
---@param message string
function Blocks:notice(severity, message)
  self:_put("notice:" .. #self.list, "notice", { severity = severity, message = message })
end

---@param request table RequestPermissionParams
function Blocks:ask(request)
  self:_put("approval:" .. request.requestKey, "approval", { request = request }, "agent")
end

---@param key string requestKey
---@param outcome string
function Blocks:resolved(key, outcome)
  local block = self.by_key["approval:" .. key]
  if block and not block.outcome then
    block.outcome, block.is_dirty = outcome, true
  end
end

--- Nothing more comes for what is still open.
---@param status "cancelled"|"failed" of calls that have not ended
---@return integer unsettled code points of text that was shown but never confirmed as a whole
function Blocks:close_open(status)
  local unsettled = 0
  for _, block in ipairs(self.list) do
    if block.is_open and not block.is_removed then
      block.is_open, block.is_dirty = false, true
      unsettled = unsettled + (block.points or 0)
      block.status = block.status and status
    end
    if block.kind == "approval" then
      self:resolved(block.request.requestKey, "cancelled")
    end
  end
  return unsettled
end

return M
