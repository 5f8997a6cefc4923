-- `agent/applyEdits`: compare every hash, then change all buffers in one tick or none.
--
-- Undo: the edits of one turn to a buffer are one undo step, unless something else changed the buffer in
-- between; they never join what the person types, Insert mode included. Nothing is saved.

local documents = require("tinsmith.documents")
local modes = require("tinsmith.modes")
local rewrite = require("tinsmith.rewrite")
local splice = require("tinsmith.splice")

local api = vim.api

local M = {}

local ANSWERS_KEPT = 256
---@type table<string, table>
local answers = {}
---@type string[]
local answered = {}
---@type table<integer, {turn: string, tick: integer}> our last change of each buffer
local latest = {}

---@class tinsmith.Plan
---@field buf integer
---@field lines string[] the text before
---@field after string[]
---@field had_eol boolean
---@field has_eol boolean

---@param buf? integer
---@param uri string
---@param status string
local function answer_for(buf, uri, status)
  if not buf then
    return { uri = uri, status = status }
  end
  return {
    uri = uri,
    status = status,
    version = documents.version(buf),
    hash = documents.hash(buf),
    dirty = vim.bo[buf].modified,
  }
end

--- What is to be done to one document, or why it may not be done. Touches nothing.
---@param document table
---@param buf? integer
---@param encoding "utf-8"|"utf-16"|"utf-32"
---@return tinsmith.Plan? plan
---@return string? refusal
local function plan_for(document, buf, encoding)
  if not buf then
    return nil, "missing"
  end
  local options = vim.bo[buf]
  if not options.modifiable or options.readonly then
    return nil, "readOnly"
  end
  -- Files come, go and move on disk, where the server works; lines that end in a lone CR are one line to it.
  if document.op ~= "edit" or not document.expect.hash or options.fileformat == "mac" then
    return nil, "rejected"
  end
  if documents.hash(buf) ~= document.expect.hash then
    return nil, "stale"
  end
  local lines = api.nvim_buf_get_lines(buf, 0, -1, true)
  local keeps_cr = options.fileformat == "unix"
  local after, has_eol = splice.spliced(lines, options.endofline, document.edits, encoding, keeps_cr)
  if not after then
    return nil, "rejected"
  end
  local hash = documents.digest(documents.normalised(after, has_eol or false, options.fileformat))
  if not hash or hash ~= document.after.hash then
    return nil, "hashMismatch"
  end
  return { buf = buf, lines = lines, after = after, had_eol = options.endofline, has_eol = has_eol or false }
end

---@param plan tinsmith.Plan
---@param turn string
local function change(plan, turn)
  local buf, ours = plan.buf, latest[plan.buf]
  local is_continued = ours and ours.turn == turn and ours.tick == api.nvim_buf_get_changedtick(buf)
  if is_continued then
    api.nvim_buf_call(buf, vim.cmd.undojoin)
  else
    rewrite.break_undo(buf)
  end
  rewrite.lines(buf, plan.lines, plan.after)
  if vim.bo[buf].endofline ~= plan.has_eol then
    vim.bo[buf].endofline = plan.has_eol
  end
  rewrite.break_undo(buf)
end

--- All plans or none: what an unwilling buffer stops half-way is put back.
---@param plans tinsmith.Plan[]
---@param turn string
---@return boolean
local function change_all(plans, turn)
  for index, plan in ipairs(plans) do
    if not pcall(change, plan, turn) then
      for undone = index, 1, -1 do
        local begun = plans[undone]
        pcall(rewrite.lines, begun.buf, api.nvim_buf_get_lines(begun.buf, 0, -1, true), begun.lines)
        vim.bo[begun.buf].endofline = begun.had_eol
      end
      return false
    end
  end
  for _, plan in ipairs(plans) do
    latest[plan.buf] = { turn = turn, tick = api.nvim_buf_get_changedtick(plan.buf) }
  end
  return true
end

---@param params table ApplyEditsParams
---@param encoding "utf-8"|"utf-16"|"utf-32"
---@param is_settled boolean nothing the person is in the middle of stands against it
---@return table ApplyEditsResult
local function applied(params, encoding, is_settled)
  local plans, refusals, bufs, seen = {}, {}, {}, {}
  for index, document in ipairs(params.documents) do
    local buf = documents.find(document.uri)
    local plan, refusal = plan_for(document, buf, encoding)
    plans[#plans + 1] = plan
    refusals[index] = seen[buf or 0] and "rejected" or refusal
    bufs[index] = buf
    seen[buf or 0] = buf ~= nil
  end
  local is_applied = is_settled and next(refusals) == nil and change_all(plans, params.turnId)
  local result = { applied = is_applied, documents = {} }
  for index, document in ipairs(params.documents) do
    local status = is_applied and "applied" or refusals[index] or "rejected"
    result.documents[index] = answer_for(bufs[index], document.uri, status)
  end
  return result
end

--- Apply the edits and answer; the same `editId` gets its first answer again. Runs in the coroutine of the request.
---@param client vim.lsp.Client
---@param params table ApplyEditsParams
---@return table ApplyEditsResult
function M.apply(client, params)
  local known = answers[params.editId]
  if known then
    return known
  end
  local result = applied(params, client.offset_encoding, modes.settle())
  answers[params.editId] = result
  answered[#answered + 1] = params.editId
  if #answered > ANSWERS_KEPT then
    answers[table.remove(answered, 1)] = nil
  end
  require("tinsmith.mirror").flush()
  if result.applied then
    local uris = vim.tbl_map(function(document)
      return document.uri
    end, params.documents)
    require("tinsmith.status").announce("EditApplied", {
      editId = params.editId,
      turnId = params.turnId,
      label = params.label,
      uris = uris,
    })
  end
  return result
end

return M
