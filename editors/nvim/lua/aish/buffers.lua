--- The buffers and their files: saving what the server asks for, and reading changed files again.

local M = {}

--- Return the loaded buffer of a URI.
---@param uri string
---@return integer?
local function loaded(uri)
  local buffer = vim.uri_to_bufnr(uri)
  return vim.api.nvim_buf_is_loaded(buffer) and buffer or nil
end

--- Answer `aish/save`: write these buffers if they have changes.
---@param params aish.SaveRequest
---@return aish.SavedFiles
function M.save(params)
  local saved = {}
  for _, uri in ipairs(params.uris) do
    local buffer = loaded(uri)
    if buffer then
      -- As the user does it: what their autocommands do on writing is done.
      local ok = not vim.bo[buffer].modified
        or pcall(vim.api.nvim_buf_call, buffer, function()
          vim.cmd("silent write")
        end)
      if ok and not vim.bo[buffer].modified then
        table.insert(saved, uri)
      end
    end
  end
  return { saved = saved }
end

--- Read changed files again, except those with changes of the user's.
---@param params aish.ChangedFiles
function M.changed(params)
  for _, uri in ipairs(params.uris) do
    local buffer = loaded(uri)
    if buffer and not vim.bo[buffer].modified then
      local before = vim.bo[buffer].autoread
      vim.bo[buffer].autoread = true
      pcall(vim.cmd, ("silent! checktime %d"):format(buffer))
      vim.bo[buffer].autoread = before
    end
  end
end

return M
