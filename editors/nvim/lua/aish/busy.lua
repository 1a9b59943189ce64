--- What the server does just now, shown below the last line of each chat.

local client = require("aish.client")

local M = {}

local signs = vim.api.nvim_create_namespace("aish.signs")

---@class aish.Work
---@field client integer the client whose server does it
---@field title string
---@field message string?

--- By progress token.
local work = {} ---@type table<string, aish.Work>

local FRAMES = { "⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏" }
local beat = 0
local ticking = assert(vim.uv.new_timer())

---@param buffer integer
function M.clear(buffer)
  vim.api.nvim_buf_clear_namespace(buffer, signs, 0, -1)
end

--- Show below a chat's last line what its server does.
---@param buffer integer
function M.sign(buffer)
  if not vim.api.nvim_buf_is_loaded(buffer) then
    return
  end
  M.clear(buffer)
  local lines = {}
  for _, one in pairs(work) do
    if vim.lsp.buf_is_attached(buffer, one.client) then
      local text = ("%s %s"):format(FRAMES[beat % #FRAMES + 1], one.title)
      if one.message and one.message ~= "" then
        text = ("%s (%s)"):format(text, one.message)
      end
      table.insert(lines, { { text, "AishBusy" } })
    end
  end
  if #lines > 0 then
    local last = vim.api.nvim_buf_line_count(buffer) - 1
    vim.api.nvim_buf_set_extmark(buffer, signs, last, 0, { virt_lines = lines })
  end
end

local function sign_all()
  beat = beat + 1
  for _, buffer in ipairs(require("aish.chat").buffers()) do
    M.sign(buffer)
  end
end

--- What has ended is there to be folded and run.
local function settle()
  for _, buffer in ipairs(require("aish.chat").buffers()) do
    require("aish.folds").fold(buffer)
  end
  require("aish.suggestions").refresh_all()
end

--- Take in what the server tells of its work.
---@param params lsp.ProgressParams
---@param client_id integer
function M.progress(params, client_id)
  local value, token = params.value, client_id .. " " .. tostring(params.token)
  if type(value) ~= "table" then
    return
  end
  if value.kind == "begin" then
    work[token] = { client = client_id, title = value.title, message = value.message }
    client.emit("AishBegin", { title = value.title })
  elseif value.kind == "report" and work[token] then
    work[token].message = value.message
  elseif value.kind == "end" and work[token] then
    work[token] = nil
    client.emit("AishEnd", {})
    settle()
  end
  if next(work) and not ticking:is_active() then
    ticking:start(100, 100, vim.schedule_wrap(sign_all))
  elseif not next(work) then
    ticking:stop()
  end
  sign_all()
end

client.on_stopped(function(client_id)
  for token, one in pairs(work) do
    if one.client == client_id then
      work[token] = nil
    end
  end
  if not next(work) then
    ticking:stop()
  end
  sign_all()
end)

return M
