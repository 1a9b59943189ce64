/** `aish-lsp` for the user's terminals: a script that runs the server's program, and nothing else of it. */
import * as fs from "node:fs/promises";
import * as path from "node:path";

/** The folder of the script, by which one of another window or another VS Code is known, too. */
const FOLDER = "aish-lsp-for-terminals";

/** Return a PATH without the folders of such scripts, which VS Code has if a terminal started it. */
export function withoutShims(search: string): string {
  const folders = search.split(path.delimiter);
  return folders.filter((folder) => path.basename(folder) !== FOLDER).join(path.delimiter);
}

/**
 * Write the script that runs a command, and return the folder that has it.
 *
 * The folder of the program itself is not put on the PATH: it may be that of a Python environment,
 * whose Python would take the place of the user's.
 */
export async function shim(storage: string, command: readonly string[]): Promise<string> {
  const folder = path.join(storage, FOLDER);
  const isWindows = process.platform === "win32";
  const file = path.join(folder, isWindows ? "aish-lsp.cmd" : "aish-lsp");
  const text = isWindows
    ? `@${command.map((word) => `"${word}"`).join(" ")} %*\r\n`
    : `#!/bin/sh\nexec ${command.map(quoted).join(" ")} "$@"\n`;
  if ((await fs.readFile(file, "utf8").catch(() => "")) === text) return folder;
  await fs.mkdir(folder, { recursive: true });
  // Another window may write it, or a terminal run it, at the same time.
  const draft = `${file}.${process.pid}`;
  await fs.writeFile(draft, text, { mode: 0o755 });
  await fs.rename(draft, file);
  return folder;
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
