--- The chat: `.aish/chat.md` of the workspace, or `chat-2.md` beside another editor's, as a buffer with keys of its own.
---
--- The server writes into it by edits and reads what is under the last `## You`; all that is
--- done here is to show it well: it follows the reply, saves itself, and says what goes on.

local client = require("aish.client")
local options = require("aish.options")

local M = {}

--- Milliseconds after the last edit before the chat is saved.
local PAUSE = 200

---@class aish.Chat
---@field tick integer the buffer's changedtick after our last edit
---@field stamp string what the file was when it was read or written last
---@field saving uv.uv_timer_t
---@field is_told boolean whether the user knows that the file is another by now
---@field is_mending boolean whether it is opened for the server alone, and not to be looked at
local chats = {} ---@type table<integer, aish.Chat>

---@param path string
local function stamp_of(path)
  local found = vim.uv.fs_stat(path)
  return found and ("%d.%d %d"):format(found.mtime.sec, found.mtime.nsec, found.size) or ""
end

---@param name string
---@return boolean
local function is_chat_name(name)
  name = vim.fs.normalize(name)
  return vim.endswith(name, "/.aish/chat.md") or name:find("/%.aish/chat%-%d%d?%.md$") ~= nil
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

--- Return whether a buffer begins with all that a file holds, but for blank lines at its end.
---
--- The server may write into a chat that Neovim is just loading, and then make the same edits here.
---@param path string
---@param buffer integer
---@return boolean
local function holds(path, buffer)
  local read, lines = pcall(vim.fn.readfile, path)
  if not read then
    return false
  end
  while #lines > 0 and lines[#lines] == "" do
    table.remove(lines)
  end
  return vim.deep_equal(lines, vim.api.nvim_buf_get_lines(buffer, 0, #lines, false))
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
  if now ~= "" and now ~= chat.stamp and not holds(path, buffer) then
    if not chat.is_told then
      chat.is_told = true
      client.tell("the chat's file has changed: :e! loads it, :w! keeps yours")
    end
    return
  end
  local is_ours = chat.tick == vim.api.nvim_buf_get_changedtick(buffer)
  vim.api.nvim_buf_call(buffer, function()
    -- No formatter of the user's should have a hand in it, and nobody should wait for the disk: what
    -- was said is in the session's log.
    local fsync = vim.go.fsync
    vim.cmd("noautocmd set nofsync")
    -- With "!": Neovim would ask whether a file that is newer is to be overwritten.
    vim.cmd("silent! noautocmd lockmarks write!")
    if fsync then
      vim.cmd("noautocmd set fsync")
    end
  end)
  chat.stamp = stamp_of(path)
  if is_ours then
    -- To write counts as a change; the rest of a reply still belongs to the same step of undo.
    chat.tick = vim.api.nvim_buf_get_changedtick(buffer)
  end
end

---@param buffer integer
local function save_soon(buffer)
  local chat = chats[buffer]
  if chat then
    chat.saving:stop()
    chat.saving:start(
      PAUSE,
      0,
      vim.schedule_wrap(function()
        M.save(buffer)
      end)
    )
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
--- late, and make it all the same in a buffer that was just reloaded.
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
  require("aish.busy").sign(buffer)
  save_soon(buffer)
  for _, edit in ipairs(changes[1].edits) do
    if edit.newText:find("> Step ", 1, true) then
      require("aish.steps").refresh()
    end
  end
  return { applied = true }
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
    is_mending = false,
  }
  vim.bo[buffer].swapfile = false
  -- What a reply says about `vim: set nomodifiable:` is no setting of the chat's.
  vim.bo[buffer].modeline = false
  require("aish.keys").map(buffer)
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
  local function served()
    for _, found in ipairs(vim.lsp.get_clients({ name = "aish", bufnr = buffer })) do
      -- What the hints say is shown beside the suggestions.
      local hints = vim.lsp.diagnostic.get_namespace(found.id)
      vim.diagnostic.enable(false, { bufnr = buffer, ns_id = hints })
    end
    require("aish.suggestions").refresh_soon(buffer)
  end
  on("LspAttach", served)
  -- It may be so already, for the file type that Neovim has found.
  served()
  on("BufWinEnter", function()
    require("aish.folds").prepare()
    vim.wo[0][0].wrap = true
    vim.wo[0][0].linebreak = true
  end)
  local function detach()
    local chat = chats[buffer]
    chats[buffer] = nil
    if chat then
      chat.saving:close()
    end
    require("aish.suggestions").forget(buffer)
    vim.api.nvim_clear_autocmds({ group = group })
  end
  on({ "BufUnload", "BufDelete" }, detach)
  -- Under another name it is a text like any other.
  on("BufFilePost", function()
    if not is_chat_name(vim.api.nvim_buf_get_name(buffer)) then
      require("aish.busy").clear(buffer)
      require("aish.keys").unmap(buffer)
      detach()
    end
  end)
  -- Last: the server is started for a buffer with a file type.
  vim.bo[buffer].filetype = "aish"
  -- Not tree-sitter: it would parse all that was said once more when a long reply has ended.
  vim.bo[buffer].syntax = "markdown"
end

-- `:qa` must not stumble over what we have not written yet.
vim.api.nvim_create_autocmd({ "QuitPre", "VimLeavePre" }, {
  callback = function()
    for buffer in pairs(chats) do
      M.save(buffer)
    end
  end,
})

--- Have a new server end what the one before has begun to write in its chats.
---@param client_id integer
function M.mend(client_id)
  for buffer, chat in pairs(chats) do
    if vim.lsp.buf_is_attached(buffer, client_id) then
      chat.is_mending = true
      client.execute("aish.chat.open", { uri = vim.uri_from_bufnr(buffer) }, function(err)
        chat.is_mending = chat.is_mending and not err
      end)
    end
  end
end

--- Windows

--- Show a document as the server asks. Return its answer; nil where it is not a chat.
---@param params lsp.ShowDocumentParams
---@return lsp.ShowDocumentResult?
function M.show(params)
  local path = vim.uri_to_fname(params.uri)
  if not is_chat_name(path) then
    return nil
  end
  -- By its name from here, as a status line shows it.
  local buffer = vim.fn.bufadd(vim.fn.fnamemodify(path, ":."))
  local chat = chats[buffer]
  if chat and chat.is_mending then
    chat.is_mending = false
    return { success = true }
  end
  local window = vim.fn.win_findbuf(buffer)[1]
  if not window then
    local how = options.current.window
    local is_free = vim.api.nvim_buf_get_name(0) == ""
      and vim.bo.buftype == ""
      and not vim.bo.modified
    if how ~= "current" and not is_free then
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
