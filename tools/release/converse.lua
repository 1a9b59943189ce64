-- Ask in the chat by a user's keys, and end Neovim; it fails where nothing comes.

local QUESTION = "how do I list files"

local function lines()
  return vim.api.nvim_buf_get_lines(0, 0, -1, false)
end

local function headings()
  return #vim.tbl_filter(function(line)
    return line == "## You"
  end, lines())
end

--- Wait while Neovim does all else: keys are taken, and the server's messages.
local function wait_for(what, condition)
  local this = coroutine.running()
  local left = 2400
  local function look()
    left = left - 1
    if condition() then
      coroutine.resume(this, true)
    elseif left > 0 then
      vim.defer_fn(look, 50)
    else
      coroutine.resume(this, false)
    end
  end
  vim.schedule(look)
  if not coroutine.yield() then
    io.stderr:write(("waited for: %s\n%s\n"):format(what, table.concat(lines(), "\n")))
    io.stderr:write(vim.fn.execute("messages") .. "\n")
    vim.cmd("cquit 1")
  end
end

coroutine.wrap(function()
  vim.api.nvim_input(":Aish<CR>")
  wait_for("the chat", function()
    return vim.endswith(vim.api.nvim_buf_get_name(0), "/.aish/chat.md") and headings() == 1
  end)
  vim.api.nvim_input("Gi" .. QUESTION .. "<Esc><CR>")
  wait_for("a reply", function()
    return headings() == 2
  end)
  vim.cmd("wall | qall!")
end)()
