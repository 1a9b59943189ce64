/** The memory as a tree: what goes with each question, and candidates to review. */
import * as vscode from "vscode";
import type { Candidate, Extracted, Listed } from "../protocol";
import { register, type Server } from "../server/client";
import { unlinked, visible } from "../text";

type Place = { workspace?: string; session?: string };
type Scope = "workspace" | "user";
type Node = { scope: Scope } | { item: Listed } | { candidates: true } | { candidate: Candidate };

const NAMES: Record<Scope, string> = { workspace: "This folder", user: "Everywhere" };

export class MemoryTree implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  private items: Listed[] = [];
  private candidates: Candidate[] = [];
  private readonly changed = new vscode.EventEmitter<undefined>();
  readonly onDidChangeTreeData = this.changed.event;
  private readonly disposables: vscode.Disposable[];

  constructor(
    private readonly server: () => Promise<Server>,
    private readonly place: () => Place,
  ) {
    this.disposables = [
      vscode.window.createTreeView("aish.memoryView", {
        treeDataProvider: this,
        showCollapseAll: false,
      }),
      ...register({
        "aish.remember": () => this.add(),
        "aish.reviewMemory": () => this.review(),
        "aish.memory.refreshView": () => this.refresh(),
        "aish.memory.editItem": (node: Node) => this.edit(node),
        "aish.memory.forgetItem": (node: Node) => this.forget(node),
        "aish.memory.moveEverywhere": (node: Node) => this.move(node),
        "aish.memory.moveHere": (node: Node) => this.move(node),
        "aish.memory.keepCandidate": (node: Node) => this.keep(node),
        "aish.memory.dropCandidate": (node: Node) => this.drop(node),
      }),
    ];
  }

  dispose(): void {
    for (const disposable of this.disposables) disposable.dispose();
  }

  async refresh(): Promise<void> {
    const server = await this.server();
    const { workspace } = this.place();
    const found = await server.execute("aish.memory.list", workspace ? { workspace } : {});
    this.items = found.items;
    this.changed.fire(undefined);
  }

  getChildren(node?: Node): Node[] {
    if (!node) {
      if (!this.items.length && !this.candidates.length) return [];
      const scopes: Node[] = (["workspace", "user"] as const)
        .filter((scope) => this.items.some((item) => item.scope === scope))
        .map((scope) => ({ scope }));
      return this.candidates.length ? [{ candidates: true }, ...scopes] : scopes;
    }
    if ("candidates" in node) return this.candidates.map((candidate) => ({ candidate }));
    if ("scope" in node) {
      return this.items.filter((item) => item.scope === node.scope).map((item) => ({ item }));
    }
    return [];
  }

  getTreeItem(node: Node): vscode.TreeItem {
    const { Expanded, None } = vscode.TreeItemCollapsibleState;
    if ("candidates" in node) return new vscode.TreeItem("To review", Expanded);
    if ("scope" in node) return new vscode.TreeItem(NAMES[node.scope], Expanded);
    const { kind, content } = "item" in node ? node.item : node.candidate;
    const made = new vscode.TreeItem(visible(content), None);
    made.tooltip = visible(content);
    made.iconPath = new vscode.ThemeIcon({ fact: "note", pref: "heart", context: "info" }[kind]);
    if ("item" in node) {
      made.contextValue = `aish.item.${node.item.scope}`;
      made.description = [kind, ...node.item.tags].join(", ");
      if (!node.item.injected) made.description += ", not sent: there is no room";
    } else {
      made.contextValue = "aish.candidate";
      made.description = [kind, ...node.candidate.flags].join(", ");
    }
    return made;
  }

  private async add(): Promise<void> {
    const content = await vscode.window.showInputBox({
      prompt: "What should be remembered in this folder?",
      placeHolder: "The tests run by `make check`.",
    });
    if (!content?.trim()) return;
    await this.remember(content, "fact", "workspace", []);
  }

  private async remember(
    content: string,
    kind: Listed["kind"],
    scope: Scope,
    tags: string[],
  ): Promise<void> {
    await this.told(async (server) => {
      const { workspace } = this.place();
      const argument = { kind, content, scope, tags, ...(workspace ? { workspace } : {}) };
      await server.execute("aish.memory.add", argument);
    });
  }

  private async edit(node: Node): Promise<void> {
    if (!("item" in node)) return;
    const { id, scope, content } = node.item;
    const text = await vscode.window.showInputBox({ prompt: "What is remembered", value: content });
    if (!text?.trim() || text === content) return;
    await this.told((server) =>
      server.execute("aish.memory.edit", { id, scope, content: text, ...this.folder() }),
    );
  }

  private async forget(node: Node): Promise<void> {
    if (!("item" in node)) return;
    const { id, scope, kind, content, tags } = node.item;
    await this.told((server) =>
      server.execute("aish.memory.forget", { id, scope, ...this.folder() }),
    );
    const back = "Undo";
    const answer = await vscode.window.showInformationMessage(
      unlinked(`aish: Forgotten: ${visible(content)}`),
      back,
    );
    if (answer === back) await this.remember(content, kind, scope, tags);
  }

  private async move(node: Node): Promise<void> {
    if (!("item" in node)) return;
    const { id, scope, kind, content, tags } = node.item;
    const other = scope === "user" ? "workspace" : "user";
    // First there, then not here: whatever fails, nothing is lost.
    await this.told(async (server) => {
      await server.execute("aish.memory.add", {
        kind,
        content,
        tags,
        scope: other,
        ...this.folder(),
      });
      await server.execute("aish.memory.forget", { id, scope, ...this.folder() });
    });
  }

  /** Have the model look for what is worth remembering in the chat. */
  private async review(): Promise<void> {
    const options = {
      location: vscode.ProgressLocation.Notification,
      title: "aish: looking for what is worth remembering",
      cancellable: true,
    };
    await vscode.window.withProgress(options, (_, token) =>
      this.told(async (server) => {
        const found = await server.stream<"aish.memory.summarize", Extracted>(
          "aish.memory.summarize",
          this.place(),
          () => undefined,
          token,
        );
        this.candidates = found.candidates;
        if (!found.candidates.length) {
          void vscode.window.showInformationMessage("aish: Nothing new was found in this chat.");
        }
      }),
    );
  }

  private async keep(node: Node): Promise<void> {
    if (!("candidate" in node)) return;
    const { kind, content } = node.candidate;
    await this.told(async (server) => {
      await server.execute("aish.memory.accept", {
        candidates: [{ kind, content }],
        ...this.place(),
      });
      this.candidates = this.candidates.filter((one) => one !== node.candidate);
    });
  }

  private drop(node: Node): void {
    if (!("candidate" in node)) return;
    this.candidates = this.candidates.filter((one) => one !== node.candidate);
    this.changed.fire(undefined);
  }

  private folder(): { workspace?: string } {
    const { workspace } = this.place();
    return workspace ? { workspace } : {};
  }

  private async told(work: (server: Server) => Promise<unknown>): Promise<void> {
    await work(await this.server());
    await this.refresh();
  }
}
