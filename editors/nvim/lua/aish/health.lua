--- `:checkhealth aish`

local M = {}

function M.check()
  local health = vim.health
  local client = require("aish.client")
  health.start("aish")
  if vim.fn.has("nvim-0.11") == 1 then
    health.ok("Neovim " .. tostring(vim.version()))
  else
    health.error("Neovim 0.11 or later is needed")
  end
  local command, problem = client.command()
  if not command then
    health.error(problem or "")
    return
  end
  local function run(word)
    local words = vim.list_extend(vim.list_slice(command), { word })
    return vim.system(words, { text = true, timeout = 20000 }):wait()
  end
  local shown = run("--version")
  if shown.code == 0 then
    health.ok(("%s: %s"):format(vim.fn.exepath(command[1]), vim.trim(shown.stdout)))
  else
    local advice = { "Run it in a terminal: it says why.", vim.trim(shown.stderr or "") }
    health.error(("%s does not start"):format(command[1]), advice)
  end
  local clients = vim.lsp.get_clients({ name = "aish" })
  if #clients == 0 then
    health.info("No server runs. Open a file, or type :Aish")
  end
  for _, one in ipairs(clients) do
    health.ok(("A server runs for %s"):format(one.root_dir or "no folder"))
    local status = client.statuses[one.id]
    if status then
      health.info(("Its model is %s"):format(status.model))
    end
  end
  local doctor = run("doctor")
  health.info(vim.trim(doctor.stdout or ""))
  health.info("What the server wrote: " .. vim.lsp.get_log_path())
end

return M
