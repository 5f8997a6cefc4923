-- The command, the <Plug> mappings and the highlight groups. Nothing else is loaded before first use.

if vim.g.loaded_tinsmith then
  return
end
vim.g.loaded_tinsmith = true

if vim.fn.has("nvim-0.11") == 0 then
  vim.notify("Tinsmith needs Neovim 0.11 or newer; this one stays without it.", vim.log.levels.ERROR)
  return
end

vim.api.nvim_create_user_command("Tinsmith", function(invocation)
  require("tinsmith.command").run(invocation)
end, {
  nargs = "*",
  range = true,
  bang = true,
  desc = "Tinsmith: ask, steer, stop, approve, inspect",
  complete = function(lead, line)
    return require("tinsmith.command").complete(lead, line)
  end,
})

for name, action in pairs({
  ["toggle"] = "toggle",
  ["ask"] = "ask",
  ["stop"] = "stop",
  ["new"] = "new",
  ["list"] = "list",
  ["approve"] = "approve",
  ["approve-conversation"] = "approve!",
  ["deny"] = "deny",
  ["inspect"] = "inspect",
}) do
  vim.keymap.set("n", ("<Plug>(tinsmith-%s)"):format(name), ("<Cmd>Tinsmith %s<CR>"):format(action))
end
vim.keymap.set("x", "<Plug>(tinsmith-ask)", ":Tinsmith ask<CR>", { silent = true })

for group, target in pairs({
  TinsmithUser = "Title",
  TinsmithAssistant = "Special",
  TinsmithReasoning = "Comment",
  TinsmithMeta = "Comment",
  TinsmithNotice = "DiagnosticInfo",
  TinsmithError = "DiagnosticError",
  TinsmithToolName = "Function",
  TinsmithToolTitle = "Normal",
  TinsmithToolPending = "DiagnosticWarn",
  TinsmithToolRunning = "DiagnosticInfo",
  TinsmithToolOk = "DiagnosticOk",
  TinsmithToolFailed = "DiagnosticError",
  TinsmithToolCancelled = "Comment",
  TinsmithApproval = "DiagnosticWarn",
  TinsmithApprovalKey = "Special",
  TinsmithDiffAdd = "DiffAdd",
  TinsmithDiffDelete = "DiffDelete",
  TinsmithActivity = "DiagnosticInfo",
}) do
  vim.api.nvim_set_hl(0, group, { link = target, default = true })
end
