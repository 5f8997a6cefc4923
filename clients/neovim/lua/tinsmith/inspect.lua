-- Views of what the server knows, in a scratch buffer.

local api = vim.api

local M = {}

--- A value as an outline a person can read: one field a line, long texts as they are.
---@param value any
---@param indent string
---@param lines string[]
local function outline(value, indent, lines)
  local is_list = vim.islist(value)
  for key, entry in vim.spairs(value) do
    local label = indent .. (is_list and "-" or tostring(key) .. ":")
    if type(entry) == "table" and next(entry) ~= nil then
      lines[#lines + 1] = label
      outline(entry, indent .. "  ", lines)
    elseif type(entry) == "string" and entry:find("\n") then
      lines[#lines + 1] = label .. " |"
      for _, line in ipairs(vim.split((entry:gsub("\n$", "")), "\n", { plain = true })) do
        lines[#lines + 1] = indent .. "  " .. line
      end
    else
      local text = type(entry) == "table" and "(none)" or entry == vim.NIL and "null" or tostring(entry)
      lines[#lines + 1] = label .. " " .. text:gsub("%z", "\\0")
    end
  end
end

--- Show lines in a buffer of their own, beside the current window.
---@param name string
---@param lines string[]
---@param syntax string
function M.show(name, lines, syntax)
  local title = "tinsmith://" .. name
  local buf = vim.fn.bufnr("^" .. vim.fn.escape(title, "*?[]") .. "$")
  if buf == -1 then
    buf = api.nvim_create_buf(false, true)
    api.nvim_buf_set_name(buf, title)
  end
  vim.bo[buf].modifiable = true
  api.nvim_buf_set_lines(buf, 0, -1, true, lines)
  vim.bo[buf].modifiable = false
  vim.bo[buf].syntax = syntax
  if #vim.fn.win_findbuf(buf) == 0 then
    api.nvim_open_win(buf, true, { split = "below", win = 0 })
  end
end

--- Show one of the server's views.
---@param what "messages"|"context"|"config"
---@param result table
function M.view(what, result)
  local lines = {}
  outline(result, "", lines)
  M.show("inspect/" .. what, lines, "yaml")
end

return M
