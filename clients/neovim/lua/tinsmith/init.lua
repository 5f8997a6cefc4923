-- Tinsmith for Neovim: everything a mapping or a configuration may call. `:help tinsmith-lua`

local M = {}

---@return tinsmith.Conversation?
local function current()
  local conversations = package.loaded["tinsmith.conversations"]
  return conversations and conversations.current()
end

---@param text string
local function warn(text)
  require("tinsmith.say")(text, vim.log.levels.WARN)
end

---@param problem string
local function fail(problem)
  require("tinsmith.say")(problem, vim.log.levels.ERROR)
end

--- Set options, as `vim.g.tinsmith` does. Not needed.
---@param options tinsmith.Options
function M.setup(options)
  vim.g.tinsmith = vim.tbl_deep_extend("force", vim.g.tinsmith or {}, options or {})
end

---@param conversation tinsmith.Conversation
---@param text string
---@param selection? tinsmith.Selection
---@param mode "start"|"steer"|"steerOrStart"
local function send(conversation, text, selection, mode)
  local client, context = require("tinsmith.client"), require("tinsmith.context")
  local mirror = require("tinsmith.mirror")
  mirror.flush()
  local params = {
    conversationId = conversation.id,
    turnId = vim.uv.random(8):gsub(".", function(byte)
      return ("%02x"):format(byte:byte())
    end),
    text = text,
    context = { focus = context.focus(), open = mirror.open() },
    mode = mode,
  }
  if selection then
    params.input = { context.input(selection) }
  end
  if mode == "start" then
    conversation:begin(params.turnId)
  end
  client.request("agent/runTurn", params, function(problem, result)
    if problem then
      if mode == "start" and conversation.turn and conversation.turn.id == params.turnId then
        conversation:rest("error")
      end
      conversation:notice("error", problem.message)
    elseif result.disposition == "steered" then
      conversation:notice("info", "Your message joins the running turn at its next step.")
    end
  end)
end

---@param text? string
---@param prompt string
---@param callback fun(text: string)
local function with_text(text, prompt, callback)
  if text and text:find("%S") then
    callback(text)
    return
  end
  vim.ui.input({ prompt = prompt }, function(typed)
    if typed and typed:find("%S") then
      callback(typed)
    end
  end)
end

--- Ask; while a turn runs the message steers it.
---@param text? string absent = asked for
---@param selection? tinsmith.Selection
function M.ask(text, selection)
  with_text(text, "Ask Tinsmith: ", function(message)
    require("tinsmith.conversations").ensure(function(problem, conversation)
      if not conversation then
        fail(problem or "no conversation")
        return
      end
      conversation.transcript:show()
      send(conversation, message, selection, conversation.turn and "steerOrStart" or "start")
    end)
  end)
end

--- Give the running turn a message for its next step.
---@param text? string
function M.steer(text)
  local conversation = current()
  if not conversation or not conversation.turn then
    warn("no turn runs; :Tinsmith ask starts one.")
    return
  end
  with_text(text, "Steer Tinsmith: ", function(message)
    send(conversation, message, nil, "steer")
  end)
end

--- Stop the running turn. What it has finished stays.
function M.stop()
  local conversation = current()
  if not conversation or not conversation.turn then
    warn("no turn runs.")
    return
  end
  local turn = conversation.turn
  turn.is_stopping = true
  conversation:refresh()
  local params = { conversationId = conversation.id, turnId = turn.id }
  require("tinsmith.client").request("agent/cancel", params, function(problem)
    if problem then
      conversation:notice("error", problem.message)
    end
  end)
  vim.defer_fn(function()
    if conversation.turn == turn then
      conversation:notice("warning", "The turn has not stopped yet; :Tinsmith restart forces it.")
    end
  end, 3000)
end

---@param callback fun(conversations: table)
local function with_server(callback)
  local conversations = require("tinsmith.conversations")
  require("tinsmith.client").ensure(function(problem)
    if problem then
      fail(problem)
    else
      callback(conversations)
    end
  end)
end

---@param problem? string
---@param conversation? tinsmith.Conversation
local function present(problem, conversation)
  if conversation then
    conversation.transcript:show()
  else
    fail(problem or "no conversation")
  end
end

--- Begin a new conversation.
function M.new()
  with_server(function(conversations)
    conversations.create(present)
  end)
end

--- Go on with a conversation.
---@param id string
function M.load(id)
  with_server(function(conversations)
    conversations.load(id, present)
  end)
end

--- Choose one of the workspace's conversations.
function M.list()
  with_server(function(conversations)
    conversations.list(50, function(problem, records)
      if not records then
        fail(problem or "no answer")
      elseif #records == 0 then
        warn("no conversations in this workspace yet; :Tinsmith ask begins one.")
      else
        vim.ui.select(records, {
          prompt = "Conversations",
          kind = "tinsmith",
          format_item = function(record)
            local title = (record.title or "") ~= "" and record.title or record.conversationId
            return ("%s  %s"):format(os.date("%Y-%m-%d %H:%M", math.floor(record.updatedAt / 1000)), title)
          end,
        }, function(record)
          if record then
            M.load(record.conversationId)
          end
        end)
      end
    end)
  end)
end

--- The question that an answer is for: the one under the cursor, else the oldest.
---@return tinsmith.Question?
local function question()
  local approval = require("tinsmith.approval")
  local pending = approval.pending()
  local block = require("tinsmith.transcript").block_under_cursor()
  for _, candidate in ipairs(pending) do
    if block and block.request and block.request.requestKey == candidate.request.requestKey then
      return candidate
    end
  end
  local conversation = current()
  return conversation and approval.pending(conversation.id)[1] or pending[1]
end

---@param kind "allow"|"deny"
---@param scope string
---@param feedback? string
local function answer(kind, scope, feedback)
  local approval, asked = require("tinsmith.approval"), question()
  if not asked then
    warn("nothing waits for your answer.")
    return
  end
  local option = approval.option(asked, kind, scope)
  if option then
    approval.answer(asked, option, feedback)
  else
    warn(("this question cannot be answered for the scope %q; its card lists the answers."):format(scope))
  end
end

--- Allow what is asked for.
---@param scope? "once"|"conversation" default: once
function M.approve(scope)
  answer("allow", scope or "once")
end

--- Deny what is asked for.
---@param reason? string told to the model
function M.deny(reason)
  answer("deny", "once", reason)
end

--- Give the answer on the cursor's line of an open card.
function M.choose()
  local asked = question()
  local block, row = require("tinsmith.transcript").block_under_cursor()
  local is_card = asked and block and block.request == asked.request
  local option = is_card and require("tinsmith.transcript.card").option_at(block.request, row)
  if option then
    require("tinsmith.approval").answer(asked, option)
  end
end

--- Show what the server knows.
---@param what? "messages"|"context"|"config" default: context
function M.inspect(what)
  what = what or "context"
  require("tinsmith.conversations").ensure(function(problem, conversation)
    if not conversation then
      fail(problem or "no conversation")
      return
    end
    local params = { what = what, conversationId = conversation.id }
    require("tinsmith.client").request("agent/inspect", params, function(refusal, result)
      if refusal then
        fail(refusal.message)
      else
        require("tinsmith.inspect").view(what, result)
      end
    end)
  end)
end

--- Open or close the transcript.
---@param mods? string as of `<mods>`, such as "tab" or "botright"
function M.toggle(mods)
  local conversation = current()
  if conversation and conversation.transcript:is_visible() then
    conversation.transcript:close()
    return
  end
  require("tinsmith.conversations").ensure(function(problem, opened)
    if opened then
      opened.transcript:show({ enter = true, mods = mods })
    else
      fail(problem or "no conversation")
    end
  end)
end

--- Stop the server for certain, start it again and resume.
function M.restart()
  require("tinsmith.conversations").restart()
end

--- Show what happened to the server's process.
function M.log()
  local lines = vim.list_slice(require("tinsmith.client").journal())
  vim.list_extend(lines, { "", "What the server writes to stderr is in " .. vim.lsp.log.get_filename() })
  require("tinsmith.inspect").show("log", lines, "")
end

---@param id? string conversation; absent = the current one
---@return tinsmith.Status
function M.status(id)
  return require("tinsmith.status").get(id)
end

---@return string
function M.statusline()
  return require("tinsmith.status").text()
end

return M
