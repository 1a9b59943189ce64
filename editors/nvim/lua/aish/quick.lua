--- A question and its answer in a window above the text, without the chat.

local client = require("aish.client")

local M = {}

---@param prompt string
---@param argument table
local function stream(prompt, argument)
  local width = math.min(80, vim.o.columns - 4)
  local height = math.min(20, vim.o.lines - 6)
  local buffer, window = require("aish.float").show({ "" }, {
    title = " " .. vim.fn.strcharpart(prompt, 0, width - 6) .. " ",
    footer = " q closes and stops ",
    width = width,
    height = height,
    filetype = "markdown",
  })
  vim.wo[window].linebreak = true
  local turn ---@type string?
  local has_ended, is_closed = false, false
  local function stop()
    if turn and not has_ended then
      client.execute("aish.cancel", { turnId = turn, uri = argument.uri })
    end
  end
  vim.api.nvim_create_autocmd("BufWipeout", {
    buffer = buffer,
    callback = function()
      is_closed = true
      stop()
    end,
  })
  local function put(text)
    if not vim.api.nvim_buf_is_valid(buffer) or not vim.api.nvim_win_is_valid(window) then
      return
    end
    local follows = vim.api.nvim_win_get_cursor(window)[1] == vim.api.nvim_buf_line_count(buffer)
    local lines = vim.split(text, "\n", { plain = true })
    vim.api.nvim_buf_set_text(buffer, -1, -1, -1, -1, lines)
    if follows then
      vim.api.nvim_win_set_cursor(window, { vim.api.nvim_buf_line_count(buffer), 0 })
    end
  end
  argument.prompt = prompt
  client.stream("aish.ask", argument, function(event)
    if event.kind == "start" then
      turn = event.turnId
      if is_closed then
        stop()
      end
    elseif event.kind == "text" then
      put(event.delta)
    elseif event.kind == "notice" then
      put(("> %s\n\n"):format(event.message))
    end
  end, function(err)
    has_ended = true
    if err then
      put(("\n> %s"):format(err.message))
    end
  end)
end

--- Ask for a question, and show the answer; `lines` are the first and last line that it is about.
---@param lines integer[]?
function M.ask(lines)
  local argument = { uri = client.uri() }
  if lines and argument.uri then
    argument.range = {
      start = { line = lines[1] - 1, character = 0 },
      ["end"] = { line = lines[2], character = 0 },
    }
  end
  vim.ui.input({ prompt = "Ask aish: " }, function(prompt)
    if prompt and vim.trim(prompt) ~= "" then
      stream(prompt, argument)
    end
  end)
end

return M
