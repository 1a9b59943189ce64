import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { CannotInstall, explained, locate, which } from "../src/server/locate";
import { shim } from "../src/server/shim";

let folder = "";
const before = process.env["PATH"];

beforeEach(async () => {
  folder = await fs.mkdtemp(path.join(os.tmpdir(), "aish-locate-"));
  await fs.mkdir(path.join(folder, "wheel"));
  process.env["PATH"] = path.join(folder, "bin");
  await fs.mkdir(path.join(folder, "bin"));
});

afterEach(async () => {
  process.env["PATH"] = before;
  await fs.rm(folder, { recursive: true });
});

async function program(name: string, text = "#!/bin/sh\nexit 0\n"): Promise<string> {
  const file = path.join(folder, "bin", name);
  await fs.writeFile(file, text, { mode: 0o755 });
  return file;
}

function wanted(more: object = {}): Parameters<typeof locate>[0] {
  return {
    command: [],
    python: "",
    wheels: path.join(folder, "wheel"),
    storage: path.join(folder, "storage"),
    report: () => undefined,
    usePath: true,
    ...more,
  };
}

async function refused(more: object = {}): Promise<CannotInstall> {
  try {
    await locate(wanted(more));
  } catch (error) {
    assert.ok(error instanceof CannotInstall);
    return error;
  }
  throw new Error("it was found");
}

test("what is set comes first, then the PATH", async () => {
  const found = await program("aish-lsp");
  assert.deepEqual(await locate(wanted()), [found]);
  const own = await program("own");
  assert.deepEqual(await locate(wanted({ command: ["own", "b"] })), [own, "b"]);
  assert.deepEqual(await locate(wanted({ command: [own] })), [own]);
  assert.match((await refused({ command: ["/no/such"] })).message, /aish\.server\.command/);
});

test("the script for terminals is not the server: it would run itself", async () => {
  const own = await program("own");
  const scripts = await shim(path.join(folder, "storage"), [own]);
  process.env["PATH"] = `${scripts}${path.delimiter}${path.join(folder, "bin")}`;
  assert.match((await refused()).message, /not on the PATH/);
  const found = await program("aish-lsp");
  assert.deepEqual(await locate(wanted()), [found]);
});

test("a folder of that name, or a file that cannot be run, is no program", async () => {
  await fs.mkdir(path.join(folder, "bin", "aish-lsp"));
  assert.equal(await which("aish-lsp"), null);
  await fs.writeFile(path.join(folder, "bin", "uv"), "", { mode: 0o644 });
  assert.equal(await which("uv"), null);
  assert.equal(await which("uv", "relative:."), null);
});

test("without a server, a wheel or a Python the user is told what to do", async () => {
  assert.match((await refused()).command, /pipx install aish-lsp/);
  await fs.writeFile(path.join(folder, "wheel", "aish_lsp-0.1.0-py3-none-any.whl"), "");
  const error = await refused();
  assert.match(error.message, /Python 3\.11 or later/);
  assert.notEqual(error.command, "");
});

test("one that is too old on the PATH is passed by, and an old Python is no Python", async () => {
  await program("aish-lsp");
  await program("python3", "#!/bin/sh\nexit 1\n");
  await fs.writeFile(path.join(folder, "wheel", "aish_lsp-0.1.0-py3-none-any.whl"), "");
  assert.match((await refused({ usePath: false })).message, /Python 3\.11 or later/);
});

test("an environment that could not be made leaves nothing behind", async () => {
  const script =
    '#!/bin/sh\n[ "$1" = -c ] && exit 0\necho "no ensurepip is not available" >&2\nexit 1\n';
  await program("python3", script);
  await fs.writeFile(path.join(folder, "wheel", "aish_lsp-0.1.0-py3-none-any.whl"), "");
  const error = await refused();
  assert.match(error.message, /no venv/);
  assert.match(error.command, /venv|python/);
  assert.deepEqual(await fs.readdir(path.join(folder, "storage")), []);
});

test("a missing network and a full disk are told as that", () => {
  const offline = { stderr: "Failed to establish a new connection: [Errno -3] Temporary failure" };
  assert.match(explained(offline, "")[0], /no network/);
  assert.match(explained({ stderr: "OSError: [Errno 28] No space left on device" }, "")[0], /full/);
  assert.match(explained(new Error("x"), "")[0], /could not be installed: .*x/);
});
