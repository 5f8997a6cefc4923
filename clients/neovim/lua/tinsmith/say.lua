-- One line for the person. Never longer than the message area: a hit-enter prompt would hold up the whole channel.

---@param text string
---@param level? integer vim.log.levels
local function show(text, level)
  local line = "Tinsmith: " .. text:gsub("%s+", " ")
  local room = math.max(vim.v.echospace, 20)
  if vim.fn.strdisplaywidth(line) > room then
    line = vim.fn.strcharpart(line, 0, room - 1) .. "…"
  end
  vim.notify(line, level or vim.log.levels.INFO)
end

--- Show it now, or, while a command line is being typed, right after.
---@param text string
---@param level? integer vim.log.levels
return function(text, level)
  if vim.api.nvim_get_mode().mode:sub(1, 1) ~= "c" then
    show(text, level)
    return
  end
  vim.api.nvim_create_autocmd("CmdlineLeave", {
    once = true,
    callback = vim.schedule_wrap(function()
      show(text, level)
    end),
  })
end
