-- Buffer-local mappings of the transcript; `vim.g.tinsmith = { maps = false }` leaves them out.

if vim.b.did_ftplugin then
  return
end
vim.b.did_ftplugin = true
vim.b.undo_ftplugin = "mapclear <buffer>"

if not require("tinsmith.config").get().maps then
  return
end

local function map(key, description, action)
  vim.keymap.set("n", key, action, { buffer = true, desc = "Tinsmith: " .. description, nowait = true })
end

local function api(name, ...)
  local arguments = { ... }
  return function()
    require("tinsmith")[name](unpack(arguments))
  end
end

map("ga", "allow once", api("approve"))
map("gA", "allow for the conversation", api("approve", "conversation"))
map("gd", "deny", api("deny"))
map("<CR>", "give the answer under the cursor", api("choose"))
map("<C-c>", "stop the turn", api("stop"))
map("i", "ask", api("ask"))
map("q", "close the transcript", api("toggle"))
map("]]", "next heading", function()
  vim.fn.search("^## ", "W")
end)
map("[[", "previous heading", function()
  vim.fn.search("^## ", "bW")
end)
map("g?", "help", function()
  vim.cmd.help("tinsmith-transcript")
end)
