-- Options: the defaults, the user's `vim.g.tinsmith` over them, and what is wrong with it.

local M = {}

---@class tinsmith.Window
---@field split "left"|"right"|"above"|"below" where the transcript opens
---@field size number share of the editor's columns (rows, for above and below), between 0 and 1

---@class tinsmith.Options
---@field cmd? string[] the server's command; absent = that of `vim.lsp.config.tinsmith`
---@field settings? table server settings for this editor, as in tinsmith.json
---@field window tinsmith.Window
---@field maps boolean buffer-local mappings in the transcript

---@type tinsmith.Options
local defaults = {
  window = { split = "right", size = 0.4 },
  maps = true,
}

local checks = {
  cmd = function(value)
    return vim.islist(value) and #value > 0, "a list of strings"
  end,
  settings = function(value)
    return type(value) == "table", "a table"
  end,
  window = function(value)
    local splits = { left = true, right = true, above = true, below = true }
    local is_good = type(value) == "table"
      and (value.split == nil or splits[value.split])
      and (value.size == nil or (type(value.size) == "number" and value.size > 0 and value.size < 1))
    return is_good, "{ split = left|right|above|below, size = between 0 and 1 }"
  end,
  maps = function(value)
    return type(value) == "boolean", "true or false"
  end,
}

--- What is wrong with `vim.g.tinsmith`, one sentence each.
---@return string[]
function M.problems()
  local given = vim.g.tinsmith or {}
  if type(given) ~= "table" then
    return { "vim.g.tinsmith must be a table." }
  end
  local problems = {}
  for _, name in ipairs(vim.fn.sort(vim.tbl_keys(given))) do
    local check = checks[name]
    if not check then
      problems[#problems + 1] = ("vim.g.tinsmith.%s is not an option; see :help tinsmith-options."):format(
        name
      )
    else
      local is_good, form = check(given[name])
      if not is_good then
        problems[#problems + 1] = ("vim.g.tinsmith.%s must be %s."):format(name, form)
      end
    end
  end
  return problems
end

--- The effective options. A wrong value counts as absent; :checkhealth reports it.
---@return tinsmith.Options
function M.get()
  local given = type(vim.g.tinsmith) == "table" and vim.g.tinsmith or {}
  local accepted = {}
  for name, value in pairs(given) do
    if checks[name] and checks[name](value) then
      accepted[name] = value
    end
  end
  return vim.tbl_deep_extend("force", defaults, accepted)
end

return M
