/** What the server may do only once the user has seen all of it and agreed: `aish/approve`. */
import * as vscode from "vscode";
import type { ApprovalRequest, Approved, DiffShown } from "./protocol";
import { question } from "./question";
import { visible } from "./text";

const SCHEME = "aish-diff";

/** The number of the label that is a plain yes; those behind it are remembered. */
const YES = 1;

/** Asks about commands by a dialog, and about changes of files by VS Code's own diff editor. */
export class Approvals implements vscode.Disposable, vscode.TextDocumentContentProvider {
  private readonly texts = new Map<string, string>();
  private readonly asked = new Map<string, (label: number) => void>();
  private number = 0;
  private readonly disposables: vscode.Disposable[];

  constructor() {
    this.disposables = [
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      vscode.commands.registerCommand("aish.diff.accept", () => this.answer(YES)),
      vscode.commands.registerCommand("aish.diff.reject", () => this.answer(0)),
      vscode.window.tabGroups.onDidChangeTabs(({ closed }) => {
        for (const tab of closed) this.asked.get(keyOf(tab))?.(0);
      }),
    ];
  }

  dispose(): void {
    for (const answer of [...this.asked.values()]) answer(0);
    for (const disposable of this.disposables) disposable.dispose();
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.toString()) ?? "";
  }

  /** Ask; what was taken back by `taken` meanwhile is refused. */
  async approve(request: ApprovalRequest, taken: vscode.CancellationToken): Promise<Approved> {
    const answer = request.diff
      ? await this.byDiff(request, request.diff, taken)
      : await this.byDialog(request);
    if (answer < YES || taken.isCancellationRequested) return { approved: false, remember: null };
    return { approved: true, remember: request.remember[answer - YES - 1] ?? null };
  }

  /** Return the number of the label that was chosen: the first of them is a no. */
  private async byDialog(request: ApprovalRequest): Promise<number> {
    const { title, detail, isWhole } = question(request);
    const whole = isWhole ? undefined : this.virtual("/command.sh", visible(request.text));
    try {
      if (whole) await vscode.window.showTextDocument(whole, { preview: true });
      // The first one is what Enter presses. VS Code has a button "Cancel" of its own.
      const buttons = ["Do Not Run", ...request.labels.slice(YES)];
      const options = { modal: true, detail };
      const answer = await vscode.window.showWarningMessage(title, options, ...buttons);
      return answer === undefined ? 0 : buttons.indexOf(answer);
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
  ): Promise<number> {
    const uri = vscode.Uri.parse(diff.uri);
    const before = this.virtual(uri.path, diff.before);
    const after = this.virtual(uri.path, diff.after);
    const key = after.query;
    const name = visible(vscode.workspace.asRelativePath(uri));
    const asks = `aish wants to change ${name}. ${reasonsOf(request)}`;
    const canceled = taken.onCancellationRequested(() => this.asked.get(key)?.(0));
    try {
      const answer = this.answered(key, asks, request.labels.slice(YES + 1));
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
  private async answered(key: string, message: string, more: string[]): Promise<number> {
    return await new Promise((resolve) => {
      this.asked.set(key, resolve);
      const buttons = ["Reject", "Accept", ...more];
      void vscode.window.showInformationMessage(message, ...buttons).then((answer) => {
        if (answer !== undefined) resolve(buttons.indexOf(answer));
      });
    });
  }

  /** Answer what the diff in sight asks, and no other one. */
  private answer(label: number): void {
    const tab = vscode.window.tabGroups.activeTabGroup.activeTab;
    if (tab) this.asked.get(keyOf(tab))?.(label);
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
