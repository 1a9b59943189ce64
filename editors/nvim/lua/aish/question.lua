--- What the server asks before it does something: a window that shows all of it, *Cancel* first.

local M = {}

local marks = vim.api.nvim_create_namespace("aish.question")

--- Milliseconds without a key after which somebody who was typing is taken to have seen a question.
M.SEEN = 500

--- Whether a question is shown, and those that wait for its answer: one would close another.
local is_shown = false
local queue = {} ---@type function[]

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

--- Drop the keys of somebody who types on when a question comes, until they pause: `2` or `j` and
--- <CR> in a message would agree to a command that was never read.
---@param buffer integer
local function ignore_typing(buffer)
  local last = vim.uv.hrtime()
  vim.on_key(function(_, typed)
    if typed == "" or vim.api.nvim_get_current_buf() ~= buffer then
      return nil
    end
    local before = last
    last = vim.uv.hrtime()
    if (last - before) / 1e6 < M.SEEN then
      return ""
    end
    vim.on_key(nil, marks)
  end, marks)
end

---@class aish.Asking
---@field filetype string? what the text is written in

--- Ask the question that waits, once another is answered.
local function ask_next()
  local following = table.remove(queue, 1)
  if following then
    following()
  end
end

---@param told string[]
---@param choices lsp.MessageActionItem[] what does nothing comes first
---@param on_choice fun(action: lsp.MessageActionItem?)
---@param how aish.Asking?
local function show(told, choices, on_choice, how)
  -- What a reason quotes may have lines of its own.
  told = vim.split(table.concat(told, "\n"), "\n", { plain = true })
  local lines, first = laid_out(told, choices)
  local before = vim.api.nvim_get_current_win()
  local is_typing = vim.fn.mode():find("^[iRtc]") ~= nil
  vim.cmd.stopinsert()
  local buffer, window = require("aish.float").show(lines, {
    title = " aish asks ",
    footer = " <CR> chooses · <Esc> cancels ",
    filetype = how and how.filetype,
  })
  is_shown = true
  vim.bo[buffer].modifiable = false
  if is_typing then
    ignore_typing(buffer)
  end
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
    is_answered, is_shown = true, false
    vim.on_key(nil, marks)
    if vim.api.nvim_win_is_valid(window) then
      vim.api.nvim_win_close(window, true)
    end
    if vim.api.nvim_win_is_valid(before) then
      vim.api.nvim_set_current_win(before)
    end
    on_choice(action)
    ask_next()
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
end

--- Ask; `on_choice` gets the choice, or nil where the user turned away. It is called once.
---@param told string[]
---@param actions lsp.MessageActionItem[]
---@param on_choice fun(action: lsp.MessageActionItem?)
---@param how aish.Asking?
function M.ask(told, actions, on_choice, how)
  if is_shown then
    table.insert(queue, function()
      M.ask(told, actions, on_choice, how)
    end)
    return
  end
  local done = pcall(show, told, actions, on_choice, how)
  if done then
    return require("aish.client").emit("AishQuestion", { message = table.concat(told, "\n") })
  end
  -- No window opens above that of the command line, `q:`.
  is_shown = false
  require("aish.client").tell("no room for a question: nothing was done")
  on_choice(nil)
  ask_next()
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
  local told = {} ---@type string[]
  for _, line in ipairs(vim.split(params.message, "\n", { plain = true })) do
    -- What is indented, such as a command, stays as it is.
    vim.list_extend(told, line:find("^%s") and { line } or require("aish.float").prose(line, ""))
  end
  return asked(told, params.actions or {}) or vim.NIL
end

--- Return what is to be approved, as lines: all of a command, or what would change in a file.
---@param params aish.ApprovalRequest
---@return string[]
local function shown(params)
  local prose = require("aish.float").prose
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
    -- Not "- ", which is a line that goes in a diff; nor may a second line of it begin so.
    vim.list_extend(lines, prose("• " .. reason, "  "))
  end
  if params.undo ~= "" then
    table.insert(lines, "")
    vim.list_extend(lines, prose(params.undo, ""))
  end
  if params.covers ~= "" and params.covers ~= params.text then
    table.insert(lines, "Remembered, a yes covers: " .. params.covers)
  end
  return lines
end

--- Answer `aish/approve`.
---@param params aish.ApprovalRequest
---@return aish.Approved
function M.approve(params)
  local actions = {} ---@type lsp.MessageActionItem[]
  for _, label in ipairs(params.labels) do
    table.insert(actions, { title = label })
  end
  local how = params.kind == "edit" and { filetype = "diff" } or nil
  local choice = asked(shown(params), actions, how)
  for number, label in ipairs(params.labels) do
    if choice and choice.title == label then
      -- The first is a no, the second a yes, each other one a yes that is remembered.
      return { approved = number > 1, remember = params.remember[number - 2] }
    end
  end
  return { approved = false }
end

return M
