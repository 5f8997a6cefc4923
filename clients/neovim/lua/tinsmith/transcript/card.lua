-- The card that asks for a permission: what exactly would happen, and every answer with its key and rule. Pure.

local M = {}

local WHAT =
  { command = "run a command", edit = "change files", network = "reach a host", tool = "use a tool" }

local OUTCOMES = { allow = "✓ allowed", deny = "✗ denied", cancelled = "■ no longer asked" }

---@param subject table
---@return string[]
local function subject_lines(subject)
  if subject.type == "command" then
    local lines = vim.split(subject.command, "\n", { plain = true })
    vim.list_extend(lines, { "", "in " .. subject.cwd })
    if (subject.sandbox or "") ~= "" then
      lines[#lines + 1] = ("sandbox: %s · class: %s"):format(subject.sandbox, subject.class or "unknown")
    end
    return lines
  elseif subject.type == "edit" then
    return vim.split((subject.diff:gsub("\r", ""):gsub("\n$", "")), "\n", { plain = true })
  elseif subject.type == "network" then
    return { subject.host }
  end
  local args = vim.split(vim.inspect(subject.args or {}), "\n", { plain = true })
  return vim.list_extend({ subject.name or "" }, args)
end

--- What is asked for, and what to know of it.
---@param request table RequestPermissionParams
---@return string[]
local function body_lines(request)
  local lines = subject_lines(request.subject)
  for _, note in ipairs(request.notes or {}) do
    vim.list_extend(lines, { "", (note:gsub("%s+", " ")) })
  end
  return lines
end

---@param option table PermissionOption
---@param is_first boolean of its kind and scope
---@return string key
local function key_of(option, is_first)
  if not is_first then
    return ""
  end
  if option.kind == "allow" then
    return ({ once = "ga", conversation = "gA" })[option.scope] or ""
  end
  return option.kind == "deny" and option.scope == "once" and "gd" or ""
end

--- The options as the card lists them: key, label and the rule that would be remembered.
---@param options table[] PermissionOption
---@return {option: table, key: string, text: string}[]
function M.choices(options)
  local choices, seen = {}, {}
  for _, option in ipairs(options) do
    local kind = option.kind .. " " .. option.scope
    local rule = option.rule and (": " .. option.rule) or ""
    choices[#choices + 1] =
      { option = option, key = key_of(option, not seen[kind]), text = option.label .. rule }
    seen[kind] = true
  end
  return choices
end

---@param line string
---@return string? group
local function diff_group(line)
  local sign = line:sub(1, 1)
  return sign == "+" and "TinsmithDiffAdd" or sign == "-" and "TinsmithDiffDelete" or nil
end

---@param request table RequestPermissionParams
---@param outcome? string
---@return tinsmith.Drawing
function M.draw(request, outcome)
  if outcome then
    local line = ("%s: %s"):format(OUTCOMES[outcome] or outcome, (request.title:gsub("%s+", " ")))
    return { lines = { line }, highlights = { { 0, 0, #line, "TinsmithMeta" } } }
  end
  local lines, highlights = {}, {}
  local function add(line, group)
    lines[#lines + 1] = line
    if group then
      highlights[#highlights + 1] = { #lines - 1, 0, #line, group }
    end
  end
  local subject = request.subject
  add(
    ("May Smith %s?  %s"):format(WHAT[subject.type] or "do this", (request.title:gsub("%s+", " "))),
    "TinsmithApproval"
  )
  add("")
  for _, line in ipairs(body_lines(request)) do
    add(
      line == "" and "" or "    " .. line:gsub("%z", "\\0"),
      subject.type == "edit" and diff_group(line) or nil
    )
  end
  add("")
  for _, choice in ipairs(M.choices(request.options)) do
    add(("  %-2s  %s"):format(choice.key, choice.text))
    highlights[#highlights + 1] = { #lines - 1, 2, 4, "TinsmithApprovalKey" }
  end
  add("  <CR> answers, g? explains", "TinsmithMeta")
  return { lines = lines, highlights = highlights }
end

--- Which option a row of the drawn card shows.
---@param request table RequestPermissionParams
---@param row integer from 0, in the card
---@return table? option
function M.option_at(request, row)
  local first = 3 + #body_lines(request)
  local choice = M.choices(request.options)[row - first + 1]
  return choice and choice.option
end

return M
