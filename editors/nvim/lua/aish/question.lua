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

--- Return what is asked and the choices, as lines, and the number of the first choice's line.
---
--- The choices stand below, where all of it is seen at once, else above what is to be read.
---@param told string[]
---@param choices lsp.MessageActionItem[]
---@return string[] lines
---@return integer first
local function laid_out(told, choices)
  local titles = {} ---@type string[]
  for number, action in ipairs(choices) do
    table.insert(titles, ("  %d  %s"):format(number, action.title))
  end
  local lines = vim.list_extend(vim.list_slice(told), { "" })
  if require("aish.float").fits(vim.list_extend(vim.list_slice(lines), titles)) then
    return vim.list_extend(lines, titles), #told + 2
  end
  return vim.list_extend(vim.list_extend(titles, { "" }), told), 1
end

---@class aish.Asking
---@field filetype string? what the text is written in

--- Ask; `on_choice` gets the choice, or nil where the user turned away. It is called once.
---@param told string[]
---@param actions lsp.MessageActionItem[]
---@param on_choice fun(action: lsp.MessageActionItem?)
---@param how aish.Asking?
function M.ask(told, actions, on_choice, how)
  local choices = ordered(actions)
  local lines, first = laid_out(told, choices)
  local before = vim.api.nvim_get_current_win()
  -- Keys that were meant for something else must not answer: the mode is left first.
  vim.cmd.stopinsert()
  local buffer, window = require("aish.float").show(lines, {
    title = " aish asks ",
    footer = " <CR> chooses · <Esc> cancels ",
    filetype = how and how.filetype,
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
  require("aish.client").emit("AishQuestion", { message = table.concat(told, "\n") })
end

--- Ask in a coroutine, which waits for the user; nil where they turned away, or nobody can wait.
---@param told string[]
---@param actions lsp.MessageActionItem[]
---@param how aish.Asking?
---@return lsp.MessageActionItem?
local function asked(told, actions, how)
  local waiting, is_main = coroutine.running()
  if is_main or not waiting then
    return nil
  end
  vim.schedule(function()
    M.ask(told, actions, function(action)
      coroutine.resume(waiting, action)
    end, how)
  end)
  return coroutine.yield()
end

--- Answer `window/showMessageRequest`.
---@param params lsp.ShowMessageRequestParams
---@return lsp.MessageActionItem|vim.NIL
function M.answer(params)
  local told = vim.split(params.message, "\n", { plain = true })
  return asked(told, params.actions or {}) or vim.NIL
end

--- Return what is to be approved, as lines: all of a command, or what would change in a file.
---@param params aish.ApprovalRequest
---@return string[]
local function shown(params)
  local lines = vim.split(params.text, "\n", { plain = true })
  local diff = params.diff
  if type(diff) == "table" then
    local changes = vim.diff(diff.before, diff.after, { ctxlen = 3 }) --[[@as string]]
    if changes == "" then
      changes = "Nothing would change."
    end
    lines = { ("Change %s (%s)?"):format(params.text, params.risk), "" }
    vim.list_extend(lines, vim.split(vim.trim(changes), "\n", { plain = true }))
  end
  table.insert(lines, "")
  if not diff or diff == vim.NIL then
    local where = vim.fn.fnamemodify(vim.uri_to_fname(params.cwd), ":~")
    table.insert(lines, ("%s, in %s"):format(params.risk, where))
  end
  for _, reason in ipairs(params.reasons) do
    table.insert(lines, "- " .. reason)
  end
  return lines
end

--- Answer `aish/approve`.
---@param params aish.ApprovalRequest
---@return aish.Approved
function M.approve(params)
  local is_edit = params.kind == "edit"
  local yes = is_edit and "Change it" or "Run"
  local choice = asked(
    shown(params),
    { { title = yes }, { title = "Cancel" } },
    is_edit and { filetype = "diff" } or nil
  )
  return { approved = choice ~= nil and choice.title == yes }
end

return M
