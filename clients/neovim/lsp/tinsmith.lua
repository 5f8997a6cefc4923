-- The server as Neovim starts it. Change it with `vim.lsp.config("tinsmith", { ... })` or `vim.g.tinsmith`.

---@type vim.lsp.Config
return {
  cmd = { "tinsmith", "serve" },
  root_markers = {
    ".tinsmith",
    ".git",
    ".hg",
    "AGENTS.md",
    "pyproject.toml",
    "package.json",
    "Cargo.toml",
    "go.mod",
  },
  capabilities = {
    experimental = {
      agent = {
        versions = { 1 },
        applyEdits = vim.empty_dict(),
        permissions = vim.empty_dict(),
        reloadDocument = vim.empty_dict(),
        diagnostics = vim.empty_dict(),
        symbols = vim.empty_dict(),
        stream = { maxHz = 30 },
        clientName = "tinsmith.nvim",
      },
    },
  },
}
