/** What the server may do only once the user has seen all of it and agreed: `aish/approve`. */
import * as vscode from "vscode";
import type { ApprovalRequest, Approved, DiffShown } from "./protocol";
import { question } from "./question";
import { visible } from "./text";

const SCHEME = "aish-diff";

/** Asks about commands by a dialog, and about changes of files by VS Code's own diff editor. */
export class Approvals implements vscode.Disposable, vscode.TextDocumentContentProvider {
  private readonly texts = new Map<string, string>();
  private readonly asked = new Map<string, (isAccepted: boolean) => void>();
  private number = 0;
  private readonly disposables: vscode.Disposable[];

  constructor() {
    this.disposables = [
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      vscode.commands.registerCommand("aish.diff.accept", () => this.answer(true)),
      vscode.commands.registerCommand("aish.diff.reject", () => this.answer(false)),
      vscode.window.tabGroups.onDidChangeTabs(({ closed }) => {
        for (const tab of closed) this.asked.get(keyOf(tab))?.(false);
      }),
    ];
  }

  dispose(): void {
    for (const answer of [...this.asked.values()]) answer(false);
    for (const disposable of this.disposables) disposable.dispose();
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.toString()) ?? "";
  }

  /** Ask; what was taken back by `taken` meanwhile is refused. */
  async approve(request: ApprovalRequest, taken: vscode.CancellationToken): Promise<Approved> {
    const approved = request.diff
      ? await this.byDiff(request, request.diff, taken)
      : await this.byDialog(request);
    return { approved: approved && !taken.isCancellationRequested };
  }

  private async byDialog(request: ApprovalRequest): Promise<boolean> {
    const { title, detail, isWhole } = question(request);
    const whole = isWhole ? undefined : this.virtual("/command.sh", visible(request.text));
    try {
      if (whole) await vscode.window.showTextDocument(whole, { preview: true });
      const [run, no] = ["Run", "Do Not Run"];
      // The first one is what Enter presses.
      const buttons = request.risk === "destructive" ? [no, run] : [run];
      const options = { modal: true, detail };
      const answer = await vscode.window.showWarningMessage(title, options, ...buttons);
      return answer === run;
    } finally {
      if (whole) {
        this.texts.delete(whole.toString());
        await closeTabs((tab) => uriOf(tab)?.toString() === whole.toString());
      }
    }
  }

  /** Return the address of a text that can be read, and not changed or saved. */
  private virtual(path: string, text: string): vscode.Uri {
    const uri = vscode.Uri.from({ scheme: SCHEME, path, query: String(++this.number) });
    this.texts.set(uri.toString(), text);
    return uri;
  }

  private async byDiff(
    request: ApprovalRequest,
    diff: DiffShown,
    taken: vscode.CancellationToken,
  ): Promise<boolean> {
    const uri = vscode.Uri.parse(diff.uri);
    const before = this.virtual(uri.path, diff.before);
    const after = this.virtual(uri.path, diff.after);
    const key = after.query;
    const name = visible(vscode.workspace.asRelativePath(uri));
    const asks = `aish wants to change ${name}. ${reasonsOf(request)}`;
    const canceled = taken.onCancellationRequested(() => this.asked.get(key)?.(false));
    try {
      const answer = this.answered(key, asks);
      const title = `${name} (aish: accept?)`;
      await vscode.commands.executeCommand("vscode.diff", before, after, title, { preview: false });
      return await answer;
    } finally {
      canceled.dispose();
      this.asked.delete(key);
      this.texts.delete(before.toString());
      this.texts.delete(after.toString());
      await closeTabs((tab) => keyOf(tab) === key);
    }
  }

  /** Wait for an answer by the editor's buttons, the notification's, or the tab's being closed. */
  private async answered(key: string, message: string): Promise<boolean> {
    return await new Promise((resolve) => {
      this.asked.set(key, resolve);
      const [accept, reject] = ["Accept", "Reject"];
      void vscode.window.showInformationMessage(message, accept, reject).then((answer) => {
        if (answer !== undefined) resolve(answer === accept);
      });
    });
  }

  /** Answer what the diff in sight asks, and no other one. */
  private answer(isAccepted: boolean): void {
    const tab = vscode.window.tabGroups.activeTabGroup.activeTab;
    if (tab) this.asked.get(keyOf(tab))?.(isAccepted);
  }
}

function keyOf(tab: vscode.Tab): string {
  return tab.input instanceof vscode.TabInputTextDiff && tab.input.modified.scheme === SCHEME
    ? tab.input.modified.query
    : "";
}

function uriOf(tab: vscode.Tab): vscode.Uri | undefined {
  return tab.input instanceof vscode.TabInputText ? tab.input.uri : undefined;
}

async function closeTabs(isWanted: (tab: vscode.Tab) => boolean): Promise<void> {
  const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
  const found = tabs.filter(isWanted);
  if (found.length) await vscode.window.tabGroups.close(found, true);
}

function reasonsOf(request: ApprovalRequest): string {
  const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
  return request.reasons.map((reason) => sentence(visible(reason))).join(" ");
}
