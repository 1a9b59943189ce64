/** The chats held in a folder: a list to choose from, which searches what was said in them. */
import * as vscode from "vscode";
import { titleOf } from "../chat/conversation";
import type { ChatView } from "../chat/view";
import type { ListedSession, SessionInfo } from "../protocol";
import { type Server, warn } from "../server/client";
import { dollars, visible } from "../text";

type Item = vscode.QuickPickItem & { session?: SessionInfo };

const RENAME: vscode.QuickInputButton = {
  iconPath: new vscode.ThemeIcon("edit"),
  tooltip: "Rename…",
};
const DELETE: vscode.QuickInputButton = {
  iconPath: new vscode.ThemeIcon("trash"),
  tooltip: "Delete",
};

export class ChatList {
  constructor(
    private readonly server: () => Promise<Server>,
    private readonly chat: ChatView,
  ) {}

  async show(): Promise<void> {
    const pick = vscode.window.createQuickPick<Item>();
    pick.placeholder = "Choose a chat, or type words that were said in one";
    pick.matchOnDescription = true;
    let number = 0;
    const look = async (): Promise<void> => {
      const mine = ++number;
      const query = pick.value.trim();
      pick.busy = true;
      const found = await this.list(query).catch(() => []);
      if (mine !== number) return;
      pick.busy = false;
      pick.items = query ? found.map(itemOf) : byDay(found);
    };
    pick.onDidChangeValue(look);
    pick.onDidAccept(() => {
      const [chosen] = pick.selectedItems;
      pick.hide();
      if (chosen?.session) tell(this.open(chosen.session.id));
    });
    pick.onDidTriggerItemButton(({ item: { session }, button }) => {
      if (!session) return;
      if (button === DELETE) tell(this.remove(session).then(look));
      else tell(this.rename(session).then(() => this.show()));
    });
    pick.onDidHide(() => pick.dispose());
    pick.show();
    await look();
  }

  private async list(query: string): Promise<ListedSession[]> {
    const server = await this.server();
    const argument = { ...this.folder(), ...(query ? { query } : {}) };
    return (await server.execute("aish.session.list", argument)).sessions as ListedSession[];
  }

  private folder(): { workspace?: string } {
    const { workspace } = this.chat.conversations.place;
    return workspace ? { workspace } : {};
  }

  private async open(id: string): Promise<void> {
    await this.chat.reveal();
    await this.chat.conversations.showSession(id, this.folder().workspace ?? "");
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
  }
}

function tell(work: Promise<void>): void {
  work.catch(warn);
}

/** Return the chats under the days they are of. */
function byDay(sessions: readonly ListedSession[]): Item[] {
  const items: Item[] = [];
  let last = "";
  for (const session of sessions) {
    const day = dayOf(session);
    if (day !== last) items.push({ label: day, kind: vscode.QuickPickItemKind.Separator });
    last = day;
    items.push(itemOf(session));
  }
  return items;
}

function dayOf({ updated }: SessionInfo): string {
  if (!updated) return "";
  const midnight = new Date().setHours(0, 0, 0, 0);
  const days = Math.ceil((midnight - new Date(updated).getTime()) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  return days < 7 ? "This week" : "Earlier";
}

function itemOf(session: ListedSession): Item {
  return {
    session,
    label: labelOf(session),
    description: about(session),
    ...(session.snippet ? { detail: visible(session.snippet) } : {}),
    buttons: [RENAME, DELETE],
    // The server has searched the messages: the label alone would hide what it found.
    alwaysShow: true,
  };
}

function labelOf(session: SessionInfo): string {
  return visible(session.name ?? titleOf(session.title ?? "")) || "(nothing said yet)";
}

function about(session: SessionInfo): string {
  const date = session.updated ? new Date(session.updated).toLocaleString([], DATE) : "";
  return [date, session.model, dollars(session.cost ?? null)].filter(Boolean).join(" · ");
}

const DATE: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "short" };
