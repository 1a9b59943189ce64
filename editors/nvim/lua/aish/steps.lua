--- The steps towards a goal as a list of places in the chat: `:Aish steps`.

local M = {}

local TITLE = "aish: steps"

--- Return what was done in each step of the last goal in a chat.
---@param buffer integer
---@return vim.quickfix.entry[]
local function steps(buffer)
  local found = {} ---@type vim.quickfix.entry[]
  local commands = {} ---@type string[]
  for number, line in ipairs(vim.api.nvim_buf_get_lines(buffer, 0, -1, false)) do
    local step, told = line:match("^> Step (%d+): (.*)%.$")
    if line == "## You" then
      commands = {}
    elseif step then
      if step == "1" then
        found = {}
      end
      local what = #commands > 0 and table.concat(commands, "; ") or "tools"
      local text = ("%s: %s"):format(told, what)
      table.insert(found, { bufnr = buffer, lnum = number, nr = tonumber(step), text = text })
      commands = {}
    else
      table.insert(commands, line:match("^CMD: (.*)"))
    end
  end
  return found
end

---@param info { id: integer, start_idx: integer, end_idx: integer, winid: integer }
---@return string[]
function M.text(info)
  local items = vim.fn.getloclist(info.winid, { id = info.id, items = 1 }).items
  local lines = {}
  for number = info.start_idx, info.end_idx do
    table.insert(lines, ("%3d  %s"):format(items[number].nr, items[number].text))
  end
  return lines
end

---@param window integer
---@param buffer integer
---@param action " "|"r"
local function put(window, buffer, action)
  vim.fn.setloclist(window, {}, action, {
    title = TITLE,
    items = steps(buffer),
    quickfixtextfunc = "v:lua.require'aish.steps'.text",
  })
end

--- Open the list beside the chat; it grows with each step.
function M.open()
  local chat = require("aish.chat")
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    local buffer = vim.api.nvim_win_get_buf(window)
    if chat.is_chat(buffer) then
      put(window, buffer, " ")
      vim.api.nvim_win_call(window, function()
        vim.cmd("lopen 8")
      end)
      return
    end
  end
  require("aish.client").tell("open the chat first: `:Aish`", vim.log.levels.INFO)
end

--- Bring the lists that are open up to date, and show the last step.
function M.refresh()
  for _, window in ipairs(vim.api.nvim_list_wins()) do
    local buffer = vim.api.nvim_win_get_buf(window)
    local list = require("aish.chat").is_chat(buffer)
      and vim.fn.getloclist(window, { title = 1, winid = 1, size = 1 })
    if list and list.title == TITLE and list.winid ~= 0 then
      put(window, buffer, "r")
      local size = vim.fn.getloclist(window, { size = 1 }).size
      if size > list.size then
        vim.api.nvim_win_set_cursor(list.winid, { size, 0 })
      end
    end
  end
end

return M
