-- Declares, and loads nothing: the modules are read at the first use.
if vim.g.loaded_aish then
  return
end
vim.g.loaded_aish = true

if vim.fn.has("nvim-0.11") == 0 then
  vim.notify("aish needs Neovim 0.11 or later", vim.log.levels.ERROR)
  return
end

vim.api.nvim_create_user_command("Aish", function(command)
  require("aish.command").run(command)
end, {
  nargs = "*",
  range = true,
  desc = "Ask aish, or run one of its commands",
  complete = function(lead, line, position)
    return require("aish.command").complete(lead, line, position)
  end,
})

local group = vim.api.nvim_create_augroup("aish", {})

-- The chat is a file of the workspace: whoever opens it gets its keys.
vim.api.nvim_create_autocmd({ "BufReadPost", "BufNewFile" }, {
  group = group,
  pattern = { "*/.aish/chat.md", "*/.aish/chat-*.md" },
  callback = function(event)
    require("aish.chat").attach(event.buf)
  end,
})

local function highlight()
  for name, link in pairs({
    AishSafe = "DiagnosticOk",
    AishCaution = "DiagnosticWarn",
    AishDestructive = "DiagnosticError",
    AishHint = "Comment",
    AishBusy = "DiagnosticInfo",
  }) do
    vim.api.nvim_set_hl(0, name, { link = link, default = true })
  end
end

highlight()
-- A color scheme clears what it does not know.
vim.api.nvim_create_autocmd("ColorScheme", { group = group, callback = highlight })
