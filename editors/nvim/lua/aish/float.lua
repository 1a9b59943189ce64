--- Small windows above the others.

local M = {}

--- Return the cells that the longest of these lines takes.
---@param lines string[]
---@return integer
local function widest(lines)
  local width = 1
  for _, line in ipairs(lines) do
    width = math.max(width, vim.fn.strdisplaywidth(line))
  end
  return width
end

---@class aish.Float
---@field title string?
---@field footer string?
---@field width integer?
---@field height integer?
---@field filetype string?

--- Return how many screen lines these take, wrapped at a width.
---@param lines string[]
---@param width integer
---@return integer
local function wrapped(lines, width)
  local rows = 0
  for _, line in ipairs(lines) do
    rows = rows + math.max(1, math.ceil(vim.fn.strdisplaywidth(line) / width))
  end
  return rows
end

--- Return how many columns and rows a window may have.
---@return integer columns
---@return integer rows
local function room()
  return vim.o.columns - 4, vim.o.lines - vim.o.cmdheight - 4
end

--- Return prose as lines that break between words; those after the first are indented.
---
--- A command or a diff is not for this: its lines are shown as they are.
---@param text string
---@param indent string
---@return string[]
function M.prose(text, indent)
  local columns = room()
  local lines = {} ---@type string[]
  for _, whole in ipairs(vim.split(text, "\n", { plain = true })) do
    local line = #lines > 0 and indent or ""
    for word in whole:gmatch("%s*%S+") do
      if vim.trim(line) ~= "" and vim.fn.strdisplaywidth(line .. word) > columns then
        table.insert(lines, line)
        line, word = indent, vim.trim(word)
      end
      line = line .. word
    end
    table.insert(lines, line)
  end
  return lines
end

--- Return whether all of these lines are seen at once.
---@param lines string[]
---@return boolean
function M.fits(lines)
  local columns, rows = room()
  return wrapped(lines, columns) <= rows
end

--- Open a window in the middle with these lines; `q` and `<Esc>` close it.
---@param lines string[]
---@param how aish.Float?
---@return integer buffer
---@return integer window
function M.show(lines, how)
  how = how or {}
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].bufhidden = "wipe"
  if how.filetype then
    if not pcall(vim.treesitter.start, buffer, how.filetype) then
      vim.bo[buffer].syntax = how.filetype
    end
  end
  local title = vim.fn.strdisplaywidth(how.title or "")
  local footer = vim.fn.strdisplaywidth(how.footer or "")
  local columns, rows = room()
  local width = math.min(how.width or math.max(widest(lines), title, footer), columns)
  local height = math.max(1, math.min(how.height or wrapped(lines, width), rows))
  local window = vim.api.nvim_open_win(buffer, true, {
    relative = "editor",
    row = math.max(0, math.floor((vim.o.lines - height) / 2) - 1),
    col = math.max(0, math.floor((vim.o.columns - width) / 2) - 1),
    width = width,
    height = height,
    style = "minimal",
    border = "rounded",
    title = how.title,
    footer = how.footer,
  })
  vim.wo[window].wrap = true
  vim.wo[window].linebreak = false
  for _, keys in ipairs({ "q", "<Esc>" }) do
    vim.keymap.set("n", keys, "<Cmd>close<CR>", { buffer = buffer, nowait = true })
  end
  return buffer, window
end

return M
