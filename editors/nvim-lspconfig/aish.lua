---@brief
---
--- `aish-lsp`, an AI shell assistant: ask how something is done, run the command that it suggests by a code action, and
--- the next question knows what it printed. It can be installed with `pipx install aish-lsp`.
---
--- It serves files of every type, so there are no `filetypes`. The chat is a file of the workspace, `.aish/chat.md`;
--- this opens it:
---
--- ```lua
--- vim.keymap.set('n', '<leader>ao', function()
---   local client = assert(vim.lsp.get_clients({ name = 'aish', bufnr = 0 })[1], 'no aish-lsp here')
---   client:exec_cmd({
---     title = 'Open the chat',
---     command = 'aish.chat.open',
---     arguments = { { uri = vim.uri_from_bufnr(0) } },
---   })
--- end)
--- ```
---
--- Write below the last `## You`; `vim.lsp.buf.code_action()` there offers to send it, and on a `CMD: ` line to run it.

---@type vim.lsp.Config
return {
  cmd = { 'aish-lsp' },
  root_markers = { '.git' },
}
