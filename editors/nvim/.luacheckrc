std = "luajit"
globals = { "vim" }
-- The formatter sees to the length of code; what is left over is prose and generated types.
max_line_length = false
