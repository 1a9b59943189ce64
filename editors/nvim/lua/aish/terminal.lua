--- Neovim's own terminal: where a suggestion is typed, and what was run there last.

local M = {}

---@class aish.Ran
---@field line integer? the row, from 0, from which on a command prints
---@field ended integer? the row at which it ended
---@field code integer? its exit status
---@field sent string? what we have typed there

--- By buffer.
local ran = {} ---@type table<integer, aish.Ran>

--- Lines that are told where nobody knows where a command begins.
local SHOWN = 200

---@param buffer integer
---@return aish.Ran
local function of(buffer)
  ran[buffer] = ran[buffer] or {}
  return ran[buffer]
end

--- Return the last row of a terminal that holds something, from 0.
---@param buffer integer
---@return integer
local function bottom(buffer)
  local lines = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  for number = #lines, 1, -1 do
    if vim.trim(lines[number]) ~= "" then
      return number - 1
    end
  end
  return 0
end

--- Shells that mark their commands (OSC 133) tell where an output begins and ends.
vim.api.nvim_create_autocmd("TermRequest", {
  group = vim.api.nvim_create_augroup("aish.terminal", {}),
  callback = function(event)
    local sequence = type(event.data) == "table" and event.data.sequence or event.data
    local mark, rest = tostring(sequence):match("^\27%]133;([A-D]);?(.*)")
    local one = of(event.buf)
    if mark == "C" then
      one.line, one.ended, one.code = bottom(event.buf) + 1, nil, nil
    elseif mark == "D" and one.line then
      one.ended, one.code = bottom(event.buf), tonumber(rest:match("^%-?%d+"))
    end
  end,
})

--- Return whether what was started in a terminal still runs.
---@param buffer integer
---@return boolean
local function is_alive(buffer)
  return vim.fn.jobwait({ vim.bo[buffer].channel }, 0)[1] == -1
end

--- Return the terminal that is shown, or the one that was used last.
---@param suits (fun(buffer: integer): boolean)?
---@return integer?
local function last_terminal(suits)
  local found ---@type table?
  for _, info in ipairs(vim.fn.getbufinfo({ bufloaded = 1 })) do
    if vim.bo[info.bufnr].buftype == "terminal" and (not suits or suits(info.bufnr)) then
      local is_shown, was_shown = #info.windows > 0, found ~= nil and #found.windows > 0
      local is_later = found == nil or info.lastused >= found.lastused
      if (is_shown and not was_shown) or (is_shown == was_shown and is_later) then
        found = info
      end
    end
  end
  return found and found.bufnr
end

--- Return the folder that the process of a terminal works in.
---@param buffer integer
---@return string?
local function folder(buffer)
  local known, pid = pcall(vim.fn.jobpid, vim.bo[buffer].channel)
  return known and vim.uv.fs_readlink(("/proc/%d/cwd"):format(pid)) or nil
end

--- Answer `aish/terminal`.
---@return aish.LastInTerminal|vim.NIL
function M.answer()
  local buffer = last_terminal()
  if not buffer then
    return vim.NIL
  end
  local one, last = of(buffer), bottom(buffer)
  local from = one.line or math.max(0, last + 1 - SHOWN)
  local lines = vim.api.nvim_buf_get_lines(buffer, from, (one.ended or last) + 1, false)
  return {
    command = one.line and one.sent or "",
    cwd = folder(buffer) or vim.NIL,
    exitCode = one.code or vim.NIL,
    output = table.concat(lines, "\n"),
  }
end

--- Shells that take a paste of several lines as one, and wait for Enter.
local PASTES = { bash = true, fish = true, zsh = true }

--- Return the name of what a terminal runs, or would run.
---@param buffer integer?
---@return string
local function program(buffer)
  local argv = buffer and vim.api.nvim_get_chan_info(vim.bo[buffer].channel).argv
    or vim.split(vim.o.shell, " ")
  -- `:terminal python3` is a shell that does nothing else.
  local _, runs = vim.iter(argv):enumerate():find(function(_, word)
    return word == "-c"
  end)
  return vim.fs.basename(runs and argv[#argv] or argv[1])
end

--- Type a text into a terminal, where the user looks at it and presses Enter.
---@param text string
function M.type(text)
  local typed, count = vim.trim(text):gsub("[%z\1-\9\11-\31\127]", ""):gsub("\n", "\n")
  local buffer = last_terminal(is_alive)
  local shell = program(buffer)
  if count > 0 and not PASTES[shell] then
    local why = ("%s would run its lines one by one: run it here, or yank it"):format(shell)
    return require("aish.client").tell(why)
  end
  local window = buffer and vim.fn.win_findbuf(buffer)[1]
  if window then
    vim.api.nvim_set_current_win(window)
  else
    vim.cmd("botright new")
    vim.fn.jobstart({ vim.o.shell }, { term = true })
    buffer = vim.api.nvim_get_current_buf()
  end
  of(buffer).sent = text
  local sent = count > 0 and ("\27[200~%s\27[201~"):format(typed) or typed
  vim.fn.chansend(vim.bo[buffer].channel, sent)
  vim.cmd.startinsert()
end

return M
