--- The commands of a reply, where they stand in the chat: what they could do, and keys for them.
---
--- What can be run, and how, is the server's word: its code lenses and its list of commands.

local client = require("aish.client")

local M = {}

local marks = vim.api.nvim_create_namespace("aish.suggestions")

---@class aish.Suggestion
---@field id string?
---@field text string
---@field risk "safe"|"caution"|"destructive"|"" empty once it is no longer a suggestion that waits
---@field reasons string[]?
---@field run lsp.Command?
---@field edit lsp.Command?
---@field first integer
---@field last integer

--- By buffer.
local shown = {} ---@type table<integer, aish.Suggestion[]>

local timers = {} ---@type table<integer, uv.uv_timer_t>

local GROUPS = { safe = "AishSafe", caution = "AishCaution", destructive = "AishDestructive" }

local INDENT = "  "

--- Bytes of a folder's path above which its parts are shortened.
local PLACE = 30

---@param buffer integer
---@param line integer from 0
---@return integer
local function last_line(buffer, line)
  local first = vim.api.nvim_buf_get_lines(buffer, line, line + 1, false)[1]
  local fence = first and first:match("^%s*([`~][`~][`~]+)")
  if fence then
    local below = vim.api.nvim_buf_get_lines(buffer, line + 1, line + 200, false)
    for number, text in ipairs(below) do
      if vim.trim(text) == fence then
        return line + number
      end
    end
  end
  return line
end

---@param keys string
---@param what string
---@return string
local function hint(keys, what)
  local map = require("aish.options").current.keys
  local key = map and map[keys]
  -- A blank at which no line is parted.
  return key and key ~= "" and ("%s\194\160%s"):format(key, what) or ""
end

---@param one aish.Suggestion
---@param place string the folder that it would run in
---@return [string, string][] chunks of text, each with its highlight group
local function described(one, place)
  local text = {}
  if one.risk ~= "" then
    table.insert(text, { one.risk, GROUPS[one.risk] })
  end
  if one.reasons and one.reasons[1] and one.risk ~= "safe" then
    table.insert(text, { ": " .. one.reasons[1], "AishHint" })
  end
  local hints = vim.tbl_filter(function(part)
    return part ~= ""
  end, {
    one.run and hint("run", "run in " .. place) or "",
    one.edit and hint("edit", "edit") or "",
  })
  if #hints > 0 then
    local parted = #text > 0 and "  " or ""
    table.insert(text, { parted .. table.concat(hints, " · "), "AishHint" })
  end
  return text
end

--- Return the columns of text in the narrowest window that shows a buffer.
---@param buffer integer
---@return integer
local function columns(buffer)
  local least = vim.o.columns
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    local info = vim.fn.getwininfo(window)[1]
    least = math.min(least, info.width - info.textoff)
  end
  return least
end

--- Part chunks at their blanks into lines of so many columns.
---@param chunks [string, string][]
---@param width integer
---@return [string, string][][]
local function wrapped(chunks, width)
  local lines, used = { {} }, 0
  for _, chunk in ipairs(chunks) do
    for word in chunk[1]:gmatch("%s*%S+") do
      if used > 0 and used + vim.api.nvim_strwidth(word) > width then
        lines[#lines + 1], used = {}, 0
        word = vim.trim(word)
      end
      if used == 0 then
        word = INDENT .. vim.trim(word)
      end
      table.insert(lines[#lines], { word, chunk[2] })
      used = used + vim.api.nvim_strwidth(word)
    end
  end
  return lines
end

--- Show what each suggestion could do: behind it, or below where there is no room.
---@param buffer integer
local function draw(buffer)
  vim.api.nvim_buf_clear_namespace(buffer, marks, 0, -1)
  local width = columns(buffer)
  -- That of a chat is `.aish`, in the workspace.
  local place = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(buffer), ":p:~:h:h")
  place = #place > PLACE and vim.fn.pathshorten(place) or place
  for _, one in ipairs(shown[buffer] or {}) do
    local line = vim.api.nvim_buf_get_lines(buffer, one.first, one.first + 1, false)[1]
    local text = described(one, place)
    if line and #text > 0 then
      local taken = vim.fn.strdisplaywidth(line) + #INDENT
      for _, chunk in ipairs(text) do
        taken = taken + vim.api.nvim_strwidth(chunk[1])
      end
      local settings = taken <= width
          and {
            virt_text = { { INDENT }, unpack(text) },
            virt_text_pos = "eol",
            hl_mode = "combine",
          }
        or { virt_lines = wrapped(text, width) }
      local at = taken <= width and one.first or one.last
      at = math.min(at, vim.api.nvim_buf_line_count(buffer) - 1)
      vim.api.nvim_buf_set_extmark(buffer, marks, at, 0, settings)
    end
  end
end

vim.api.nvim_create_autocmd({ "WinResized", "BufWinEnter" }, {
  group = vim.api.nvim_create_augroup("aish.suggestions", {}),
  callback = function()
    for buffer in pairs(shown) do
      if vim.api.nvim_buf_is_loaded(buffer) then
        draw(buffer)
      end
    end
  end,
})

---@param buffer integer
---@param lenses lsp.CodeLens[]
---@param commands table[]
---@return aish.Suggestion[]
local function joined(buffer, lenses, commands)
  local by_id = {}
  for _, command in ipairs(commands) do
    by_id[command.id] = command
  end
  local by_line = {} ---@type table<integer, aish.Suggestion>
  for _, lens in ipairs(lenses) do
    local line = lens.range.start.line
    local command = lens.command
    if command and (command.title == "Run" or command.title == "Edit") then
      local one = by_line[line] or { first = line, last = last_line(buffer, line), risk = "" }
      by_line[line] = one
      local argument = command.arguments and command.arguments[1] or {}
      if command.title == "Run" then
        one.run, one.id, one.text = command, argument.commandId, argument.text
        local known = by_id[argument.commandId]
        if known then
          one.risk, one.reasons, one.text = known.risk, known.reasons, known.text
        end
      else
        one.edit = command
      end
    end
  end
  return vim.tbl_values(by_line)
end

--- Ask the server what can be run in a chat, and show it.
---@param buffer integer
function M.refresh(buffer)
  local served = vim.lsp.get_clients({ name = "aish", bufnr = buffer })[1]
  if not served or not vim.api.nvim_buf_is_loaded(buffer) then
    return
  end
  local document = { uri = vim.uri_from_bufnr(buffer) }
  served:request("textDocument/codeLens", { textDocument = document }, function(err, lenses)
    if err or not vim.api.nvim_buf_is_loaded(buffer) then
      return
    end
    local params = { command = "aish.commands.list", arguments = { document } }
    served:request("workspace/executeCommand", params, function(problem, result)
      if not vim.api.nvim_buf_is_loaded(buffer) then
        return
      end
      shown[buffer] = joined(buffer, lenses or {}, not problem and result.commands or {})
      draw(buffer)
    end)
  end, buffer)
end

---@param buffer integer
function M.refresh_soon(buffer)
  timers[buffer] = timers[buffer] or assert(vim.uv.new_timer())
  timers[buffer]:stop()
  timers[buffer]:start(
    150,
    0,
    vim.schedule_wrap(function()
      M.refresh(buffer)
    end)
  )
end

--- Drop what is known of a buffer that is no chat any more.
---@param buffer integer
function M.forget(buffer)
  shown[buffer] = nil
  if timers[buffer] then
    timers[buffer]:close()
    timers[buffer] = nil
  end
  if vim.api.nvim_buf_is_loaded(buffer) then
    vim.api.nvim_buf_clear_namespace(buffer, marks, 0, -1)
  end
end

--- Ask again for every chat that is shown.
function M.refresh_all()
  for _, buffer in ipairs(require("aish.chat").buffers()) do
    M.refresh_soon(buffer)
  end
end

--- Return the suggestion under the cursor.
---@return aish.Suggestion?
local function here()
  local line = vim.fn.line(".") - 1
  for _, one in ipairs(shown[vim.api.nvim_get_current_buf()] or {}) do
    if one.first <= line and line <= one.last then
      return one
    end
  end
end

---@param command lsp.Command
local function execute(command)
  client.execute(command.command, command.arguments and command.arguments[1] or {})
end

---@return aish.Suggestion?
local function wanted()
  local one = here()
  if not one then
    client.tell("there is no suggested command on this line", vim.log.levels.INFO)
  end
  return one
end

--- Run the suggestion under the cursor; one with placeholders is edited first. Return whether there is one.
---@return boolean
function M.run()
  local one = here()
  if not one then
    return false
  end
  local command = one.run or one.edit
  if command then
    execute(command)
    -- The output comes at the end: where that is out of sight, nothing would seem to happen.
    if vim.fn.line("w$") < vim.fn.line("$") then
      vim.cmd("normal! G")
    end
  end
  return true
end

--- Put the suggestion under the cursor where it can be changed and sent.
function M.edit()
  local one = wanted()
  if one and one.edit then
    execute(one.edit)
    vim.schedule(function()
      vim.cmd("normal! G$")
    end)
  end
end

--- Drop the suggestion under the cursor.
function M.dismiss()
  local one = wanted()
  if one and one.id then
    client.execute("aish.commands.dismiss", { commandId = one.id }, function(err)
      if err then
        client.tell(err.message)
      end
      M.refresh_all()
    end)
  end
end

--- Type the suggestion under the cursor into a terminal, where the user looks at it and presses Enter.
function M.to_terminal()
  local one = wanted()
  if not one or not one.text then
    return
  end
  require("aish.terminal").type(one.text)
end

return M
