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
  private readonly followed = new WeakSet<vscode.TerminalShellExecution>();
  /** Those in which a command runs, or stands and waits for Enter. */
  private readonly taken = new WeakSet<vscode.Terminal>();
  private latest: Ran | undefined;
  private readonly listeners = [
    vscode.window.onDidStartTerminalShellExecution(({ terminal, execution }) =>
      this.follow(terminal, execution),
    ),
    vscode.window.onDidEndTerminalShellExecution((event) => {
      this.taken.delete(event.terminal);
      const ran = this.last.get(event.terminal);
      if (ran) ran.exitCode = event.exitCode ?? null;
    }),
  ];

  dispose(): void {
    for (const listener of this.listeners) listener.dispose();
  }

  /** Return whether what is typed into a terminal now would go to a program, or into a command. */
  isTaken(terminal: vscode.Terminal): boolean {
    return this.taken.has(terminal);
  }

  /** Take note that something is typed there. */
  take(terminal: vscode.Terminal): void {
    this.taken.add(terminal);
  }

  /**
   * Read what a command prints. One that was started by an extension has to be told here at once:
   * when VS Code tells that it has begun, its first output may be gone.
   */
  follow(terminal: vscode.Terminal, execution: vscode.TerminalShellExecution): void {
    if (this.followed.has(execution)) return;
    this.followed.add(execution);
    this.take(terminal);
    const { commandLine, cwd } = execution;
    const ran: Ran = {
      command: commandLine.value,
      cwd: cwd?.fsPath ?? null,
      exitCode: null,
      output: "",
    };
    this.last.set(terminal, ran);
    this.latest = ran;
    void keep(execution.read(), ran);
  }

  /** Return what the terminal in sight ran last, else any; null where none has told. */
  async read(): Promise<LastInTerminal | null> {
    const { activeTerminal } = vscode.window;
    const own = activeTerminal && this.last.get(activeTerminal);
    const ran = own ?? this.latest;
    if (!ran) return null;
    let output = plain(ran.output);
    if (!output.trim() && own && ran.exitCode !== null) output = await copiedOutput();
    return { ...ran, output };
  }
}

function plain(output: string): string {
  return output.replace(CODES, "").replaceAll("\r\n", "\n").slice(-MOST);
}

/**
 * Return what the last command in the terminal in sight printed, by way of the clipboard.
 *
 * Of one that ends at once VS Code tells too late that it has begun, and its output has gone by.
 */
async function copiedOutput(): Promise<string> {
  const before = await vscode.env.clipboard.readText();
  await vscode.commands.executeCommand("workbench.action.terminal.copyLastCommandOutput");
  const copied = await vscode.env.clipboard.readText();
  // It copies nothing where there is nothing.
  if (copied === before) return "";
  await vscode.env.clipboard.writeText(before);
  return plain(copied);
}

async function keep(printed: AsyncIterable<string>, ran: Ran): Promise<void> {
  for await (const data of printed) ran.output = (ran.output + data).slice(-2 * MOST);
}
