--- `:Aish`: a word for what the editor does, and every `:` command of the chat.

local client = require("aish.client")
local lines = require("aish.protocol").lines

local M = {}

--- Call back with the code action of the server, about some lines of the current buffer, whose title
--- begins so; with nil where there is none.
---@param title string
---@param first integer
---@param last integer
---@param callback fun(action: lsp.CodeAction?)
function M.offered(title, first, last, callback)
  local served = client.get()
  if not served then
    return client.tell("no server serves this buffer")
  end
  local text = vim.api.nvim_buf_get_lines(0, last - 1, last, false)[1] or ""
  local params = {
    textDocument = { uri = vim.uri_from_bufnr(0) },
    range = {
      start = { line = first - 1, character = 0 },
      ["end"] = { line = last - 1, character = #text },
    },
    context = { diagnostics = {}, only = { "refactor.aish" } },
  }
  if served.offset_encoding ~= "utf-8" then
    params.range["end"].character = vim.str_utfindex(text, served.offset_encoding)
  end
  served:request("textDocument/codeAction", params, function(err, actions)
    callback(vim.iter(not err and actions or {}):find(function(action)
      return vim.startswith(action.title, title)
    end))
  end)
end

--- Carry out a `:` line of the chat, which is opened for its answer.
---@param line string what follows the colon
function M.line(line)
  client.execute("aish.chat.open", {}, function(err)
    if err then
      return client.tell(err.message)
    end
    client.execute("aish.chat.send", { prompt = ":" .. line })
  end)
end

--- Ask about a range by the server's own code action whose title begins so.
---@param title string
---@param command table
local function about(title, command)
  M.offered(title, command.line1, command.line2, function(action)
    if not action then
      return client.tell(("there is nothing here to %s"):format(title:lower()))
    end
    client.execute(action.command.command, action.command.arguments[1])
  end)
end

--- What the editor does itself.
---@type table<string, fun(command: table, rest: string)>
M.words = {
  ask = function(_, rest)
    if rest == "" then
      return require("aish.quick").ask()
    end
    client.execute("aish.ask", { prompt = rest })
  end,
  quick = function(command)
    require("aish.quick").ask(command.range > 0 and { command.line1, command.line2 } or nil)
  end,
  chat = function()
    client.execute("aish.chat.open")
  end,
  explain = function(command)
    about("Explain", command)
  end,
  fix = function(command)
    about("Fix", command)
  end,
  send = function()
    client.execute("aish.chat.send")
  end,
  stop = function()
    client.execute("aish.cancel")
  end,
  models = function()
    require("aish.keys").choose_model()
  end,
  sessions = function(_, rest)
    require("aish.keys").choose_session(rest ~= "" and rest or nil)
  end,
  restart = function()
    client.restart()
  end,
  steps = function()
    require("aish.steps").open()
  end,
}

--- Run what the user typed behind `:Aish`; nothing opens the chat.
---@param command table
function M.run(command)
  local word, rest = command.args:match("^(%S*)%s*(.*)$")
  if word == "" then
    return M.words.chat(command, "")
  end
  local own = M.words[word]
  if own then
    return own(command, rest)
  end
  if lines[word] then
    return M.line(vim.trim(("%s %s"):format(word, rest)))
  end
  client.tell(("%q is not a command; `:Aish ask` asks a question"):format(word))
end

--- Return what may follow: a word, and behind a command of the chat what that may be told.
---@param lead string
---@param line string
---@param position integer bytes of `line` before the cursor
---@return string[]
function M.complete(lead, line, position)
  local before = line:sub(1, position - #lead):match("Aish!?%s(.*)$") or ""
  local typed = vim.split(before, "%s+", { trimempty = true })
  local found = {} ---@type string[]
  if #typed == 0 then
    found = vim.list_extend(vim.tbl_keys(M.words), vim.tbl_keys(lines))
  elseif #typed == 1 and lines[typed[1]] then
    found = vim.list_slice(lines[typed[1]].verbs)
  end
  table.sort(found)
  return vim.tbl_filter(function(word)
    return vim.startswith(word, lead)
  end, vim.fn.uniq(found))
end

return M
