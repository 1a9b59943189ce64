--- What the server asks before it does something: a window that shows all of it, *Cancel* first.

local M = {}

local marks = vim.api.nvim_create_namespace("aish.question")

--- Return the choices with what does nothing first; the server puts it last.
---@param actions lsp.MessageActionItem[]
---@return lsp.MessageActionItem[]
local function ordered(actions)
  local found = {}
  for _, action in ipairs(actions) do
    table.insert(found, action.title == "Cancel" and 1 or #found + 1, action)
  end
  return found
end

--- Ask; `on_choice` gets the choice, or nil where the user turned away. It is called once.
---@param message string
---@param actions lsp.MessageActionItem[]
---@param on_choice fun(action: lsp.MessageActionItem?)
function M.ask(message, actions, on_choice)
  local choices = ordered(actions)
  local lines = vim.split(message, "\n", { plain = true })
  table.insert(lines, "")
  local first = #lines + 1
  for number, action in ipairs(choices) do
    table.insert(lines, ("  %d  %s"):format(number, action.title))
  end
  local before = vim.api.nvim_get_current_win()
  -- Keys that were meant for something else must not answer: the mode is left first.
  vim.cmd.stopinsert()
  local buffer, window = require("aish.float").show(lines, {
    title = " aish asks ",
    footer = " <CR> chooses · <Esc> cancels ",
  })
  vim.bo[buffer].modifiable = false
  vim.wo[window].cursorline = true
  vim.api.nvim_win_set_cursor(window, { first, 2 })
  for number = 1, #choices do
    vim.api.nvim_buf_set_extmark(buffer, marks, first + number - 2, 2, {
      end_col = 3,
      hl_group = "Number",
    })
  end
  local is_answered = false
  local function answer(action)
    if is_answered then
      return
    end
    is_answered = true
    if vim.api.nvim_win_is_valid(window) then
      vim.api.nvim_win_close(window, true)
    end
    if vim.api.nvim_win_is_valid(before) then
      vim.api.nvim_set_current_win(before)
    end
    on_choice(action)
  end
  local function map(keys, action)
    vim.keymap.set("n", keys, action, { buffer = buffer, nowait = true })
  end
  map("<CR>", function()
    answer(choices[vim.fn.line(".") - first + 1])
  end)
  for number, action in ipairs(choices) do
    map(tostring(number), function()
      answer(action)
    end)
  end
  map("q", function()
    answer(nil)
  end)
  map("<Esc>", function()
    answer(nil)
  end)
  vim.api.nvim_create_autocmd({ "WinClosed", "BufLeave" }, {
    buffer = buffer,
    once = true,
    callback = function()
      vim.schedule(function()
        answer(nil)
      end)
    end,
  })
  require("aish.client").emit("AishQuestion", { message = message })
end

--- Answer `window/showMessageRequest`. Called in a coroutine, which waits for the user.
---@param params lsp.ShowMessageRequestParams
---@return any
function M.answer(params)
  local waiting, is_main = coroutine.running()
  if is_main or not waiting then
    return vim.NIL
  end
  vim.schedule(function()
    M.ask(params.message, params.actions or {}, function(action)
      coroutine.resume(waiting, action or vim.NIL)
    end)
  end)
  return coroutine.yield()
end

return M
