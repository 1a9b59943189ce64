--- The keys of a chat, and what each does.

local client = require("aish.client")
local options = require("aish.options")

local M = {}

--- Go to the next heading of a message, or to the one before.
---@param count integer
function M.go(count)
  local flags = count > 0 and "W" or "bW"
  for _ = 1, math.abs(count) do
    vim.fn.search([[^## \(You\|aish\)$]], flags)
  end
end

--- Yank the fenced block under the cursor, or the last one above it.
function M.yank()
  local block = require("aish.apply").block()
  if not block then
    return client.tell("there is no block of code at or above the cursor", vim.log.levels.INFO)
  end
  vim.fn.setreg(vim.v.register, block.lines, "l")
  local plural = #block.lines == 1 and "" or "s"
  client.tell(("%d line%s yanked"):format(#block.lines, plural), vim.log.levels.INFO)
end

--- Have the user choose the model that answers from now on.
function M.choose_model()
  client.execute("aish.model.list", {}, function(err, result)
    if err then
      return client.tell(err.message)
    end
    vim.ui.select(result.models, {
      prompt = "Model",
      format_item = function(model)
        local mark = model.name == result.active and "● " or "  "
        return ("%s%s (%s)"):format(mark, model.name, model.provider)
      end,
    }, function(model)
      if model then
        client.execute("aish.model.use", { name = model.name })
      end
    end)
  end)
end

--- Return a time of the server's, which is in UTC, by this machine's clock.
---@param stamp string?
---@return string
local function local_time(stamp)
  local pattern = "^(%d+)-(%d+)-(%d+)T(%d+):(%d+)"
  local year, month, day, hour, min = (stamp or ""):match(pattern)
  if not year then
    return "?"
  end
  -- os.time takes these for local time: what it is off by is added.
  local off =
    os.time({ year = year, month = month, day = day, hour = hour, min = min, isdst = false })
  return tostring(
    os.date("%Y-%m-%d %H:%M", 2 * off - os.time(os.date("!*t", off) --[[@as osdateparam]]))
  )
end

--- Have the user choose a session by its title, and go on with it.
---@param query string? what those to choose from are about; all by default
function M.choose_session(query)
  client.execute("aish.session.list", { query = query }, function(err, result)
    if err then
      return client.tell(err.message)
    end
    if #result.sessions == 0 then
      return client.tell("there is no session to continue", vim.log.levels.INFO)
    end
    vim.ui.select(result.sessions, {
      prompt = "Session",
      format_item = function(session)
        local title = session.name or session.title or "no title"
        local plural = session.questions == 1 and " " or "s"
        local count = ("%3d question%s"):format(session.questions, plural)
        return ("%s  %s  %s"):format(local_time(session.updated), count, title)
      end,
    }, function(session)
      if session then
        require("aish.command").line("resume " .. session.id)
      end
    end)
  end)
end

--- Send the message, or run the suggestion that the cursor is on.
function M.send()
  if not require("aish.suggestions").run() then
    client.execute("aish.chat.send")
  end
end

local ACTIONS = {
  send = { M.send, "Send, or run the suggestion here" },
  stop = {
    function()
      client.execute("aish.cancel")
    end,
    "Stop what runs",
  },
  next = {
    function()
      M.go(vim.v.count1)
    end,
    "Next message",
  },
  previous = {
    function()
      M.go(-vim.v.count1)
    end,
    "Message before",
  },
  model = { M.choose_model, "Choose the model" },
  again = {
    function()
      client.execute("aish.chat.send", { prompt = ":retry" })
    end,
    "Ask again",
  },
  yank = { M.yank, "Yank the block here" },
  apply = {
    function()
      require("aish.apply").apply()
    end,
    "Put the block here into its file, after its diff",
  },
  run = {
    function()
      if not require("aish.suggestions").run() then
        client.tell("there is no suggested command on this line", vim.log.levels.INFO)
      end
    end,
    "Run the suggestion here",
  },
  edit = {
    function()
      require("aish.suggestions").edit()
    end,
    "Edit the suggestion here",
  },
  dismiss = {
    function()
      require("aish.suggestions").dismiss()
    end,
    "Dismiss the suggestion here",
  },
  terminal = {
    function()
      require("aish.suggestions").to_terminal()
    end,
    "Put the suggestion here into a terminal",
  },
  sessions = { M.choose_session, "Choose a session to continue" },
}

--- Show the keys.
local function help()
  local prose = require("aish.float").prose
  local order = { "send", "stop", "run", "edit", "dismiss", "terminal" }
  vim.list_extend(order, { "next", "previous", "model", "sessions", "again", "yank", "apply" })
  local lines = {}
  for _, name in ipairs(order) do
    local keys = options.current.keys[name]
    if keys and keys ~= "" then
      vim.list_extend(lines, prose(("%-6s %s"):format(keys, ACTIONS[name][2]), "       "))
    end
  end
  table.insert(lines, "")
  vim.list_extend(lines, prose("A line that begins with : is a command; :help lists them.", ""))
  local buffer = require("aish.float").show(lines, { title = " aish " })
  vim.bo[buffer].modifiable = false
end
ACTIONS.help = { help, "Show the keys" }

---@param buffer integer
function M.map(buffer)
  for name, keys in pairs(options.current.keys or {}) do
    if keys ~= "" then
      local action = ACTIONS[name]
      -- `gra` and the like of Neovim's own go on to work behind `gr`, which can wait.
      local nowait = name ~= "again"
      local settings = { buffer = buffer, nowait = nowait, desc = "aish: " .. action[2] }
      vim.keymap.set("n", keys, action[1], settings)
    end
  end
end

--- Take the keys away from a buffer that is no chat any more.
---@param buffer integer
function M.unmap(buffer)
  for _, keys in pairs(options.current.keys or {}) do
    if keys ~= "" then
      pcall(vim.keymap.del, "n", keys, { buffer = buffer })
    end
  end
end

return M
