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

  async approve(request: ApprovalRequest): Promise<Approved> {
    const approved = request.diff
      ? await this.byDiff(request, request.diff)
      : await this.byDialog(request);
    return { approved };
  }

  private async byDialog(request: ApprovalRequest): Promise<boolean> {
    const { title, detail, isWhole } = question(request);
    if (!isWhole) {
      const content = `${visible(request.text)}\n`;
      const document = await vscode.workspace.openTextDocument({
        content,
        language: "shellscript",
      });
      await vscode.window.showTextDocument(document, { preview: true });
    }
    const [run, no] = ["Run", "Do Not Run"];
    // The first one is what Enter presses.
    const buttons = request.risk === "destructive" ? [no, run] : [run];
    const options = { modal: true, detail };
    const answer = await vscode.window.showWarningMessage(title, options, ...buttons);
    return answer === run;
  }

  private async byDiff(request: ApprovalRequest, diff: DiffShown): Promise<boolean> {
    const uri = vscode.Uri.parse(diff.uri);
    const key = String(++this.number);
    const side = (name: string, text: string): vscode.Uri => {
      const made = uri.with({ scheme: SCHEME, query: `${name} ${key}`, fragment: "" });
      this.texts.set(made.toString(), text);
      return made;
    };
    const [before, after] = [side("before", diff.before), side("after", diff.after)];
    const name = visible(vscode.workspace.asRelativePath(uri));
    try {
      const answer = this.answered(
        after.query,
        `aish wants to change ${name}. ${reasonsOf(request)}`,
      );
      await vscode.commands.executeCommand("setContext", "aish.diffShown", true);
      const title = `${name} (aish: accept?)`;
      await vscode.commands.executeCommand("vscode.diff", before, after, title, { preview: false });
      return await answer;
    } finally {
      this.asked.delete(after.query);
      this.texts.delete(before.toString());
      this.texts.delete(after.toString());
      await vscode.commands.executeCommand("setContext", "aish.diffShown", this.asked.size > 0);
      await closeDiff(after.query);
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

  /** Answer what the diff asks that is in sight. */
  private answer(isAccepted: boolean): void {
    const tab = vscode.window.tabGroups.activeTabGroup.activeTab;
    const found = tab && this.asked.get(keyOf(tab));
    if (found) found(isAccepted);
    else if (this.asked.size === 1) for (const resolve of this.asked.values()) resolve(isAccepted);
  }
}

function keyOf(tab: vscode.Tab): string {
  return tab.input instanceof vscode.TabInputTextDiff && tab.input.modified.scheme === SCHEME
    ? tab.input.modified.query
    : "";
}

async function closeDiff(key: string): Promise<void> {
  const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
  const found = tabs.filter((tab) => keyOf(tab) === key);
  if (found.length) await vscode.window.tabGroups.close(found, true);
}

function reasonsOf(request: ApprovalRequest): string {
  return request.reasons.map((reason) => `${visible(reason)}.`).join(" ");
}
