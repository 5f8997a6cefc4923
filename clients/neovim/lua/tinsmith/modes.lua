-- What the person is in the middle of, where Neovim itself loses track when a buffer changes under it.

local api = vim.api

local M = {}

local OPERATOR_WITHIN_MS = 2000

local anchors = api.nvim_create_namespace("tinsmith.anchor")

--- To Visual mode from Select mode and back, as a part of `:normal`.
local TOGGLE = { s = "\7", S = "\7", ["\19"] = "\7" }
local SELECTING = { v = true, V = true, ["\22"] = true, s = true, S = true, ["\19"] = true }

---@return boolean
local function is_operator_pending()
  return vim.startswith(api.nvim_get_mode().mode, "no")
end

--- Wait, in a coroutine, until no operator waits for its motion: Neovim remembers where it began by line number,
--- and `d` would then take other lines than the person meant.
---@return boolean is_settled false when the person took too long
function M.settle()
  if not is_operator_pending() then
    return true
  end
  local waiting = coroutine.running()
  local watch
  local function go_on()
    if waiting then
      local resumed = waiting
      waiting = nil
      api.nvim_del_autocmd(watch)
      assert(coroutine.resume(resumed))
    end
  end
  watch = api.nvim_create_autocmd("ModeChanged", { pattern = "no*:*", callback = vim.schedule_wrap(go_on) })
  vim.defer_fn(go_on, OPERATOR_WITHIN_MS)
  coroutine.yield()
  return not is_operator_pending()
end

--- Make a change of a buffer while the other end of a selection stays on its text; Neovim moves the cursor alone.
---@param buf integer
---@param change fun()
function M.keep_selection(buf, change)
  local mode = api.nvim_get_mode().mode:sub(1, 1)
  if not SELECTING[mode] or api.nvim_get_current_buf() ~= buf then
    change()
    return
  end
  local anchor = vim.fn.getpos("v")
  local row, column = anchor[2] - 1, anchor[3] - 1
  local mark = api.nvim_buf_set_extmark(buf, anchors, row, column, { strict = false })
  change()
  local now = api.nvim_buf_get_extmark_by_id(buf, anchors, mark, {})
  api.nvim_buf_del_extmark(buf, anchors, mark)
  if now[1] == row and now[2] == column then
    return
  end
  local view, toggle = vim.fn.winsaveview(), TOGGLE[mode] or ""
  vim.cmd.normal({ toggle .. "o", bang = true })
  api.nvim_win_set_cursor(0, { now[1] + 1, now[2] })
  vim.cmd.normal({ "o" .. toggle, bang = true })
  vim.fn.winrestview(view)
end

return M
