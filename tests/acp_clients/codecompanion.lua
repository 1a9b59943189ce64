-- Drives CodeCompanion's chat as a user does: `talk`, or `resume` in another Neovim.
local chat = require("codecompanion").chat()

local function text()
  return table.concat(vim.api.nvim_buf_get_lines(chat.bufnr, 0, -1, false), "\n")
end

local function wait(what, condition)
  if not vim.wait(60000, condition, 20) then
    io.stderr:write("no " .. what .. ":\n" .. text() .. "\n" .. vim.fn.execute("messages") .. "\n")
    vim.cmd("cquit")
  end
end

local function holds(part, times)
  return function() return select(2, text():gsub(vim.pesc(part), "")) >= (times or 1) end
end

local function ask(line)
  wait("end of what was asked before", function()
    return chat.current_request == nil and vim.bo[chat.bufnr].modifiable
  end)
  local last = vim.api.nvim_buf_line_count(chat.bufnr)
  vim.api.nvim_buf_set_lines(chat.bufnr, last - 1, last, false, { line })
  chat:submit()
end

local function press(keys)
  vim.api.nvim_set_current_buf(chat.bufnr)
  vim.api.nvim_feedkeys(vim.keycode(keys), "mtx", false)
end

local function exists(name) return vim.uv.fs_stat(name) ~= nil end

local function follow_up()
  ask("/prompt And now?")
  wait("output of the command", holds("$ rm notes.txt (exit 0)"))
end

local function talk()
  ask("create an empty file named x")
  wait("reply", holds("CMD: touch x"))
  ask("/run rm notes.txt")
  wait("permission", holds("Please select an option"))
  assert(exists("notes.txt"))
  press("g2")
  wait("run", function() return not exists("notes.txt") end)
  follow_up()
  ask("/run touch begun; trap 'touch ended; exit' TERM; while :; do sleep 0.1; done")
  wait("command that runs", function() return exists("begun") end)
  press("q")
  wait("end of the command", function() return exists("ended") end)
end

local function resume()
  vim.ui.select = function(items, _, chosen) chosen(items[1], 1) end
  local command = require("codecompanion.interactions.chat.slash_commands.builtin.resume")
  command.new({ Chat = chat, config = {}, context = {} }):execute()
  wait("history", holds("CMD: touch x"))
  follow_up()
end

local function drive()
  wait("connection", function() return chat.acp_connection and chat.acp_connection:is_ready() end)
  if vim.env.PHASE == "resume" then resume() else talk() end
end

local ok, error = pcall(drive)
if not ok then io.stderr:write(error .. "\n" .. text() .. "\n") end
vim.cmd(ok and "qall!" or "cquit")
