--- The language server: where it is found, how it is asked, and how it is started again.

local options = require("aish.options")

local M = {}

--- The oldest server that this plugin speaks to.
M.OLDEST = "0.1.0"

local NAME = "aish"

---@type table<integer, table> the last status of each client
M.statuses = {}

--- What listens to a progress token that we chose.
---@type table<string, fun(value: table)>
local listeners = {}

--- Buffers that a client served when it ended.
---@type table<integer, integer[]>
local served = {}
local crashes = {} ---@type number[] seconds
local leaving = false

--- The clients whose server was asked something: another one goes on with that conversation.
---@type table<integer, boolean>
local asked = {}

--- Tell the user something, in 60 cells or so: Neovim asks for Enter after what does not fit.
---@param message string
---@param level integer?
function M.tell(message, level)
  vim.notify("aish: " .. message, level or vim.log.levels.WARN)
end

---@param name string
---@param data any
function M.emit(name, data)
  vim.api.nvim_exec_autocmds("User", { pattern = name, data = data, modeline = false })
end

--- Return the command that starts the server; nil and what to do where there is none.
---@return string[]? command
---@return string? problem
function M.command()
  local cmd = options.current.cmd or { "aish-lsp" }
  if vim.fn.executable(cmd[1]) == 1 then
    return cmd
  end
  return nil, ("%s not found: `pipx install aish-lsp` (:help aish)"):format(cmd[1])
end

local function seconds()
  return vim.uv.hrtime() / 1e9
end

--- Drop what is known of a client that has ended.
---@param client_id integer
---@return integer[] buffers those that it served
---@return boolean had_asked whether its server was asked something
local function forget(client_id)
  local buffers, had_asked = served[client_id] or {}, asked[client_id] == true
  served[client_id], asked[client_id] = nil, nil
  return buffers, had_asked
end

--- Start a server in the place of one that has ended, and go on with its conversation.
---@param buffers integer[]
---@param had_asked boolean
---@param message string
---@param level integer?
local function start_again(buffers, had_asked, message, level)
  M.start(buffers, function(client, about)
    M.tell(message, level)
    local function mend()
      require("aish.chat").mend(client.id)
    end
    if had_asked then
      M.execute("aish.session.resume", { uri = M.uri(about) }, mend)
    else
      mend()
    end
  end)
end

---@param client_id integer
local function restart(client_id)
  local now = seconds()
  crashes = vim.tbl_filter(function(at)
    return now - at < 60
  end, crashes)
  table.insert(crashes, now)
  local most = options.current.restarts
  if #crashes > most then
    local message = ("the server ended %d times in a minute: see :checkhealth aish"):format(
      #crashes
    )
    M.tell(message, vim.log.levels.ERROR)
    return
  end
  local buffers, had_asked = forget(client_id)
  vim.defer_fn(function()
    if not leaving then
      start_again(buffers, had_asked, "the server ended and was started again")
    end
  end, 100 * 2 ^ (#crashes - 1))
end

local stopped = {} ---@type (fun(client_id: integer))[]

--- Have `callback` called whenever a server has ended.
---@param callback fun(client_id: integer)
function M.on_stopped(callback)
  table.insert(stopped, callback)
end

--- How the server that ended last has ended; Neovim is told that all is well.
local last_exit = { code = 0, signal = 0 }

---@param client_id integer
local function ended(_, _, client_id)
  local code, signal = last_exit.code, last_exit.signal
  vim.schedule(function()
    M.statuses[client_id] = nil
    for _, callback in ipairs(stopped) do
      callback(client_id)
    end
    M.emit("AishStopped", { code = code, signal = signal })
    if not leaving and (code ~= 0 or (signal ~= 0 and signal ~= 15)) then
      restart(client_id)
    else
      forget(client_id)
    end
  end)
end

--- Start the server's process. Neovim would answer its end with a message of several lines, which
--- asks for Enter; what there is to say is said by `restart`.
---@param dispatchers vim.lsp.rpc.Dispatchers
---@return vim.lsp.rpc.PublicClient
local function spawn(dispatchers)
  local command = M.command() or options.current.cmd or { "aish-lsp" }
  local on_exit = dispatchers.on_exit
  dispatchers.on_exit = function(code, signal)
    last_exit = { code = code, signal = signal }
    on_exit(0, 0)
  end
  return vim.lsp.rpc.start(command, dispatchers)
end

vim.api.nvim_create_autocmd("VimLeavePre", {
  callback = function()
    leaving = true
  end,
})

---@param client vim.lsp.Client
---@param result lsp.InitializeResult
local function initialized(client, result)
  local version = result.serverInfo and result.serverInfo.version or "0"
  if vim.version.lt(version, M.OLDEST) then
    M.tell(("aish-lsp %s is too old: `pipx upgrade aish-lsp`"):format(version))
  end
  M.emit("AishStarted", { id = client.id })
end

--- Handlers

local function applied(err, params, context)
  local answer = require("aish.chat").apply(params, context)
  if answer then
    return answer
  end
  return vim.lsp.handlers["workspace/applyEdit"](err, params, context)
end

local handlers = {
  ["workspace/applyEdit"] = applied,
  ["workspace/codeLens/refresh"] = function()
    require("aish.suggestions").refresh_all()
    return vim.NIL
  end,
  ["window/showMessageRequest"] = function(_, params)
    return require("aish.question").answer(params)
  end,
  ["aish/approve"] = function(_, params)
    return require("aish.question").approve(params)
  end,
  ["aish/terminal"] = function()
    return require("aish.terminal").answer()
  end,
  ["aish/lookup"] = function(_, params)
    return require("aish.lookup").answer(params)
  end,
  ["aish/save"] = function(_, params)
    return require("aish.buffers").save(params)
  end,
  ["aish/changed"] = function(_, params)
    require("aish.buffers").changed(params)
  end,
  ["window/showDocument"] = function(err, params, context)
    return require("aish.chat").show(params)
      or vim.lsp.handlers["window/showDocument"](err, params, context)
  end,
  ["$/progress"] = function(err, params, context)
    local listener = listeners[params.token]
    if listener then
      listener(params.value)
      return
    end
    require("aish.busy").progress(params, context.client_id)
    return vim.lsp.handlers["$/progress"](err, params, context)
  end,
  ["aish/status"] = function(_, params, context)
    M.statuses[context.client_id] = params
    M.emit("AishStatus", params)
    vim.cmd.redrawstatus({ bang = true })
  end,
}

--- Return the folder that is a buffer's workspace: its repository, the folder of a chat, else the
--- current one. Nil where that is the home folder or the top of all, which are no project.
---@param buffer integer
---@return string?
local function root(buffer)
  local file = M.uri(buffer) and vim.api.nvim_buf_get_name(buffer)
  local cwd = vim.fn.getcwd()
  local found = vim.fs.root(file or cwd, ".git")
    or (file and vim.fs.normalize(file):match("^(.+)/%.aish/[^/]*$"))
    or vim.fs.root(cwd, ".git")
  if found or cwd == vim.fs.dirname(cwd) or cwd == vim.uv.fs_realpath(vim.env.HOME or "") then
    return found
  end
  return cwd
end

--- Return the configuration of the server for `vim.lsp.config`.
---@return vim.lsp.Config
function M.config()
  return {
    cmd = spawn,
    root_dir = function(buffer, on_dir)
      on_dir(root(buffer))
    end,
    -- A reply is written where you may be typing: let the server know each change at once.
    flags = { debounce_text_changes = 0 },
    init_options = {
      aish = vim.tbl_extend("force", options.current.settings, {
        status = true,
        approve = true,
        files = true,
        lookup = true,
        terminal = true,
        -- What a new chat says first.
        keys = options.current.keys or nil,
      }),
    },
    capabilities = {
      workspace = {
        codeLens = { refreshSupport = true },
        workspaceEdit = { documentChanges = true },
      },
    },
    handlers = handlers,
    on_init = initialized,
    on_exit = ended,
    on_attach = function(client, buffer)
      local buffers = served[client.id] or {}
      served[client.id] = buffers
      table.insert(buffers, buffer)
    end,
  }
end

--- Return the client that serves a buffer, or the only one there is.
---@param buffer integer?
---@return vim.lsp.Client?
function M.get(buffer)
  local found = vim.lsp.get_clients({ name = NAME, bufnr = buffer or 0 })[1]
  if found then
    return found
  end
  local all = vim.lsp.get_clients({ name = NAME })
  return #all == 1 and all[1] or nil
end

---@param client vim.lsp.Client
---@param callback fun(client: vim.lsp.Client)
local function when_ready(client, callback)
  if client.initialized then
    return callback(client)
  end
  local left = 300
  local function look()
    left = left - 1
    if client.initialized then
      callback(client)
    elseif left > 0 and not client:is_stopped() then
      vim.defer_fn(look, 50)
    elseif left == 0 then
      M.tell("the server does not answer: see :checkhealth aish")
    end
  end
  look()
end

--- Start the server for these buffers, or for the working folder where there are none.
---@param buffers integer[]
---@param callback fun(client: vim.lsp.Client, buffer: integer) called with the first of them
function M.start(buffers, callback)
  local command, problem = M.command()
  if not command then
    return M.tell(problem or "", vim.log.levels.ERROR)
  end
  local config = vim.tbl_extend("force", vim.lsp.config[NAME], { name = NAME })
  local first ---@type integer?
  local wanted = vim.tbl_filter(vim.api.nvim_buf_is_loaded, buffers)
  local files = vim.tbl_filter(M.uri, wanted)
  wanted = #files > 0 and files or { vim.api.nvim_get_current_buf() }
  for _, buffer in ipairs(wanted) do
    -- A terminal and the like is no document: its text is nobody's business.
    local is_file = M.uri(buffer) ~= nil
    -- Not by `extend`, which would keep the function where there is none.
    local own = vim.tbl_extend("force", config, {})
    own.root_dir = root(buffer)
    local id = vim.lsp.start(own, { bufnr = buffer, attach = is_file })
    first = first or id
  end
  local client = first and vim.lsp.get_client_by_id(first)
  if client then
    when_ready(client, function()
      callback(client, wanted[1])
    end)
  end
end

--- Call back with a client; it is started where none is there.
---@param buffer integer 0 for the current one
---@param callback fun(client: vim.lsp.Client)
function M.with(buffer, callback)
  local client = M.get(buffer)
  if client then
    return when_ready(client, callback)
  end
  M.start({ buffer == 0 and vim.api.nvim_get_current_buf() or buffer }, callback)
end

--- Run a command of the server: of the one that serves `argument.uri`, the current buffer's by
--- default. Errors are told, unless `on_result` takes them.
---@param command string
---@param argument table?
---@param on_result fun(err: table?, result: any)?
function M.execute(command, argument, on_result)
  argument = vim.tbl_extend("keep", argument or {}, { uri = M.uri() })
  if next(argument) == nil then
    -- As JSON an empty table would be a list.
    argument = vim.empty_dict()
  end
  M.with(argument.uri and vim.uri_to_bufnr(argument.uri) or 0, function(client)
    if
      vim.startswith(command, "aish.ask")
      or command == "aish.chat.send"
      or command == "aish.session.resume"
    then
      asked[client.id] = true
    end
    local params = { command = command, arguments = { argument } }
    client:request("workspace/executeCommand", params, function(err, result)
      if on_result then
        on_result(err, result)
      elseif err then
        M.tell(err.message)
      end
    end)
  end)
end

--- Return the URI of a buffer, the current one by default; nil where it is no file.
---@param buffer integer?
---@return string?
function M.uri(buffer)
  buffer = buffer or 0
  if vim.bo[buffer].buftype ~= "" or vim.api.nvim_buf_get_name(buffer) == "" then
    return nil
  end
  return vim.uri_from_bufnr(buffer)
end

--- Run a command that streams: `on_event` gets each event, `on_result` its end.
---@param command string
---@param argument table
---@param on_event fun(event: table)
---@param on_result fun(err: table?, result: any)
function M.stream(command, argument, on_event, on_result)
  local token = ("aish %d"):format(vim.uv.hrtime())
  listeners[token] = on_event
  argument = vim.tbl_extend("force", argument, { partialResultToken = token })
  M.execute(command, argument, function(err, result)
    listeners[token] = nil
    on_result(err, result)
  end)
end

--- Stop each server and start it again, with a clean count of its crashes.
function M.restart()
  crashes = {}
  local clients = vim.lsp.get_clients({ name = NAME })
  local before = {} ---@type [integer[], boolean][]
  for _, client in ipairs(clients) do
    local buffers, had_asked = vim.tbl_keys(client.attached_buffers), asked[client.id] == true
    table.insert(before, { buffers, had_asked })
    client:stop(true)
  end
  vim.defer_fn(function()
    for _, one in ipairs(#before > 0 and before or { { {}, false } }) do
      start_again(one[1], one[2], "the server was started again", vim.log.levels.INFO)
    end
  end, 500)
end

return M
