--- What a user sets, and what holds where they set nothing.

local M = {}

---@class aish.Keys
---@field send string? sends the message, or runs the suggestion under the cursor
---@field stop string?
---@field next string?
---@field previous string?
---@field model string?
---@field again string?
---@field yank string?
---@field apply string?
---@field run string?
---@field edit string?
---@field dismiss string?
---@field terminal string?
---@field sessions string?
---@field help string?

---@class aish.Options
---@field cmd string[]? the server; `aish-lsp` of PATH by default
---@field settings table? the server's own settings, as in its config.toml
---@field window "vsplit"|"split"|"tab"|"current" where the chat is opened
---@field keys aish.Keys|false the chat's keys; false for none, an empty string for one less
---@field restarts integer how often the server is started again within a minute
M.defaults = {
  cmd = nil,
  settings = {},
  window = "vsplit",
  keys = {
    send = "<CR>",
    stop = "q",
    next = "]]",
    previous = "[[",
    model = "ga",
    again = "gr",
    yank = "gy",
    apply = "gp",
    run = "gx",
    edit = "ge",
    dismiss = "gd",
    terminal = "gs",
    sessions = "gl",
    help = "?",
  },
  restarts = 4,
}

---@type aish.Options
M.current = vim.deepcopy(M.defaults)

local WINDOWS = { vsplit = true, split = true, tab = true, current = true }

--- Take in what the user set. What is wrong is told, and its default stays.
---@param given table?
---@return string[] problems
function M.set(given)
  local problems = {}
  local known = vim.deepcopy(M.defaults)
  given = given or {}
  local types =
    { cmd = "table", settings = "table", window = "string", keys = "table", restarts = "number" }
  for name, value in pairs(given) do
    if not types[name] then
      table.insert(problems, ("there is no option %q"):format(name))
    elseif name == "keys" and value == false then
      known.keys = false
    elseif type(value) ~= types[name] then
      table.insert(problems, ("%s must be a %s"):format(name, types[name]))
    elseif name == "window" and not WINDOWS[value] then
      table.insert(problems, "window must be vsplit, split, tab or current")
    elseif name == "keys" then
      for action, keys in pairs(value) do
        if M.defaults.keys[action] == nil or type(keys) ~= "string" then
          table.insert(problems, ("keys.%s is not known"):format(action))
        else
          known.keys[action] = keys
        end
      end
    else
      known[name] = value
    end
  end
  M.current = known
  return problems
end

return M
