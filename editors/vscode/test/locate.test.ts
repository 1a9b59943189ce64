import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import {
  addEngine,
  CannotInstall,
  explained,
  indexHosts,
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
    agreed: () => Promise.resolve(true),
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
  await addEngine(wanted({ report }));
  await addEngine(wanted());
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
    const stopped = addEngine(wanted({ signal: stopping.signal, report }));
    await assert.rejects(stopped, /was stopped/);
  }
  await program(
    "python3",
    PYTHON.replace("# FAULT", 'echo "[Errno 28] No space left" >&2; exit 1'),
  );
  await assert.rejects(addEngine(wanted()), /disk is full/);
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

test("an update asks before it fetches llama.cpp again, and does without it where that is not wanted", async () => {
  await extension();
  const asked: string[] = [];
  const answer = (isYes: boolean): object => ({
    agreed: (host: string) => Promise.resolve(asked.push(host) > 0 && isYes),
  });
  await locate(wanted(answer(false)));
  assert.equal(await addEngine(wanted(answer(false))), false);
  assert.equal((await environments()).length, 1);
  assert.equal(await addEngine(wanted(answer(true))), true);
  assert.equal(asked.length, 2);
  await fs.writeFile(path.join(folder, "wheel", "aish_lsp-0.1.0-py3-none-any.whl"), "newer");
  const [program = ""] = await locate(wanted(answer(false)));
  assert.match(await fs.readFile(program, "utf8"), /whl\[tools\]\n$/);
  await locate(wanted(answer(true)));
  assert.deepEqual(asked, ["pypi.org", "pypi.org", "pypi.org"]);
});

test("a package that is fetched is told once its line is whole, whatever is in its name", async () => {
  const fetching = `printf "  Downloading llama-cpp-pyt"; /bin/sleep 0.2; echo "hon-0.3.1.tar.gz (50.1 MB)"
    echo "Downloading hf-xet (3.1MiB)" >&2; printf "Downloading a-1.0.whl (9.9 kB)"`;
  await extension(fetching);
  const said: string[] = [];
  await locate(wanted({ report: (message: string) => said.push(message) }));
  const told = said.filter((message) => message.startsWith("fetching")).sort();
  assert.deepEqual(told, [
    "fetching hf-xet (3.1 MB)",
    "fetching llama-cpp-python (50.1 MB)",
    "fetching xllamacpp (33.9 MB)",
  ]);
});

/** A Python whose pip has these settings. */
async function pip(...list: string[]): Promise<string> {
  await program(
    "python3",
    `#!/bin/sh\n[ "$2" = pip ] && printf '%s' "${list.join("\n")}"\nexit 0\n`,
  );
  return await indexHosts();
}

test("the hosts that packages come from are all that pip is told, by what counts most", async () => {
  assert.equal(await indexHosts(), "the package index that is set");
  assert.equal(await pip(), "pypi.org");
  const both = [
    "global.index-url='https://a.example/simple'",
    "install.index-url='https://b.example'",
  ];
  assert.equal(await pip(...both), "b.example");
  assert.equal(await pip(":env:.index-url='https://me:key@c.example/s'", ...both), "c.example");
  const more =
    "global.extra-index-url='https://x.example/\\\\nhttps://y.example https://x.example/2'";
  assert.equal(await pip(more), "pypi.org and x.example and y.example");
  assert.equal(await pip("global.find-links='/opt/wheels'"), "pypi.org");
  assert.equal(await pip("global.index-url='file:///opt/simple'"), "this machine");
});

test("the hosts that packages come from are those that uv would write down", async () => {
  await pip("global.index-url='https://a.example/simple'");
  const said = "--index-url https://d.example/x\n--extra-index-url https://k.example:1/s\n\n";
  await program("uv", `#!/bin/sh\n[ "$2" = compile ] && read line || printf '%s' '${said}'\n`);
  assert.equal(await indexHosts(), "d.example and k.example:1");
  await program("uv", "#!/bin/sh\nexit 2\n");
  assert.equal(await indexHosts(), "the package index that is set");
});
