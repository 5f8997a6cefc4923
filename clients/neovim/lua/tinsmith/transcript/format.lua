-- What a block looks like: lines, highlights and, when it folds, the line that stands for it. Pure.

local M = {}

---@alias tinsmith.Chunk [string, string] text and highlight group
---@class tinsmith.Drawing
---@field lines string[]
---@field highlights [integer, integer, integer, string][] row in the block, first byte, byte after, group
---@field fold? boolean closed until the reader opens it

local LIVE_LINES = 10

local ICONS = {
  pending = { "○", "TinsmithToolPending" },
  awaitingApproval = { "?", "TinsmithToolPending" },
  running = { "●", "TinsmithToolRunning" },
  completed = { "✓", "TinsmithToolOk" },
  failed = { "✗", "TinsmithToolFailed" },
  declined = { "✗", "TinsmithToolFailed" },
  cancelled = { "■", "TinsmithToolCancelled" },
}

local WORDS = {
  awaitingApproval = "waits for your answer",
  failed = "failed",
  declined = "declined",
  cancelled = "cancelled",
}

---@param text string
---@return string[]
local function split(text)
  return vim.split((text:gsub("\r\n", "\n"):gsub("%z", "\\0")), "\n", { plain = true })
end

---@param text string
---@param prefix string
---@return string[]
local function prefixed(text, prefix)
  return vim.tbl_map(function(line)
    return line == "" and prefix:gsub("%s+$", "") or prefix .. line
  end, split(text))
end

---@param milliseconds number
---@return string
local function duration(milliseconds)
  if milliseconds < 60000 then
    return ("%.1f s"):format(milliseconds / 1000)
  end
  return ("%d min %d s"):format(milliseconds / 60000, milliseconds % 60000 / 1000)
end

---@param chunks tinsmith.Chunk[]
---@return string line
---@return [integer, integer, integer, string][] highlights of row 0
local function joined(chunks)
  local line, highlights = "", {}
  for _, chunk in ipairs(chunks) do
    local text = chunk[1]:gsub("%s*[\r\n%z]+%s*", " ")
    highlights[#highlights + 1] = { 0, #line, #line + #text, chunk[2] }
    line = line .. text
  end
  return line, highlights
end

--- The line that stands for a call: status, name, title, time.
---@param block tinsmith.Block
---@return tinsmith.Chunk[]
local function tool_header(block)
  local icon = ICONS[block.status] or ICONS.pending
  local chunks = {
    { icon[1] .. " ", icon[2] },
    { block.name or "tool", "TinsmithToolName" },
  }
  if (block.title or "") ~= "" then
    chunks[#chunks + 1] = { "  " .. block.title, "TinsmithToolTitle" }
  end
  if WORDS[block.status] then
    chunks[#chunks + 1] = { "  " .. WORDS[block.status], icon[2] }
  end
  if block.took then
    chunks[#chunks + 1] = { "  " .. duration(block.took), "TinsmithMeta" }
  end
  return chunks
end

--- The line that stands for a closed fold.
---@param block tinsmith.Block
---@return tinsmith.Chunk[]
function M.fold_line(block)
  if block.kind == "tool" then
    return vim.list_extend(
      tool_header(block),
      { { ("  [%d lines]"):format(block.height - 1), "TinsmithMeta" } }
    )
  end
  return { { ("Thinking  [%d lines]"):format(block.height - 1), "TinsmithReasoning" } }
end

---@param lines string[]
---@param args any
local function add_arguments(lines, args)
  if type(args) ~= "table" then
    return
  end
  for name, value in vim.spairs(args) do
    local text = type(value) == "string" and value or vim.json.encode(value)
    local rows = split(text)
    if #rows == 1 then
      lines[#lines + 1] = ("    %s: %s"):format(name, rows[1])
    else
      lines[#lines + 1] = ("    %s:"):format(name)
      vim.list_extend(lines, prefixed(text, "      "))
    end
  end
end

---@type table<string, fun(block: tinsmith.Block): tinsmith.Drawing>
local draw = {}

function draw.tool(block)
  local line, highlights = joined(tool_header(block))
  local lines = { line }
  if block.is_open then
    local rows = prefixed(table.concat(block.output or {}):gsub("\n$", ""), "    ")
    if block.output then
      vim.list_extend(lines, vim.list_slice(rows, math.max(1, #rows - LIVE_LINES + 1)))
    end
    return { lines = lines, highlights = highlights }
  end
  add_arguments(lines, block.args)
  local result = block.result or (block.output and table.concat(block.output))
  if result and result ~= "" then
    if #lines > 1 then
      lines[#lines + 1] = ""
    end
    vim.list_extend(lines, prefixed((result:gsub("\n$", "")), "    "))
  end
  return { lines = lines, highlights = highlights, fold = #lines > 1 }
end

function draw.user(block)
  local heading = block.is_steering and "## You, while it worked" or "## You"
  local lines = vim.list_extend({ heading, "" }, split(block.text))
  return { lines = lines, highlights = { { 0, 0, #heading, "TinsmithUser" } } }
end

function draw.heading()
  return { lines = { "## Smith" }, highlights = { { 0, 0, 8, "TinsmithAssistant" } } }
end

function draw.text(block)
  local lines, highlights = split(table.concat(block.parts)), {}
  if block.is_cut then
    vim.list_extend(lines, { "", "(cut off here)" })
    highlights[1] = { #lines - 1, 0, #lines[#lines], "TinsmithMeta" }
  end
  return { lines = lines, highlights = highlights }
end

function draw.reasoning(block)
  local lines = vim.list_extend({ "*Thinking*" }, prefixed(table.concat(block.parts), "> "))
  local highlights = {}
  for row, line in ipairs(lines) do
    highlights[row] = { row - 1, 0, #line, "TinsmithReasoning" }
  end
  return { lines = lines, highlights = highlights, fold = not block.is_open }
end

local NOTICE_SIGNS = { info = "• ", warning = "! " }

function draw.notice(block)
  local sign = NOTICE_SIGNS[block.severity]
  local group = sign and "TinsmithNotice" or "TinsmithError"
  local lines = split((sign or "✗ ") .. block.message)
  local highlights = {}
  for row, line in ipairs(lines) do
    highlights[row] = { row - 1, 0, #line, group }
  end
  return { lines = lines, highlights = highlights }
end

function draw.retry(block)
  local line, highlights = joined({
    {
      ("↻ attempt %d in %s: %s"):format(block.attempt, duration(block.delay), block.reason),
      "TinsmithNotice",
    },
  })
  return { lines = { line }, highlights = highlights }
end

local OUTCOMES = {
  completed = "completed",
  cancelled = "stopped; what was finished stays",
  error = "failed",
  budget_exhausted = "stopped: the budget of tool calls is used up",
  interrupted = "interrupted: the server ended during the turn",
}

function draw.outcome(block)
  local chunks = { { "— " .. (OUTCOMES[block.outcome] or block.outcome), "TinsmithMeta" } }
  local usage = block.usage
  if usage and usage.total > 0 then
    chunks[#chunks + 1] = { (" · %d tokens in, %d out"):format(usage.input, usage.output), "TinsmithMeta" }
  end
  local line, highlights = joined(chunks)
  local lines = { line }
  for _, file in ipairs(block.files or {}) do
    lines[#lines + 1] = ("    %s +%d −%d"):format(
      vim.fn.fnamemodify(vim.uri_to_fname(file.uri), ":~:."),
      file.added,
      file.removed
    )
  end
  if (block.message or "") ~= "" then
    for _, row in ipairs(split("✗ " .. block.message)) do
      lines[#lines + 1] = row
      highlights[#highlights + 1] = { #lines - 1, 0, #row, "TinsmithError" }
    end
  end
  return { lines = lines, highlights = highlights }
end

function draw.approval(block)
  return require("tinsmith.transcript.card").draw(block.request, block.outcome)
end

---@param block tinsmith.Block
---@return tinsmith.Drawing
function M.draw(block)
  return draw[block.kind](block)
end

--- The lines that more text of a streaming block adds to its end; the first continues its last line.
---@param block tinsmith.Block
---@return string[]
function M.tail(block)
  local lines = split(table.concat(block.parts, "", block.drawn + 1))
  for index = 2, block.kind == "reasoning" and #lines or 0 do
    lines[index] = lines[index] == "" and ">" or "> " .. lines[index]
  end
  return lines
end

return M
