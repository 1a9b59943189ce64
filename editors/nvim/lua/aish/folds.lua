--- Folds for what is long and seldom read: outputs, and what tools and steps have printed.
---
--- They are made once a reply has ended, and not at each piece of it.

local M = {}

--- Lines of an output above which it is folded; and of what a tool or a step has printed.
local OUTPUT = 20
local PRINTED = 3

--- Return the first and last lines of what is long, counted from 1.
---@param lines string[]
---@return [integer, integer][]
local function long(lines)
  local found = {} ---@type [integer, integer][]
  local first, fence ---@type integer?, string?
  local printed ---@type integer?
  local function end_printed(last)
    if printed and last - printed >= PRINTED then
      table.insert(found, { printed, last })
    end
    printed = nil
  end
  for number, line in ipairs(lines) do
    if fence then
      if line == fence then
        if number - first > OUTPUT then
          table.insert(found, { first + 1, number })
        end
        fence = nil
      end
    elseif line:match("^>     ") or (printed and line == ">") then
      printed = printed or number
    else
      end_printed(number - 1)
      first, fence = number, line:match("^(`+)console$")
    end
  end
  end_printed(#lines)
  return found
end

--- Make the current window one with folds of ours.
function M.prepare()
  vim.wo[0][0].foldmethod = "manual"
end

--- Fold what is long in every window of a buffer; what the user has opened stays open.
---@param buffer integer
function M.fold(buffer)
  local found = long(vim.api.nvim_buf_get_lines(buffer, 0, -1, false))
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    vim.api.nvim_win_call(window, function()
      for _, range in ipairs(found) do
        if vim.fn.foldlevel(range[1]) == 0 then
          vim.cmd(("silent! %d,%dfold"):format(range[1], range[2]))
        end
      end
    end)
  end
end

return M
