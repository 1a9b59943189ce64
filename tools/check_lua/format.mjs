// Format Lua files by StyLua: node format.mjs STYLUA_FOLDER [--check] FILE...
// Prints the names of those that are not (or were not) formatted.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, ...rest] = process.argv.slice(2);
const stylua = createRequire(`${folder}/`)("@johnnymorganz/stylua");
const check = rest[0] === "--check";

/** A call takes its configuration away: each has its own. */
function configuration() {
  const config = stylua.Config.new();
  config.column_width = 100;
  config.indent_type = stylua.IndentType.Spaces;
  config.indent_width = 2;
  config.syntax = stylua.LuaVersion.LuaJIT;
  return config;
}

for (const file of check ? rest.slice(1) : rest) {
  const before = readFileSync(file, "utf8");
  const verify = stylua.OutputVerification.Full;
  const after = stylua.formatCode(before, configuration(), undefined, verify);
  if (after !== before) {
    console.log(file);
    if (!check) writeFileSync(file, after);
  }
}
