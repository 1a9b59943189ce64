-- What `vim.lsp.enable("aish")` starts. `require("aish").setup{}` adds the user's options.
return require("aish.client").config()
