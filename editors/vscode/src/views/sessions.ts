/** The chats of a folder as a tree, and the search in them. */
import * as vscode from "vscode";
import { titleOf } from "../chat/conversation";
import type { ChatView } from "../chat/view";
import type { ListedSession, SessionInfo } from "../protocol";
import type { Server } from "../server/client";
import { dollars, visible } from "../text";

export class SessionTree implements vscode.TreeDataProvider<SessionInfo>, vscode.Disposable {
  private sessions: SessionInfo[] = [];
  private readonly changed = new vscode.EventEmitter<undefined>();
  readonly onDidChangeTreeData = this.changed.event;
  private readonly disposables: vscode.Disposable[];

  constructor(
    private readonly server: () => Promise<Server>,
    private readonly chat: ChatView,
  ) {
    this.disposables = [
      vscode.window.createTreeView("aish.sessionsView", { treeDataProvider: this }),
      ...Object.entries({
        "aish.sessions.refreshView": () => this.refresh(),
        "aish.sessions.openItem": (session: SessionInfo) => this.open(session.id),
        "aish.sessions.renameItem": (session: SessionInfo) => this.rename(session),
        "aish.sessions.deleteItem": (session: SessionInfo) => this.remove(session),
        "aish.searchChats": () => this.search(),
      }).map(([name, work]) => vscode.commands.registerCommand(name, work)),
    ];
  }

  dispose(): void {
    for (const disposable of this.disposables) disposable.dispose();
  }

  async refresh(): Promise<void> {
    this.sessions = await this.list();
    this.changed.fire(undefined);
  }

  private async list(query?: string): Promise<ListedSession[]> {
    const server = await this.server();
    const argument = { ...this.folder(), ...(query ? { query } : {}) };
    return (await server.execute("aish.session.list", argument)).sessions as ListedSession[];
  }

  private folder(): { workspace?: string } {
    const { workspace } = this.chat.conversations.place;
    return workspace ? { workspace } : {};
  }

  getChildren(session?: SessionInfo): SessionInfo[] {
    return session ? [] : this.sessions;
  }

  getTreeItem(session: SessionInfo): vscode.TreeItem {
    const made = new vscode.TreeItem(labelOf(session));
    made.description = about(session);
    made.tooltip = visible(session.title ?? "");
    made.contextValue = "aish.session";
    made.iconPath = new vscode.ThemeIcon("comment");
    made.command = { command: "aish.sessions.openItem", title: "Open", arguments: [session] };
    return made;
  }

  private async open(id: string): Promise<void> {
    await this.chat.reveal();
    const { workspace } = this.chat.conversations.place;
    await this.chat.conversations.showSession(id, workspace ?? "");
  }

  private async rename(session: SessionInfo): Promise<void> {
    const name = await vscode.window.showInputBox({
      prompt: "A name for this chat",
      value: session.name ?? titleOf(session.title ?? ""),
    });
    if (!name?.trim()) return;
    await this.chat.conversations.showSession(session.id, this.folder().workspace ?? "");
    const server = await this.server();
    await server.execute("aish.session.save", { ...this.folder(), session: session.id, name });
    await this.refresh();
  }

  private async remove(session: SessionInfo): Promise<void> {
    const server = await this.server();
    if (this.chat.conversations.place.session === session.id)
      await this.chat.conversations.close(session.id);
    const { deleted } = await server.execute("aish.session.delete", {
      ...this.folder(),
      id: session.id,
    });
    if (deleted) await this.chat.conversations.close(session.id);
    await this.refresh();
  }

  /** Search all that was said in this folder. */
  private async search(): Promise<void> {
    type Item = vscode.QuickPickItem & { id: string };
    const pick = vscode.window.createQuickPick<Item>();
    pick.placeholder = "Words that were said in a chat";
    pick.matchOnDescription = true;
    let number = 0;
    const look = async (query: string): Promise<void> => {
      const mine = ++number;
      pick.busy = true;
      const found = await this.list(query.trim()).catch(() => []);
      if (mine !== number) return;
      pick.busy = false;
      pick.items = found.map((session) => ({
        id: session.id,
        label: labelOf(session),
        description: about(session),
        ...(session.snippet ? { detail: visible(session.snippet) } : {}),
        // The server has searched the messages: the label alone would hide what it found.
        alwaysShow: true,
      }));
    };
    pick.onDidChangeValue((query) => void look(query));
    pick.onDidAccept(() => {
      const [chosen] = pick.selectedItems;
      pick.hide();
      if (chosen) void this.open(chosen.id);
    });
    pick.onDidHide(() => pick.dispose());
    pick.show();
    await look("");
  }
}

function labelOf(session: SessionInfo): string {
  return visible(session.name ?? titleOf(session.title ?? "")) || "(nothing said yet)";
}

function about(session: SessionInfo): string {
  const date = session.updated ? new Date(session.updated).toLocaleString([], DATE) : "";
  return [date, session.model, dollars(session.cost ?? null)].filter(Boolean).join(" · ");
}

const DATE: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "short" };
