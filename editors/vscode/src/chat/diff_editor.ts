/** VS Code's own diff editor, for a change that waits for an answer. */
import * as vscode from "vscode";
import type { DiffShown } from "../protocol";
import { visible } from "../text";

const SCHEME = "aish-diff";

export class DiffEditor implements vscode.Disposable, vscode.TextDocumentContentProvider {
  private readonly texts = new Map<string, string>();
  private readonly disposables: vscode.Disposable[];

  /** `answer` is told which question was answered by the buttons above the editor. */
  constructor(answer: (id: string, isYes: boolean) => void) {
    const inSight = (): string => idOf(vscode.window.tabGroups.activeTabGroup.activeTab);
    this.disposables = [
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      vscode.commands.registerCommand("aish.diff.accept", () => answer(inSight(), true)),
      vscode.commands.registerCommand("aish.diff.reject", () => answer(inSight(), false)),
    ];
  }

  dispose(): void {
    for (const disposable of this.disposables) disposable.dispose();
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.toString()) ?? "";
  }

  async show(id: string, diff: DiffShown): Promise<void> {
    const uri = vscode.Uri.parse(diff.uri);
    const name = visible(vscode.workspace.asRelativePath(uri));
    const [before, after] = ["before", "after"].map((side) =>
      vscode.Uri.from({ scheme: SCHEME, path: uri.path, query: id, fragment: side }),
    ) as [vscode.Uri, vscode.Uri];
    this.texts.set(before.toString(), diff.before);
    this.texts.set(after.toString(), diff.after);
    const title = `${name} (aish: accept?)`;
    await vscode.commands.executeCommand("vscode.diff", before, after, title, { preview: false });
    // It may have been answered while this was being opened.
    if (!this.texts.has(after.toString())) await this.close(id);
  }

  /** Close the editor of a question that was answered. */
  async close(id: string): Promise<void> {
    for (const uri of [...this.texts.keys()]) {
      if (vscode.Uri.parse(uri).query === id) this.texts.delete(uri);
    }
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
    const found = tabs.filter((tab) => idOf(tab) === id);
    if (found.length) await vscode.window.tabGroups.close(found, true);
  }
}

/** Return the id of the question that a tab shows the change of; empty if it shows none. */
function idOf(tab: vscode.Tab | undefined): string {
  return tab?.input instanceof vscode.TabInputTextDiff && tab.input.modified.scheme === SCHEME
    ? tab.input.modified.query
    : "";
}
