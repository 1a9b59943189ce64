--- What the server asks about the code: the other language servers of a buffer answer it.

local M = {}

--- Items that an answer has at most.
local MOST = 500

--- Milliseconds that a language server may take to start, and to look at a file.
local START = 5000
local ANSWER = 8000

local SEVERITIES = { "error", "warning", "information", "hint" }

---@class aish.Found
---@field uri string
---@field line integer
---@field text string

--- Wait in a coroutine until `ready` returns something, or for `milliseconds`.
---@param milliseconds integer
---@param ready fun(): any
---@return any
local function wait(milliseconds, ready)
  local waiting = coroutine.running()
  local found = ready()
  local ends = vim.uv.now() + milliseconds
  while not found and vim.uv.now() < ends do
    vim.defer_fn(function()
      coroutine.resume(waiting)
    end, 50)
    coroutine.yield()
    found = ready()
  end
  return found
end

--- Return the buffer of a file; one that is not open is loaded beside, so that its servers see it.
---@param uri string
---@return integer
local function buffer_of(uri)
  local buffer = vim.uri_to_bufnr(uri)
  if not vim.api.nvim_buf_is_loaded(buffer) then
    -- No swap file, which could ask about one that is there.
    vim.bo[buffer].swapfile = false
    vim.fn.bufload(buffer)
    if vim.bo[buffer].filetype == "" then
      vim.bo[buffer].filetype = vim.filetype.match({ buf = buffer }) or ""
    end
  end
  return buffer
end

--- Return the servers, other than ours, that take a request, or all where none is named.
---@param method string?
---@param buffer integer?
---@return vim.lsp.Client[]
local function clients(method, buffer)
  local found = vim.lsp.get_clients({ bufnr = buffer, method = method })
  return vim.tbl_filter(function(client)
    return client.name ~= "aish" and client.initialized == true
  end, found)
end

--- Ask the servers; return the result of the first that has one, with its client, or nil.
---@param method string
---@param buffer integer?
---@param params fun(client: vim.lsp.Client): table
---@return any result
---@return vim.lsp.Client? client
local function ask(method, buffer, params)
  local asked = wait(buffer and START or 0, function()
    local found = clients(method, buffer)
    return #found > 0 and found
  end)
  for _, client in ipairs(asked or {}) do
    local result, is_done
    client:request(method, params(client), function(_, answer)
      result, is_done = answer, true
    end, buffer)
    wait(ANSWER, function()
      return is_done
    end)
    if result and result ~= vim.NIL and not vim.tbl_isempty(result) then
      return result, client
    end
  end
  return asked and {} or nil
end

---@param diagnostic vim.Diagnostic
---@return aish.Found
local function problem(diagnostic)
  local text = ("%s: %s"):format(SEVERITIES[diagnostic.severity], diagnostic.message)
  if diagnostic.source then
    text = ("%s (%s)"):format(text, diagnostic.source)
  end
  return { uri = vim.uri_from_bufnr(diagnostic.bufnr), line = diagnostic.lnum, text = text }
end

---@param uri string?
---@return aish.Found[]?
local function diagnostics(uri)
  local buffer = uri and buffer_of(uri)
  if buffer then
    local served = wait(START, function()
      return #clients(nil, buffer) > 0
    end)
    if not served and #vim.diagnostic.get(buffer) == 0 then
      return nil
    end
    -- A server says nothing of a file that is all right: some time has to do.
    wait(2000, function()
      return #vim.diagnostic.get(buffer) > 0
    end)
  end
  local found = vim.diagnostic.get(buffer)
  table.sort(found, function(one, other)
    return one.severity < other.severity
  end)
  -- What we ourselves show at suggestions is no problem of the code.
  found = vim.tbl_filter(function(diagnostic)
    return diagnostic.source ~= "aish"
  end, found)
  return vim.tbl_map(problem, found)
end

---@param symbol table of `textDocument/documentSymbol` or `workspace/symbol`
---@param uri string?
---@param within string
---@param found aish.Found[]
local function flatten(symbol, uri, within, found)
  local kind = (vim.lsp.protocol.SymbolKind[symbol.kind] or "symbol"):lower()
  local place = symbol.location or {}
  local range = symbol.selectionRange or place.range
  local name = within .. symbol.name
  if range then
    local text = ("%s %s"):format(kind, name)
    table.insert(found, { uri = place.uri or uri, line = range.start.line, text = text })
  end
  for _, child in ipairs(symbol.children or {}) do
    flatten(child, uri, name .. ".", found)
  end
end

---@param uri string?
---@param query string
---@return aish.Found[]?
local function symbols(uri, query)
  local buffer = uri and buffer_of(uri)
  local method = buffer and "textDocument/documentSymbol" or "workspace/symbol"
  local result = ask(method, buffer, function()
    return buffer and { textDocument = { uri = uri } } or { query = query }
  end)
  if not result then
    return nil
  end
  local found = {} ---@type aish.Found[]
  for _, symbol in ipairs(result) do
    flatten(symbol, uri, "", found)
  end
  return vim.tbl_filter(function(one)
    return one.text:lower():find(query:lower(), 1, true) ~= nil
  end, found)
end

---@param uri string
---@return string
local function line_at(uri, line)
  local buffer = buffer_of(uri)
  return vim.api.nvim_buf_get_lines(buffer, line, line + 1, false)[1] or ""
end

---@param uri string
---@param position lsp.Position
---@return aish.Found[]?
local function definition(uri, position)
  local buffer = buffer_of(uri)
  local ours = require("aish.client").get(buffer)
  local result = ask("textDocument/definition", buffer, function(client)
    -- Each server has units of its own.
    local from = ours and ours.offset_encoding or "utf-16"
    local text = line_at(uri, position.line)
    local byte = vim.str_byteindex(text, from, position.character, false)
    local character = vim.str_utfindex(text, client.offset_encoding, byte, false)
    return {
      textDocument = { uri = uri },
      position = { line = position.line, character = character },
    }
  end)
  if not result then
    return nil
  end
  local found = {} ---@type aish.Found[]
  for _, place in ipairs(vim.islist(result) and result or { result }) do
    local target = place.targetUri or place.uri
    local range = place.targetSelectionRange or place.range
    if target and range then
      local line = range.start.line
      table.insert(found, { uri = target, line = line, text = line_at(target, line) })
    end
  end
  return found
end

--- Answer `aish/lookup`. Called in a coroutine, which may wait.
---@param params table
---@return any
function M.answer(params)
  local function given(value)
    return value ~= vim.NIL and value or nil
  end
  local uri = given(params.uri)
  local found ---@type aish.Found[]?
  if params.what == "diagnostics" then
    found = diagnostics(uri)
  elseif params.what == "symbols" then
    found = symbols(uri, params.query or "")
  elseif params.what == "definition" and uri and given(params.position) then
    found = definition(uri, params.position)
  end
  if not found then
    return vim.NIL
  end
  return { items = vim.list_slice(found, 1, MOST) }
end

return M
