--- Puts a code block of a reply into the file that it belongs to, once its diff was agreed to.

local client = require("aish.client")

local M = {}

---@class aish.Block
---@field first integer the line of its fence, from 1
---@field info string what the fence says behind its backticks
---@field lines string[]

--- Return the fenced block under the cursor, or the last one above it.
---@return aish.Block?
function M.block()
  local lines = vim.api.nvim_buf_get_lines(0, 0, -1, false)
  local here = vim.fn.line(".")
  local open, fence, info, found
  for number, line in ipairs(lines) do
    local mark, rest = line:match("^(```+)(.*)$")
    if not mark then
      mark, rest = line:match("^(~~~+)(.*)$")
    end
    if fence then
      if line == fence then
        if open < here then
          local within = vim.tbl_map(function(one)
            -- The chat escapes a line that could pass for one of its commands.
            return (one:gsub("^\\:", ":"))
          end, vim.list_slice(lines, open + 1, number - 1))
          found = { first = open, info = info, lines = within }
        end
        fence = nil
      end
    elseif mark then
      open, fence, info = number, mark, rest
    end
  end
  return found
end

--- Return a file of a folder, relative to it; nil for any other: one that a link leads to
--- elsewhere, git's files and ours.
---@param name string relative to the folder, or absolute
---@param folder string
---@return string?
local function within(name, folder)
  local path = vim.startswith(name, "/") and name or vim.fs.joinpath(folder, name)
  local real = vim.uv.fs_realpath(vim.fs.normalize(path))
  local found = real and vim.uv.fs_stat(real)
  if found and found.type == "file" and vim.startswith(real, folder .. "/") then
    local inside = real:sub(#folder + 2)
    if not inside:find("^%.git/") and not inside:find("^%.aish/") then
      return inside
    end
  end
end

--- Return the first file of a folder that a text names, relative to the folder.
---@param text string
---@param folder string
---@return string?
local function named(text, folder)
  for word in text:gmatch("[^%s`'\"()<>,;:=*@?!]+") do
    local found = within((word:gsub("%.$", "")), folder)
    if found then
      return found
    end
  end
end

--- Return the file that the first line of a block names, if it is a comment. Code names files, too:
--- those that it opens.
---@param block aish.Block
---@param folder string
---@return string?
local function titled(block, folder)
  local comment = (block.lines[1] or ""):match("^%s*[#/%-<!*;%%]+%s(.*)$")
  return comment and named(comment, folder)
end

--- Return whether a block is a diff, which is applied and not put in.
---@param block aish.Block
---@return boolean
local function is_diff_of(block)
  local language = block.info:match("^%s*(%a*)")
  return language == "diff" or language == "patch"
end

--- Return the file that a block belongs to: named by its fence or its first line, else by the
--- nearest line above it, as far as the question.
---@param block aish.Block
---@param folder string
---@return string?
local function file_of(block, folder)
  local found = named(block.info, folder) or titled(block, folder)
  for _, line in ipairs(is_diff_of(block) and block.lines or {}) do
    local target = line:match("^%+%+%+ ([^\t]+)")
    found = found or target and (within(target, folder) or within((target:gsub("^b/", "")), folder))
  end
  local above = vim.api.nvim_buf_get_lines(0, 0, block.first - 1, false)
  for number = #above, 1, -1 do
    if found or above[number] == "## You" then
      break
    end
    found = named(above[number], folder)
  end
  return found
end

--- Return the file that the user was in before the chat, relative to the folder.
---@param folder string
---@return string?
local function last_file(folder)
  local buffers = { vim.fn.winbufnr(vim.fn.winnr("#")) }
  vim.list_extend(buffers, vim.fn.tabpagebuflist())
  table.insert(buffers, vim.fn.bufnr("#"))
  for _, buffer in ipairs(buffers) do
    local name = vim.fn.bufname(buffer)
    local found = name ~= "" and within(vim.fn.fnamemodify(name, ":p"), folder)
    if found then
      return found
    end
  end
end

--- Return how many lines, of those at the end of a file that a block does not have, are in the way
--- of its last ones: what is indented deeper than the block begins, else as many as it has.
---@param before string[]
---@param first integer
---@param added integer
---@param indent integer
---@return integer
local function replaced(before, first, added, indent)
  local deeper = 0
  for number = first, #before do
    local blanks = #before[number]:match("^%s*")
    if blanks < #before[number] then
      if blanks <= indent then
        break
      end
      deeper = number - first + 1
    end
  end
  return deeper > 0 and deeper or math.min(added, #before - first + 1)
end

--- Return the lines of a file with those of a block in their place. What the file has before and
--- after stays: a reply often shows only a part. Nil where they have no line in common.
---@param before string[]
---@param block string[]
---@return string[]?
function M.merged(before, block)
  local function text(lines)
    return #lines > 0 and table.concat(lines, "\n") .. "\n" or ""
  end
  local settings = { result_type = "indices", algorithm = "histogram" }
  local hunks = vim.diff(text(before), text(block), settings) --[[@as integer[][] ]]
  local indent = #(block[1] or ""):match("^%s*")
  local after, at = {}, 1
  for _, hunk in ipairs(hunks) do
    local start, count, from, added = unpack(hunk)
    if count == #before and vim.trim(table.concat(before)) ~= "" then
      return nil
    end
    -- Of an insertion, the line that it comes after.
    local first = count == 0 and start + 1 or start
    local following = first + count
    if first == 1 then
      first = first + math.max(count - added, 0)
    elseif following > #before then
      following = added == 0 and first or first + replaced(before, first, added, indent)
    end
    vim.list_extend(after, before, at, first - 1)
    vim.list_extend(after, block, from, from + added - 1)
    at = following
  end
  return vim.list_extend(after, before, at, #before)
end

--- Return the lines of a file after a diff; nil where a part of it has no place there.
---@param before string[]
---@param diff string[]
---@return string[]?
function M.patched(before, diff)
  local after, from = vim.list_slice(before, 1), 1
  local old, new = {}, {}
  --- Put what is new in the place of what is old, and return whether it has one.
  local function put()
    for at = from, #old > 0 and #after - #old + 1 or 0 do
      if vim.deep_equal(vim.list_slice(after, at, at + #old - 1), old) then
        local rest = vim.list_slice(after, at + #old)
        after = vim.list_slice(after, 1, at - 1)
        vim.list_extend(vim.list_extend(after, new), rest)
        from, old, new = at + #new, {}, {}
        return true
      end
    end
    return #old + #new == 0
  end
  for number, line in ipairs(diff) do
    local next_line, last_line = diff[number + 1] or "", diff[number - 1] or ""
    local is_header = line:match("^%-%-%- ") and next_line:match("^%+%+%+ ")
      or line:match("^%+%+%+ ") and last_line:match("^%-%-%- ")
      or line:match("^diff ")
      or line:match("^index ")
    local sign, text = line:sub(1, 1), line:sub(2)
    if is_header or sign == "@" then
      if not put() then
        return nil
      end
    elseif sign == "+" then
      table.insert(new, text)
    elseif sign == "-" then
      table.insert(old, text)
    elseif sign ~= "\\" then
      table.insert(old, text)
      table.insert(new, text)
    end
  end
  return put() and after or nil
end

--- Have the user say where a block goes that has no line of the file; the last line at which the
--- cursor was there is offered.
---@param name string
---@param buffer integer
---@param block string[]
---@param on_choice fun(after: string[]) gets the lines of the file with the block
local function place(name, buffer, block, on_choice)
  local before = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  local window = vim.fn.win_findbuf(buffer)[1]
  local cursor = window and vim.api.nvim_win_get_cursor(window)
    or vim.api.nvim_buf_get_mark(buffer, '"')
  local line = math.min(math.max(cursor[1], 1), #before)
  local there = vim.trim(before[line])
  local places = {
    { title = ("Replace line %d: %s"):format(line, there), from = line - 1, to = line },
    { title = ("Insert below line %d: %s"):format(line, there), from = line, to = line },
    { title = "Append at the end", from = #before, to = #before },
  }
  vim.ui.select(places, {
    prompt = ("No line of the block is in %s. Where does it go?"):format(name),
    format_item = function(one)
      return one.title
    end,
  }, function(chosen)
    if chosen then
      local after = vim.list_slice(before, 1, chosen.from)
      vim.list_extend(after, block)
      on_choice(vim.list_extend(after, before, chosen.to + 1))
    end
  end)
end

--- Show what would change in a file, and change it if the user agrees.
---@param name string
---@param path string
---@param buffer integer
---@param after string[] the lines that the file would have
local function change(name, path, buffer, after)
  local before = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  local tick = vim.api.nvim_buf_get_changedtick(buffer)
  if vim.deep_equal(before, after) then
    return client.tell(("%s has these lines already"):format(name), vim.log.levels.INFO)
  end
  coroutine.wrap(function()
    local answer = require("aish.question").approve({
      kind = "edit",
      text = name,
      cwd = vim.uri_from_fname(vim.fs.dirname(path)),
      risk = "caution",
      reasons = { "a block of the reply goes there" },
      undo = "",
      covers = "",
      labels = { "Cancel", "Change it" },
      remember = {},
      diff = {
        uri = vim.uri_from_fname(path),
        before = table.concat(before, "\n") .. "\n",
        after = table.concat(after, "\n") .. "\n",
      },
    })
    if not answer.approved then
      return
    end
    if tick ~= vim.api.nvim_buf_get_changedtick(buffer) then
      return client.tell(name .. " has changed in the meantime: nothing was done")
    end
    local was_saved = not vim.bo[buffer].modified
    vim.bo[buffer].buflisted = true
    vim.api.nvim_buf_set_lines(buffer, 0, -1, false, after)
    if was_saved then
      vim.api.nvim_buf_call(buffer, function()
        vim.cmd("silent write")
      end)
    end
    client.tell(("%s has changed; `u` there takes it back"):format(name), vim.log.levels.INFO)
  end)()
end

--- Put a block into a file, where the user agrees to its diff.
---@param name string relative to the folder
---@param folder string
---@param block aish.Block
local function propose(name, folder, block)
  local is_diff = is_diff_of(block)
  local path = vim.fs.joinpath(folder, name)
  local buffer = vim.fn.bufadd(path)
  vim.fn.bufload(buffer)
  local before = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  if titled(block, folder) == name and not vim.tbl_contains(before, block.lines[1]) then
    -- It says where the block goes, and does not go there.
    table.remove(block.lines, 1)
  end
  local function agree(after)
    change(name, path, buffer, after)
  end
  local after = (is_diff and M.patched or M.merged)(before, block.lines)
  if after then
    agree(after)
  elseif is_diff then
    client.tell(("the diff does not fit %s: nothing was done"):format(name))
  else
    place(name, buffer, block.lines, agree)
  end
end

--- Put the block under the cursor, or the last one above it, into its file.
function M.apply()
  local block = M.block()
  if not block then
    return client.tell("there is no block of code at or above the cursor", vim.log.levels.INFO)
  end
  -- The chat is in `.aish` of the workspace.
  local folder = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(0), ":p:h:h")
  folder = vim.uv.fs_realpath(folder) or folder
  require("aish.command").offered("Replace selection", block.first, block.first, function(action)
    if action then
      -- The question was about a selection: the server knows where it is now.
      return client.execute(action.command.command, action.command.arguments[1])
    end
    local name = file_of(block, folder)
    if name then
      return propose(name, folder, block)
    end
    local input = { prompt = "Apply to: ", default = last_file(folder), completion = "file" }
    vim.ui.input(input, function(typed)
      name = typed and within(typed, folder)
      if name then
        propose(name, folder, block)
      elseif typed and typed ~= "" then
        client.tell(typed .. " is not a file of this workspace")
      end
    end)
  end)
end

return M
