/** What the integrated terminal ran last: `@terminal` in a question, `aish/terminal`. */
import * as vscode from "vscode";
import type { LastInTerminal } from "./protocol";

const MOST = 65_536;

/** What a terminal draws with: codes that are of no use to a model. */

const CODES = /\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]/g;

interface Ran {
  command: string;
  cwd: string | null;
  exitCode: number | null;
  output: string;
}

export class TerminalReader implements vscode.Disposable {
  private readonly last = new WeakMap<vscode.Terminal, Ran>();
  private latest: Ran | undefined;
  private readonly listeners = [
    vscode.window.onDidStartTerminalShellExecution((event) => {
      void this.follow(event);
    }),
    vscode.window.onDidEndTerminalShellExecution((event) => {
      const ran = this.last.get(event.terminal);
      if (ran) ran.exitCode = event.exitCode ?? null;
    }),
  ];

  dispose(): void {
    for (const listener of this.listeners) listener.dispose();
  }

  private async follow({
    terminal,
    execution,
  }: vscode.TerminalShellExecutionStartEvent): Promise<void> {
    const { commandLine, cwd } = execution;
    const ran: Ran = {
      command: commandLine.value,
      cwd: cwd?.toString() ?? null,
      exitCode: null,
      output: "",
    };
    this.last.set(terminal, ran);
    this.latest = ran;
    for await (const data of execution.read()) ran.output = (ran.output + data).slice(-2 * MOST);
  }

  /** Return what the terminal in sight ran last, else any; null where none has told. */
  read(): LastInTerminal | null {
    const { activeTerminal } = vscode.window;
    const ran = (activeTerminal && this.last.get(activeTerminal)) ?? this.latest;
    if (!ran) return null;
    const output = ran.output.replace(CODES, "").replaceAll("\r\n", "\n").slice(-MOST);
    return { ...ran, output };
  }
}
