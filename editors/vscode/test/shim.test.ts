import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import * as fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { shim } from "../src/server/shim";

const isWindows = process.platform === "win32";

test("a command of any words is run under the server's name", { skip: isWindows }, async () => {
  const storage = await fs.mkdtemp(path.join(os.tmpdir(), "aish shim-"));
  try {
    const words = ["it's", 'a "b"', "$HOME", "`x`"];
    for (const first of ["before", "after"]) {
      const folder = await shim(storage, ["/usr/bin/printf", "%s|", first, ...words]);
      assert.deepEqual(await fs.readdir(folder), ["aish-lsp"]);
      const { stdout } = await promisify(execFile)(path.join(folder, "aish-lsp"), ["c d"]);
      assert.equal(stdout, [first, ...words, "c d", ""].join("|"));
    }
  } finally {
    await fs.rm(storage, { recursive: true });
  }
});
