/** Commands that go to the user's terminal; shell integration tells how they end. */
import * as vscode from "vscode";
import type { CommandInfo } from "../protocol";
import { newRun, type Run } from "./model";

/** Milliseconds that a new terminal's shell has to say that it tells of its commands. */
const INTEGRATION = 4000;

/** What a shell prints to mark its own lines. */
const MARKS = /\x1b\]633;[^\x07\x1b]*(?:\x07|\x1b\\)/g;

export class TerminalRuns implements vscode.Disposable {
  private terminal: vscode.Terminal | undefined;
  private readonly closing = vscode.window.onDidCloseTerminal((closed) => {
    if (closed === this.terminal) this.terminal = undefined;
  });

  dispose(): void {
    this.closing.dispose();
  }

  /**
   * Run a command where the user sees it; `show` is told as it goes on. What could lose something
   * is only typed there.
   */
  async run(
    { text, risk }: CommandInfo,
    folder: vscode.Uri | undefined,
    show: (run: Run) => void,
  ): Promise<void> {
    const terminal = (this.terminal ??= vscode.window.createTerminal({
      name: "aish",
      ...(folder ? { cwd: folder } : {}),
    }));
    terminal.show(true);
    const run = { ...newRun(), inTerminal: true };
    const shell = terminal.shellIntegration ?? (await integration(terminal));
    if (!shell || text.includes("\n") || risk === "destructive") {
      // It stands there to be read, and the user presses Enter: nobody would tell how it ends.
      terminal.sendText(text, false);
      show({ ...run, state: "ended", note: "in the terminal: press Enter there" });
      return;
    }
    show(run);
    const execution = shell.executeCommand(text);
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
    for await (const data of execution.read()) {
      run.output = (run.output + data.replace(MARKS, "")).slice(-65_536);
      show(run);
    }
    const exitCode = await ended;
    show({ ...run, state: "ended", exitCode: exitCode ?? null });
  }
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
