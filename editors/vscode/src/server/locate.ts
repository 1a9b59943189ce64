/**
 * Where the server is: the one that is set, the one on the PATH, or one of the extension's own.
 *
 * The last is a Python environment in the extension's storage, made from the wheel that comes with
 * the extension. It is made whole under a name of its own, then a file that names it is put in place:
 * two windows that do so at once cannot disturb each other.
 */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs/promises";
import * as path from "node:path";
import { promisify } from "node:util";
import { withoutShims } from "./shim";

const run = promisify(execFile);

/** What cannot go on without the user; `command` is what they may paste into a terminal. */
export class CannotInstall extends Error {
  constructor(
    message: string,
    readonly command = "",
  ) {
    super(message);
  }
}

export interface Wanted {
  /** A program with its arguments, from the settings. */
  command: readonly string[];
  /** A Python, from the settings. */
  python: string;
  /** Where the extension's wheel lies. */
  wheels: string;
  /** Where it may write. */
  storage: string;
  /** Ask whether llama.cpp may be fetched from a host, or several. */
  agreed: (host: string) => Promise<boolean>;
  /** Tell the user what goes on. */
  report: (message: string) => void;
  signal?: AbortSignal;
  /** Whether one on the PATH will do: not where it has turned out to be too old. */
  usePath: boolean;
}

/** Return the command that starts the server; it is installed first where there is none. */
export async function locate(wanted: Wanted): Promise<string[]> {
  if (wanted.command.length) return await named(wanted.command);
  const onPath = wanted.usePath
    ? await which("aish-lsp", withoutShims(process.env["PATH"] ?? ""))
    : null;
  if (onPath) return [onPath];
  const wheel = await ownWheel(wanted.wheels);
  const found = await installed(wanted.storage, wheel);
  if (!found) return [await update(wanted, wheel)];
  // Another window may still run one of them, or remove it at this moment.
  await removeOthers(wanted.storage).catch(() => undefined);
  return [found];
}

/** Install the server with what it had; what is large is asked about anew. */
async function update(wanted: Wanted, wheel: string): Promise<string> {
  let extras = await extrasOf(wanted.storage);
  if (extras.includes(ENGINE) && !(await wanted.agreed(await indexHosts(wanted.python))))
    extras = extras.filter((one) => one !== ENGINE);
  return await install(wanted, wheel, extras);
}

/** Return whether a command is that of the extension's own server. */
export function isOwn([program = ""]: readonly string[], storage: string): boolean {
  return path.dirname(path.dirname(path.dirname(program))) === path.resolve(storage);
}

/** The extra that fetches llama.cpp. */
const ENGINE = "local";

/**
 * Install the extension's server anew, with llama.cpp, and return true; false if the user does not
 * want that. The one that runs meanwhile stays whole.
 */
export async function addEngine(wanted: Wanted): Promise<boolean> {
  if (!(await wanted.agreed(await indexHosts(wanted.python)))) return false;
  const extras = new Set([...(await extrasOf(wanted.storage)), ENGINE]);
  await install(wanted, await ownWheel(wanted.wheels), [...extras]);
  return true;
}

async function named([program = "", ...args]: readonly string[]): Promise<string[]> {
  const found = path.isAbsolute(program)
    ? await which(path.basename(program), path.dirname(program))
    : await which(program);
  if (found) return [found, ...args];
  throw new CannotInstall(`${program} is not there. The setting aish.server.command names it.`);
}

/** Return the whole path of a program on the PATH; null where there is none. */
export async function which(
  name: string,
  search = process.env["PATH"] ?? "",
): Promise<string | null> {
  const endings = process.platform === "win32" ? [".exe", ".cmd", ".bat"] : [""];
  for (const folder of search.split(path.delimiter).filter((one) => path.isAbsolute(one))) {
    for (const ending of endings) {
      const file = path.join(folder, name + ending);
      try {
        await fs.access(file, fs.constants.X_OK);
        if ((await fs.stat(file)).isFile()) return file;
      } catch {
        // The next one.
      }
    }
  }
  return null;
}

async function ownWheel(folder: string): Promise<string> {
  const names = await fs.readdir(folder).catch(() => []);
  const name = names.find((one) => /^aish_lsp-.*\.whl$/.test(one));
  if (name) return path.join(folder, name);
  throw new CannotInstall(
    "aish-lsp is not on the PATH, and this extension has come without it.",
    "pipx install aish-lsp",
  );
}

/** What `server.json` says. */
interface Made {
  wheel: string;
  folder: string;
  extras?: string[];
}

async function readMade(storage: string): Promise<Made> {
  return JSON.parse(await fs.readFile(path.join(storage, "server.json"), "utf8")) as Made;
}

/** Return what the server was last installed with: a new version has it, too. */
async function extrasOf(storage: string): Promise<string[]> {
  const { extras } = await readMade(storage).catch((): Partial<Made> => ({}));
  return extras ?? ["tools"];
}

/** What tells one build of the server from another one, though their versions are the same. */
async function nameOf(wheel: string): Promise<string> {
  const { size, mtimeMs } = await fs.stat(wheel);
  return `${path.basename(wheel)} ${size} ${Math.floor(mtimeMs)}`;
}

async function installed(storage: string, wheel: string): Promise<string | null> {
  try {
    const made = await readMade(storage);
    if (made.wheel !== (await nameOf(wheel))) return null;
    const program = inside(path.join(storage, made.folder), "aish-lsp");
    await fs.access(program, fs.constants.X_OK);
    return program;
  } catch {
    return null;
  }
}

function inside(folder: string, name: string): string {
  return process.platform === "win32"
    ? path.join(folder, "Scripts", `${name}.exe`)
    : path.join(folder, "bin", name);
}

async function install(wanted: Wanted, wheel: string, extras: string[]): Promise<string> {
  await fs.mkdir(wanted.storage, { recursive: true });
  const folder = `server-${Date.now()}-${randomBytes(4).toString("hex")}`;
  const whole = path.join(wanted.storage, folder);
  try {
    await make(wanted, whole, `${wheel}[${extras.join(",")}]`);
  } catch (error) {
    // What was stopped may write for another moment.
    await fs.rm(whole, { recursive: true, force: true, maxRetries: 20 });
    throw error;
  }
  const made: Made = { wheel: await nameOf(wheel), folder, extras };
  const draft = path.join(wanted.storage, `${folder}.json`);
  await fs.writeFile(draft, JSON.stringify(made));
  await fs.rename(draft, path.join(wanted.storage, "server.json"));
  return inside(whole, "aish-lsp");
}

/** Remove the environments that were replaced more than a day ago: a window may run a younger one. */
async function removeOthers(storage: string): Promise<void> {
  const { folder: kept } = await readMade(storage);
  const isYoung = (name: string): boolean =>
    Date.now() - Number(/^server-(\d+)-/.exec(name)?.[1] ?? Infinity) < 86_400_000;
  if (isYoung(kept)) return;
  for (const name of await fs.readdir(storage)) {
    if (!/^server-\d+-/.test(name) || name.startsWith(kept) || isYoung(name)) continue;
    await fs.rm(path.join(storage, name), { recursive: true, force: true });
  }
}

async function make(wanted: Wanted, folder: string, requirement: string): Promise<void> {
  const { signal, report, wheels } = wanted;
  const options = { maxBuffer: 1 << 24, timeout: 600_000, ...(signal ? { signal } : {}) };
  const installs = async (program: string, words: string[]): Promise<void> => {
    report("installing the server");
    await tried(async () => {
      const running = run(program, words, options);
      running.child.stdout?.on("data", fetches(report));
      running.child.stderr?.on("data", fetches(report));
      await running;
    });
  };
  const { uv, python } = await installer(wanted.python);
  if (uv) {
    report("making a Python environment with uv");
    const version = python ?? ">=3.11";
    await tried(() => run(uv, ["venv", "--quiet", "--python", version, folder], options));
    const place = ["--python", inside(folder, "python"), "--find-links", wheels];
    await installs(uv, ["pip", "install", "--no-progress", ...place, requirement]);
    return;
  }
  if (!python) {
    throw new CannotInstall(
      "aish needs Python 3.11 or later, or uv. None was found.",
      installPython(),
    );
  }
  report("making a Python environment");
  await tried(() => run(python, ["-m", "venv", folder], options), venvMissing());
  const pip = ["-m", "pip", "install", "--progress-bar", "off", "--disable-pip-version-check"];
  await installs(inside(folder, "python"), [...pip, "--find-links", wheels, requirement]);
}

/** What pip and uv say of a package that they fetch. */
const FETCHED = /^ *Downloading ([\w.-]+?)(?:-\d\S*)? \(([\d.]+) ?Mi?B\)/;

/** Return what tells of the packages that are fetched: their lines come in pieces. */
function fetches(report: Wanted["report"]): (said: string) => void {
  let rest = "";
  return (said) => {
    const lines = (rest + said).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      // What is small takes no time, and has no size here.
      const [, name, size] = FETCHED.exec(line) ?? [];
      if (name) report(`fetching ${name} (${size} MB)`);
    }
  };
}

/** Return what installs: uv if it is there, else a Python; each is null where there is none. */
async function installer(set: string): Promise<{ uv: string | null; python: string | null }> {
  return { uv: await which("uv"), python: set || (await findPython()) };
}

/** Return the hosts that packages are fetched from, as pip or uv says; the first one before the others. */
export async function indexHosts(set = ""): Promise<string> {
  const { uv, python } = await installer(set);
  const urls = uv ? await indexesOfUv(uv) : await indexesOfPip(python);
  if (!urls) return "the package index that is set";
  const hosts = urls.map((url) => (URL.canParse(url) ? new URL(url).host : "")).filter(Boolean);
  return [...new Set(hosts)].join(" and ") || "this machine";
}

const PYPI = "https://pypi.org/simple";

async function indexesOfUv(uv: string): Promise<string[] | null> {
  // What it would write at the head of a list of packages that has none.
  const words = ["pip", "compile", "--quiet", "--no-header", "--offline", "--no-python-downloads"];
  const asking = run(uv, [...words, "--emit-index-url", "--emit-find-links", "-"], QUICK);
  asking.child.stdin?.end();
  const said = await asking.catch(() => null);
  return said && [...said.stdout.matchAll(/^--\S+ (\S+)/gm)].map(([, url = ""]) => url);
}

async function indexesOfPip(python: string | null): Promise<string[] | null> {
  const asking = python && run(python, ["-m", "pip", "config", "list"], QUICK).catch(() => null);
  const said = await asking;
  if (!said) return null;
  const set = (name: string): string[] => {
    // Later ones count more.
    const values = ["global", "install", ":env:"].map((place) => {
      const line = new RegExp(`^${place}\\.${name}=(['"])(.*)\\1$`, "m").exec(said.stdout);
      return line?.[2]?.split(/\s|\\n/);
    });
    return values.findLast(Boolean) ?? [];
  };
  const [index = PYPI] = set("index-url");
  return [index, ...set("extra-index-url"), ...set("find-links")];
}

/** For what answers at once. */
const QUICK = { timeout: 10_000 };

/** Return the first Python that is new enough; null where there is none. */
async function findPython(): Promise<string | null> {
  for (const name of [
    "python3",
    "python3.14",
    "python3.13",
    "python3.12",
    "python3.11",
    "python",
  ]) {
    const found = await which(name);
    if (!found) continue;
    try {
      await run(found, ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"], QUICK);
      return found;
    } catch {
      // Too old, or it does not run.
    }
  }
  return null;
}

async function tried(work: () => Promise<unknown>, command = ""): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (error instanceof Error && error.name === "AbortError") {
      throw new CannotInstall("The installation was stopped.");
    }
    throw new CannotInstall(...explained(error, command));
  }
}

const NO_NETWORK =
  /(Temporary failure in name resolution|Name or service not known|Failed to establish a new connection|Network is unreachable|ConnectError|dns error|error sending request|Connection refused|nodename nor servname|from versions: none)/i;

/** Return what to tell of a failure, and a command that may mend it. */
export function explained(error: unknown, command: string): [string, string] {
  const stderr = (error as { stderr?: unknown }).stderr;
  const said = (typeof stderr === "string" && stderr.trim()) || String(error);
  if (/ensurepip is not available|No module named '?(venv|ensurepip)/.test(said)) {
    return ["This Python has no venv.", command];
  }
  if (NO_NETWORK.test(said)) {
    const message =
      "The server's packages could not be fetched: there is no network, or no package index. Try again once there is.";
    return [message, ""];
  }
  if (/ENOSPC|No space left/.test(said)) return ["The disk is full.", ""];
  const last = said.split("\n").filter(Boolean).slice(-3).join(" ");
  return [`The server could not be installed: ${last.slice(0, 500)}`, ""];
}

function installPython(): string {
  switch (process.platform) {
    case "win32":
      return "winget install --id Python.Python.3.13";
    case "darwin":
      return "brew install python@3.13";
    default:
      return "sudo apt-get install python3 python3-venv";
  }
}

function venvMissing(): string {
  return process.platform === "linux" ? "sudo apt-get install python3-venv" : installPython();
}
