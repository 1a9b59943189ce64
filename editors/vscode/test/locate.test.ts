import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import {
  addExtra,
  CannotInstall,
  explained,
  indexHost,
  isOwn,
  locate,
  which,
} from "../src/server/locate";
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

/** A Python that makes environments with itself in them, whose pip installs in no time. */
const PYTHON = `#!/bin/sh
case "$1 $2" in
  "-m venv") /bin/mkdir -p "$3/bin"; /bin/cp "$0" "$3/bin/python" ;;
  "-m pip")
    for last; do :; done
    echo "  Downloading xllamacpp-2026.10.1-cp310-abi3-manylinux.whl (33.9 MB)"
    echo "$last" > "\${0%python}aish-lsp"; /bin/chmod +x "\${0%python}aish-lsp"
    # FAULT
esac
`;

async function extension(fault = ""): Promise<string> {
  await program("python3", PYTHON.replace("# FAULT", fault));
  await fs.writeFile(path.join(folder, "wheel", "aish_lsp-0.1.0-py3-none-any.whl"), fault);
  return path.join(folder, "storage");
}

async function environments(): Promise<string[]> {
  const names = await fs.readdir(path.join(folder, "storage"));
  return names.filter((name) => name.startsWith("server-"));
}

test("a server with an extra takes the place of the one that runs, which stays, and of the next", async () => {
  const storage = await extension();
  const said: string[] = [];
  const report = (message: string): number => said.push(message);
  const [before = ""] = await locate(wanted());
  assert.match(await fs.readFile(before, "utf8"), /whl\[tools\]\n$/);
  await addExtra(wanted({ report }), "local");
  await addExtra(wanted(), "local");
  const [after = ""] = await locate(wanted());
  assert.notEqual(after, before);
  assert.match(await fs.readFile(after, "utf8"), /whl\[tools,local\]\n$/);
  assert.deepEqual(said.slice(-2), ["installing the server", "fetching xllamacpp (33.9 MB)"]);
  await which("aish-lsp", path.dirname(before)).then(assert.ok);
  assert.ok(isOwn([after], storage));
  assert.ok(!isOwn([await program("aish-lsp")], storage));
  await fs.writeFile(path.join(folder, "wheel", "aish_lsp-0.1.0-py3-none-any.whl"), "newer");
  const [newer = ""] = await locate(wanted({ usePath: false }));
  assert.notEqual(newer, after);
  assert.match(await fs.readFile(newer, "utf8"), /whl\[tools,local\]\n$/);
});

test("an extra that is stopped, twice, or finds the disk full leaves the server as it was", async () => {
  await extension();
  const before = await locate(wanted());
  const kept = await environments();
  await program("python3", PYTHON.replace("# FAULT", "exec /bin/sleep 60"));
  for (let time = 0; time < 2; time += 1) {
    const stopping = new AbortController();
    const report = (message: string): void => {
      if (message.startsWith("fetching")) stopping.abort();
    };
    const stopped = addExtra(wanted({ signal: stopping.signal, report }), "local");
    await assert.rejects(stopped, /was stopped/);
  }
  await program(
    "python3",
    PYTHON.replace("# FAULT", 'echo "[Errno 28] No space left" >&2; exit 1'),
  );
  await assert.rejects(addExtra(wanted(), "local"), /disk is full/);
  assert.deepEqual(await environments(), kept);
  assert.deepEqual(await locate(wanted()), before);
});

test("an environment is removed a day after another one has taken its place", async () => {
  const storage = await extension();
  await locate(wanted());
  const [kept = ""] = await environments();
  const old = `server-${Date.now() - 200_000_000}-00`;
  await fs.mkdir(path.join(storage, old));
  await locate(wanted());
  assert.deepEqual((await environments()).sort(), [kept, old].sort());
  const aged = `server-${Date.now() - 100_000_000}-00`;
  const made = await fs.readFile(path.join(storage, "server.json"), "utf8");
  await fs.writeFile(path.join(storage, "server.json"), made.replace(kept, aged));
  await fs.rename(path.join(storage, kept), path.join(storage, aged));
  const young = `server-${Date.now()}-00`;
  await fs.mkdir(path.join(storage, young));
  await locate(wanted());
  assert.deepEqual((await environments()).sort(), [aged, young].sort());
});

test("the host that packages come from is the one that pip or uv is told", async () => {
  assert.equal(await indexHost({}), "pypi.org");
  const list =
    "global.extra-index-url='https://more.example/'\nglobal.index-url='https://a.example/simple'";
  await program("python3", `#!/bin/sh\n[ "$2" = pip ] && echo "${list}"\nexit 0\n`);
  assert.equal(await indexHost({}), "a.example");
  await program("uv");
  assert.equal(await indexHost({}), "pypi.org");
  assert.equal(await indexHost({ UV_INDEX_URL: "https://b.example:1/simple" }), "b.example:1");
});
