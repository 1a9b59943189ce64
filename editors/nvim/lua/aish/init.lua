--- aish in Neovim: a chat, suggestions that run where they stand, questions about a selection.
---
--- >lua
---   require("aish").setup{}
--- <
--- `:help aish` has all of it.

local M = {}

--- Start aish for every file, with these options (`:help aish-options`).
---@param given aish.Options?
function M.setup(given)
  local options = require("aish.options")
  local client = require("aish.client")
  for _, problem in ipairs(options.set(given)) do
    client.tell("in setup(): " .. problem)
  end
  vim.lsp.config("aish", client.config())
  local command, problem = client.command()
  if command then
    vim.lsp.enable("aish")
  else
    client.tell(problem or "", vim.log.levels.ERROR)
  end
end

--- Return the model, how full the context is and the cost, for a status line; empty where unknown.
---@return string
function M.statusline()
  local client = require("aish.client")
  local served = client.get()
  local status = served and client.statuses[served.id]
  if not status then
    return ""
  end
  -- A model's name comes from outside: nothing in it is to be evaluated.
  local parts = { (tostring(status.model):gsub("%%", "%%%%")) }
  local context = status.context
  -- Neovim 0.12 has `vim.NIL` where 0.11 leaves out.
  if type(context) == "table" and context.budget > 0 then
    table.insert(parts, ("%d%%%%"):format(math.floor(100 * context.total / context.budget + 0.5)))
  end
  if type(status.cost) == "number" then
    table.insert(parts, ("$%.2f"):format(status.cost))
  end
  if status.busy == true then
    table.insert(parts, "…")
  end
  return table.concat(parts, " ")
end

return M
