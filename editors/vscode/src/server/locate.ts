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
  return [(await installed(wanted.storage, wheel)) ?? (await install(wanted, wheel))];
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

interface Made {
  wheel: string;
  folder: string;
}

/** What tells one build of the server from another one, though their versions are the same. */
async function nameOf(wheel: string): Promise<string> {
  const { size, mtimeMs } = await fs.stat(wheel);
  return `${path.basename(wheel)} ${size} ${Math.floor(mtimeMs)}`;
}

async function installed(storage: string, wheel: string): Promise<string | null> {
  try {
    const made = JSON.parse(await fs.readFile(path.join(storage, "server.json"), "utf8")) as Made;
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

async function install(wanted: Wanted, wheel: string): Promise<string> {
  await fs.mkdir(wanted.storage, { recursive: true });
  const folder = `server-${Date.now()}-${randomBytes(4).toString("hex")}`;
  const whole = path.join(wanted.storage, folder);
  try {
    await make(wanted, whole, wheel);
  } catch (error) {
    await fs.rm(whole, { recursive: true, force: true });
    throw error;
  }
  const made: Made = { wheel: await nameOf(wheel), folder };
  const draft = path.join(wanted.storage, `${folder}.json`);
  await fs.writeFile(draft, JSON.stringify(made));
  await fs.rename(draft, path.join(wanted.storage, "server.json"));
  await removeOthers(wanted.storage, folder);
  return inside(whole, "aish-lsp");
}

/** Remove environments that are a day old: a window may still run a younger one. */
async function removeOthers(storage: string, kept: string): Promise<void> {
  for (const name of await fs.readdir(storage)) {
    const made = /^server-(\d+)-/.exec(name);
    if (!made || name.startsWith(kept) || Date.now() - Number(made[1]) < 86_400_000) continue;
    await fs.rm(path.join(storage, name), { recursive: true, force: true });
  }
}

async function make(wanted: Wanted, folder: string, wheel: string): Promise<void> {
  const { signal, report, wheels } = wanted;
  const options = { maxBuffer: 1 << 24, timeout: 600_000, ...(signal ? { signal } : {}) };
  const requirement = `${wheel}[tools]`;
  const uv = await which("uv");
  const python = wanted.python || (await findPython());
  if (uv) {
    report("making a Python environment with uv");
    const version = python ?? ">=3.11";
    await tried(() => run(uv, ["venv", "--quiet", "--python", version, folder], options));
    report("installing the server");
    const place = ["--python", inside(folder, "python"), "--find-links", wheels];
    await tried(() => run(uv, ["pip", "install", "--quiet", ...place, requirement], options));
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
  report("installing the server");
  const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
  const from = ["--find-links", wheels, requirement];
  await tried(() => run(inside(folder, "python"), [...pip, ...from], options));
}

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
      await run(found, ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"], {
        timeout: 10_000,
      });
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
