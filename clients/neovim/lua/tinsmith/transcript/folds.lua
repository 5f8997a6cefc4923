-- Folds of finished calls and thoughts: made by range, in every window that shows the transcript, once.

local render = require("tinsmith.transcript.render")

local api = vim.api

local M = {}

--- Close a block in one window, unless that window has it folded already.
---@param win integer
---@param first integer line of the block's header
---@param last integer
local function fold(win, first, last)
  api.nvim_win_call(win, function()
    if vim.wo.foldmethod == "manual" and vim.fn.foldlevel(last) == 0 then
      vim.cmd(("%d,%dfold"):format(first, last))
    end
  end)
end

--- Fold what can be folded, in these windows.
---@param buf integer
---@param wins integer[]
---@param list tinsmith.Block[]
function M.close(buf, wins, list)
  for _, block in ipairs(list) do
    if block.is_foldable and block.mark then
      local row = render.row(buf, block)
      for _, win in ipairs(wins) do
        fold(win, row + 1, row + block.height)
      end
    end
  end
end

return M
