--- The chat: `.aish/chat.md` of the workspace as a buffer with keys of its own.
---
--- The server writes into it by edits and reads what stands under the last `## You`; all that is
--- done here is to show it well: it follows the reply, saves itself, and says what goes on.

local client = require("aish.client")
local options = require("aish.options")

local M = {}

local signs = vim.api.nvim_create_namespace("aish.signs")

--- Milliseconds after the last edit before the chat is saved, and before its outputs are folded.
local PAUSE = 200

--- Lines of an output above which it is folded once the reply has ended.
local FOLDED = 20

---@class aish.Chat
---@field tick integer the buffer's changedtick after our last edit
---@field stamp string what the file was when it was read or written last
---@field saving uv.uv_timer_t
---@field is_told boolean whether the user knows that the file is another by now
local chats = {} ---@type table<integer, aish.Chat>

--- Work that the server says it does in a chat, by its progress token.
local work = {} ---@type table<string, { title: string, message: string? }>

---@param path string
local function stamp_of(path)
  local found = vim.uv.fs_stat(path)
  return found and ("%d.%d %d"):format(found.mtime.sec, found.mtime.nsec, found.size) or ""
end

---@param name string
---@return boolean
local function is_chat_name(name)
  return vim.endswith(vim.fs.normalize(name), "/.aish/chat.md")
end

---@param buffer integer
---@return boolean
function M.is_chat(buffer)
  return chats[buffer] ~= nil
end

--- Return the loaded chat buffers.
---@return integer[]
function M.buffers()
  return vim.tbl_keys(chats)
end

--- Save the chat, unless somebody else has written its file meanwhile.
---@param buffer integer
function M.save(buffer)
  local chat = chats[buffer]
  if not chat or not vim.api.nvim_buf_is_loaded(buffer) or not vim.bo[buffer].modified then
    return
  end
  local path = vim.api.nvim_buf_get_name(buffer)
  local now = stamp_of(path)
  if now ~= "" and now ~= chat.stamp then
    if not chat.is_told then
      chat.is_told = true
      client.tell("the chat's file was changed by something else: :e! loads it, :w! keeps yours.")
    end
    return
  end
  vim.api.nvim_buf_call(buffer, function()
    -- No formatter of the user's should have a hand in it.
    vim.cmd("silent! noautocmd lockmarks write")
  end)
  chat.stamp = stamp_of(path)
end

---@param buffer integer
local function save_soon(buffer)
  local chat = chats[buffer]
  if chat then
    chat.saving:stop()
    chat.saving:start(PAUSE, 0, vim.schedule_wrap(function()
      M.save(buffer)
    end))
  end
end

--- Edits

--- Return the windows that show the end of a buffer and are to go on showing it.
---@param buffer integer
---@return integer[]
local function following(buffer)
  if vim.api.nvim_get_current_buf() == buffer and vim.startswith(vim.fn.mode(), "i") then
    return {}
  end
  local last = vim.api.nvim_buf_line_count(buffer)
  return vim.tbl_filter(function(window)
    return vim.api.nvim_win_get_cursor(window)[1] == last
  end, vim.fn.win_findbuf(buffer))
end

---@param change lsp.TextDocumentEdit
---@return integer buffer
local function buffer_of(change)
  return vim.uri_to_bufnr(change.textDocument.uri)
end

--- Make an edit of the server's in a chat. Return what it is answered; nil where it is not for one.
---
--- One that is for another version of the text is refused: Neovim would print that it came too
--- late, and make it all the same in a buffer that was just loaded anew.
---@param params lsp.ApplyWorkspaceEditParams
---@param context lsp.HandlerContext
---@return lsp.ApplyWorkspaceEditResult?
function M.apply(params, context)
  local changes = params.edit.documentChanges or {}
  for _, change in ipairs(changes) do
    local document = change.textDocument
    if document and document.version and document.version ~= vim.NIL then
      if document.version ~= vim.lsp.util.buf_versions[buffer_of(change)] then
        return { applied = false, failureReason = "the text has changed" }
      end
    end
  end
  if #changes ~= 1 or not changes[1].textDocument or not chats[buffer_of(changes[1])] then
    return nil
  end
  local buffer = buffer_of(changes[1])
  local chat = chats[buffer]
  local windows = following(buffer)
  local encoding = vim.lsp.get_client_by_id(context.client_id).offset_encoding
  if chat.tick == vim.api.nvim_buf_get_changedtick(buffer) then
    -- A reply is one step of undo, not one for each piece.
    vim.api.nvim_buf_call(buffer, function()
      pcall(vim.cmd.undojoin)
    end)
  end
  local done, problem = pcall(vim.lsp.util.apply_text_edits, changes[1].edits, buffer, encoding)
  if not done then
    return { applied = false, failureReason = tostring(problem) }
  end
  chat.tick = vim.api.nvim_buf_get_changedtick(buffer)
  local last = vim.api.nvim_buf_line_count(buffer)
  for _, window in ipairs(windows) do
    vim.api.nvim_win_set_cursor(window, { last, 0 })
  end
  M.sign(buffer)
  save_soon(buffer)
  return { applied = true }
end

--- What goes on

local FRAMES = { "⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏" }
local beat = 0
local ticking = assert(vim.uv.new_timer())

--- Show below a chat's last line what the server does.
---@param buffer integer
function M.sign(buffer)
  if not vim.api.nvim_buf_is_loaded(buffer) then
    return
  end
  vim.api.nvim_buf_clear_namespace(buffer, signs, 0, -1)
  local lines = {}
  for _, one in pairs(work) do
    local text = ("%s %s"):format(FRAMES[beat % #FRAMES + 1], one.title)
    if one.message and one.message ~= "" then
      text = ("%s (%s)"):format(text, one.message)
    end
    table.insert(lines, { { text, "AishBusy" } })
  end
  if #lines > 0 then
    local last = vim.api.nvim_buf_line_count(buffer) - 1
    vim.api.nvim_buf_set_extmark(buffer, signs, last, 0, { virt_lines = lines })
  end
end

local function sign_all()
  beat = beat + 1
  for buffer in pairs(chats) do
    M.sign(buffer)
  end
end

--- Take in what the server tells of its work.
---@param params lsp.ProgressParams
function M.progress(params)
  local value, token = params.value, tostring(params.token)
  if type(value) ~= "table" then
    return
  end
  if value.kind == "begin" then
    work[token] = { title = value.title, message = value.message }
    client.emit("AishBegin", { title = value.title })
  elseif value.kind == "report" and work[token] then
    work[token].message = value.message
  elseif value.kind == "end" and work[token] then
    work[token] = nil
    client.emit("AishEnd", {})
    for buffer in pairs(chats) do
      M.fold(buffer)
    end
    require("aish.suggestions").refresh_all()
  end
  if next(work) and not ticking:is_active() then
    ticking:start(100, 100, vim.schedule_wrap(sign_all))
  elseif not next(work) then
    ticking:stop()
  end
  sign_all()
end

client.on_stopped(function()
  work = {}
  ticking:stop()
  sign_all()
end)

--- Fold the outputs that are long. Folds are made once, at the end, and not at each piece.
---@param buffer integer
function M.fold(buffer)
  local first ---@type integer?
  local fence ---@type string?
  local long = {} ---@type { [1]: integer, [2]: integer }[]
  for number, line in ipairs(vim.api.nvim_buf_get_lines(buffer, 0, -1, false)) do
    if first then
      if line == fence then
        if number - first > FOLDED then
          table.insert(long, { first, number })
        end
        first = nil
      end
    else
      fence = line:match("^(`+)console$")
      first = fence and number or nil
    end
  end
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    vim.api.nvim_win_call(window, function()
      for _, range in ipairs(long) do
        if vim.fn.foldlevel(range[1] + 1) == 0 then
          vim.cmd(("silent! %d,%dfold"):format(range[1] + 1, range[2]))
        end
      end
    end)
  end
end

--- Keys

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
  local lines = vim.api.nvim_buf_get_lines(0, 0, -1, false)
  local here = vim.fn.line(".")
  local open, fence, found
  for number, line in ipairs(lines) do
    local mark = line:match("^(```+)") or line:match("^(~~~+)")
    if fence then
      if line == fence then
        if open < here then
          found = vim.list_slice(lines, open + 1, number - 1)
        end
        fence = nil
      end
    elseif mark then
      open, fence = number, mark
    end
  end
  if not found then
    return client.tell("there is no block above the cursor", vim.log.levels.INFO)
  end
  vim.fn.setreg(vim.v.register, found, "l")
  client.tell(("%d lines yanked"):format(#found), vim.log.levels.INFO)
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
  run = {
    function()
      if not require("aish.suggestions").run() then
        client.tell("no suggestion stands here", vim.log.levels.INFO)
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
}

--- Show the keys.
local function help()
  local order = { "send", "stop", "run", "edit", "dismiss", "terminal" }
  vim.list_extend(order, { "next", "previous", "model", "again", "yank" })
  local lines = {}
  for _, name in ipairs(order) do
    local keys = options.current.keys[name]
    if keys and keys ~= "" then
      table.insert(lines, ("%-6s %s"):format(keys, ACTIONS[name][2]))
    end
  end
  vim.list_extend(lines, { "", "A line that begins with : is a command; :help lists them." })
  local buffer = require("aish.float").show(lines, { title = " aish " })
  vim.bo[buffer].modifiable = false
end
ACTIONS.help = { help, "Show the keys" }

---@param buffer integer
local function map(buffer)
  if not options.current.keys then
    return
  end
  for name, keys in pairs(options.current.keys) do
    if keys ~= "" then
      local action = ACTIONS[name]
      local settings = { buffer = buffer, nowait = true, desc = "aish: " .. action[2] }
      vim.keymap.set("n", keys, action[1], settings)
    end
  end
end

--- Give a chat its keys and its manners. A second time does nothing.
---@param buffer integer
function M.attach(buffer)
  if chats[buffer] or not is_chat_name(vim.api.nvim_buf_get_name(buffer)) then
    return
  end
  chats[buffer] = {
    tick = -1,
    stamp = stamp_of(vim.api.nvim_buf_get_name(buffer)),
    saving = assert(vim.uv.new_timer()),
    is_told = false,
  }
  vim.bo[buffer].swapfile = false
  map(buffer)
  local group = vim.api.nvim_create_augroup("aish.chat." .. buffer, {})
  local on = function(events, callback)
    local settings = { group = group, buffer = buffer, callback = callback }
    vim.api.nvim_create_autocmd(events, settings)
  end
  on({ "InsertLeave", "TextChanged", "BufLeave" }, function()
    save_soon(buffer)
    require("aish.suggestions").refresh_soon(buffer)
  end)
  on({ "BufReadPost", "BufWritePost", "FileChangedShellPost" }, function()
    chats[buffer].stamp = stamp_of(vim.api.nvim_buf_get_name(buffer))
    chats[buffer].is_told = false
  end)
  on("LspAttach", function(event)
    local found = vim.lsp.get_client_by_id(event.data.client_id)
    if found and found.name == "aish" then
      -- What the hints say is shown beside the suggestions.
      local hints = vim.lsp.diagnostic.get_namespace(found.id)
      vim.diagnostic.enable(false, { bufnr = buffer, ns_id = hints })
      require("aish.suggestions").refresh_soon(buffer)
    end
  end)
  on("BufWinEnter", function()
    vim.wo[0][0].foldmethod = "manual"
    vim.wo[0][0].wrap = true
    vim.wo[0][0].linebreak = true
  end)
  on({ "BufUnload", "BufDelete" }, function()
    local chat = chats[buffer]
    chats[buffer] = nil
    if chat then
      chat.saving:close()
    end
    vim.api.nvim_clear_autocmds({ group = group })
  end)
  -- Last: the server is started for a buffer with a file type.
  vim.bo[buffer].filetype = "aish"
  pcall(vim.treesitter.start, buffer, "markdown")
end

-- `:qa` must not stumble over what we have not written yet.
vim.api.nvim_create_autocmd({ "QuitPre", "VimLeavePre" }, {
  callback = function()
    for buffer in pairs(chats) do
      M.save(buffer)
    end
  end,
})

--- Windows

--- Show a document as the server asks. Return its answer; nil where it is not a chat.
---@param params lsp.ShowDocumentParams
---@return lsp.ShowDocumentResult?
function M.show(params)
  local path = vim.uri_to_fname(params.uri)
  if not is_chat_name(path) then
    return nil
  end
  local buffer = vim.fn.bufadd(path)
  local window = vim.fn.win_findbuf(buffer)[1]
  if not window then
    local how = options.current.window
    if how ~= "current" and vim.api.nvim_buf_get_name(0) ~= "" then
      vim.cmd(({ vsplit = "botright vsplit", split = "botright split", tab = "tab split" })[how])
    end
    window = vim.api.nvim_get_current_win()
    vim.bo[buffer].buflisted = true
    vim.api.nvim_win_set_buf(window, buffer)
  end
  M.attach(buffer)
  if params.takeFocus ~= false then
    vim.api.nvim_set_current_win(window)
  end
  if params.selection then
    local line = math.min(params.selection.start.line + 1, vim.api.nvim_buf_line_count(buffer))
    vim.api.nvim_win_set_cursor(window, { line, 0 })
  end
  return { success = true }
end

return M
