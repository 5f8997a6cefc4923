-- The demo as a person meets it: the sample's file with an unsaved line, the transcript, a guide, a message to send.

local GUIDE = {
  " 1  Enter sends the message in the last line; the answer comes on the right.",
  " 2  A card asks before anything changes:  :Tinsmith approve  (or deny)",
  " 3  The edit is in your open file, not on the disk. Save it yourself:  :w",
  " 4  :Tinsmith ask Run the tests, please.  and again  :Tinsmith approve",
  " 5  u takes the agent's edit back; your own line stays.  :qall!  leaves.",
}

local function show_guide()
  local buf = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buf, 0, -1, true, GUIDE)
  vim.bo[buf].modifiable = false
  vim.bo[buf].bufhidden = "wipe"
  local win = vim.api.nvim_open_win(buf, false, {
    win = -1,
    split = "below",
    height = #GUIDE + 1,
    style = "minimal",
  })
  vim.wo[win].winbar = " What to press. The model is scripted, not an AI; everything else is real."
  vim.wo[win].statusline = " "
  vim.wo[win].winfixheight = true
end

vim.api.nvim_create_autocmd("User", {
  pattern = "TinsmithStatus",
  callback = function(event)
    if event.data.conversation then
      vim.schedule(function()
        show_guide()
        vim.api.nvim_feedkeys(":Tinsmith ask " .. vim.g.tinsmith_demo.wish, "n", false)
      end)
      return true
    end
  end,
})

vim.api.nvim_create_autocmd("VimEnter", {
  once = true,
  callback = function()
    vim.api.nvim_buf_set_lines(0, 1, 1, true, { vim.g.tinsmith_demo.line })
    vim.wo[0][0].wrap = false
    vim.cmd.Tinsmith("new")
  end,
})
