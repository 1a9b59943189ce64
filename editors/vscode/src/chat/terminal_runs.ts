/** Commands that go to the user's terminal; shell integration tells how they end. */
import { execFile } from "node:child_process";
import * as vscode from "vscode";
import type { CommandInfo } from "../protocol";
import type { TerminalReader } from "../terminal";
import { newRun, type Run } from "./model";

/** Milliseconds that a new terminal's shell has to say that it tells of its commands. */
const INTEGRATION = 4000;

/** What a terminal takes for keys: the end of a line is Enter. */
const CONTROLS = /[\x00-\x1f\x7f-\x9f]/;

/** What a shell prints to mark its own lines. */
const MARKS = /\x1b\]633;[^\x07\x1b]*(?:\x07|\x1b\\)/g;

/** The key that empties the line in each shell but Windows' own. */
const EMPTY_LINE = "\x15";

export class TerminalRuns implements vscode.Disposable {
  /** The one of each folder that was opened last. */
  private readonly terminals = new Map<string, vscode.Terminal>();
  /** Those whose shell has not told of its commands in time. */
  private readonly silent = new WeakSet<vscode.Terminal>();
  private readonly closing = vscode.window.onDidCloseTerminal((closed) => {
    for (const [folder, one] of this.terminals) if (one === closed) this.terminals.delete(folder);
  });

  constructor(private readonly reader: TerminalReader) {}

  dispose(): void {
    this.closing.dispose();
  }

  /**
   * Run a command where the user sees it; `show` is told as it goes on. What could lose something,
   * or was not judged, is only typed there.
   */
  async run(
    { text, risk }: CommandInfo,
    isJudged: boolean,
    folder: vscode.Uri | undefined,
    show: (run: Run) => void,
  ): Promise<void> {
    const terminal = await this.terminalOf(folder);
    terminal.show(true);
    const run = { ...newRun(), inTerminal: true };
    if (CONTROLS.test(text)) {
      // Typed, each of its lines would run, or a key be pressed.
      await vscode.env.clipboard.writeText(text);
      show({ ...run, state: "ended", note: "copied: paste it into the terminal" });
      return;
    }
    this.reader.take(terminal);
    const isSilent = this.silent.has(terminal);
    const shell = terminal.shellIntegration ?? (isSilent ? undefined : await integration(terminal));
    if (!shell) this.silent.add(terminal);
    if (!shell || !isJudged || risk === "destructive") {
      // It stands there to be read, and the user presses Enter: nobody would tell how it ends.
      terminal.sendText(isSilent ? EMPTY_LINE + text : text, false);
      show({ ...run, state: "ended", note: "in the terminal: press Enter there" });
      return;
    }
    show(run);
    const execution = shell.executeCommand(text);
    const printed = execution.read();
    this.reader.follow(terminal, execution);
    const ended = new Promise<number | undefined>((resolve) => {
      const listeners = [
        vscode.window.onDidEndTerminalShellExecution((event) => {
          if (event.execution === execution) finish(event.exitCode);
        }),
        vscode.window.onDidCloseTerminal((closed) => {
          if (closed === terminal) finish(undefined);
        }),
      ];
      const finish = (exitCode: number | undefined): void => {
        for (const listener of listeners) listener.dispose();
        resolve(exitCode);
      };
    });
    for await (const data of printed) {
      run.output = (run.output + data.replace(MARKS, "")).slice(-65_536);
      show(run);
    }
    const exitCode = await ended;
    show({ ...run, state: "ended", exitCode: exitCode ?? null });
  }

  /** Return a terminal in a folder in which nothing runs. */
  private async terminalOf(folder: vscode.Uri | undefined): Promise<vscode.Terminal> {
    const at = folder?.toString() ?? "";
    const known = this.terminals.get(at);
    if (known && !this.reader.isTaken(known)) return known;
    if (known && this.silent.has(known) && (await isAlone(known))) return known;
    const made = vscode.window.createTerminal({ name: "aish", ...(folder ? { cwd: folder } : {}) });
    this.terminals.set(at, made);
    return made;
  }
}

/** Return whether a terminal's shell, in which somebody has typed, has started no program that runs. */
async function isAlone(terminal: vscode.Terminal): Promise<boolean> {
  const shell = await terminal.processId;
  // What we have typed there may wait for Enter; and nothing tells of Windows' processes.
  if (!shell || !terminal.state.isInteractedWith || process.platform === "win32") return false;
  return await new Promise((resolve) => {
    execFile("pgrep", ["-P", String(shell)], (error) => resolve(error?.code === 1));
  });
}

async function integration(
  terminal: vscode.Terminal,
): Promise<vscode.TerminalShellIntegration | undefined> {
  return await new Promise((resolve) => {
    const done = (found: vscode.TerminalShellIntegration | undefined): void => {
      clearTimeout(timer);
      listener.dispose();
      resolve(found);
    };
    const timer = setTimeout(() => done(undefined), INTEGRATION);
    const listener = vscode.window.onDidChangeTerminalShellIntegration((event) => {
      if (event.terminal === terminal) done(event.shellIntegration);
    });
  });
}
