/** The conversations that are open, as tabs: opened, kept, gone on with. */
import * as vscode from "vscode";
import { kindOf, type Server } from "../server/client";
import { Conversation } from "./conversation";
import type { ToWebview } from "./messages";

/** Where the tabs that were open are kept. */
const TABS = "aish.tabs";

/** How often a session is tried again that another window has open. */
const TRIES = 10;

interface KeptTab {
  session: string;
  folder: string;
  title: string;
}

/** What shows them. */
export interface Face {
  /** Tell something of the conversation in sight. */
  send: (message: ToWebview) => void;
  /** A conversation goes on in another session. */
  renamed: (from: string, to: string) => void;
  /** Something of a conversation has changed: its title, what it does. */
  changed: (conversation: Conversation) => void;
  /** Another conversation is in sight. */
  activated: () => void;
  refreshStatus: () => Promise<void>;
}

export class Conversations {
  all: Conversation[] = [];
  active: Conversation | undefined;
  private readonly openings = new Once<string, Conversation>();
  private readonly takings = new Once<Conversation, boolean>();
  /** Settled once the sessions are open again, after a restart of the server. */
  private paused: { promise: Promise<void>; end: () => void } | undefined;

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly server: () => Promise<Server>,
    private readonly face: Face,
  ) {}

  /** Return the open conversation of a session. */
  of(session: string | undefined): Conversation | undefined {
    return this.all.find((one) => one.session === session);
  }

  where(conversation = this.active): { workspace?: string; session?: string } {
    if (!conversation) return {};
    const { folder, isElsewhere, session } = conversation;
    return { ...(folder ? { workspace: folder } : {}), ...(isElsewhere ? {} : { session }) };
  }

  /** Say which session is in sight, and in which folder. */
  get place(): { workspace?: string; session?: string } {
    return this.where();
  }

  /** Return the conversation in sight; the ones of the last time are opened first. */
  async open(): Promise<Conversation> {
    if (this.active) return this.active;
    return await this.openings.do("", () => this.restored());
  }

  private async restored(): Promise<Conversation> {
    const kept = this.context.workspaceState.get<KeptTab[]>(TABS, []);
    for (const tab of kept.filter(({ folder }) => isOpen(folder))) {
      try {
        const { exchanges, isElsewhere } = await this.resumed(tab.session, tab.folder);
        if (isElsewhere && !exchanges.length) this.drop(tab.session);
      } catch (error) {
        this.drop(tab.session);
        // It was deleted, or cannot be read.
        if (!["notFound", "storeUnavailable"].includes(kindOf(error))) throw error;
      }
    }
    const last = this.all.at(-1);
    if (!last) return await this.begin();
    await this.activate(last);
    return last;
  }

  private make(session: string, folder: string): Conversation {
    const conversation = new Conversation(
      session,
      folder,
      async () => {
        await this.paused?.promise;
        return await this.server();
      },
      (message) => {
        if (this.active === conversation) this.face.send(message);
      },
      () => this.face.changed(conversation),
    );
    this.all.push(conversation);
    return conversation;
  }

  private async resumed(session: string, folder: string): Promise<Conversation> {
    return await this.openings.do(
      session,
      async () => this.of(session) ?? (await this.read(session, folder)),
    );
  }

  private async read(session: string, folder: string): Promise<Conversation> {
    const server = await this.server();
    const argument = { id: session, show: false, ...(folder ? { workspace: folder } : {}) };
    // A window that stays open has several: it is waited for once.
    const tries = this.all.some(({ isElsewhere }) => isElsewhere) ? 0 : TRIES;
    const resume = (): Promise<{ id: string }> => server.execute("aish.session.resume", argument);
    const opened = await whenFree(resume, tries).catch((error: unknown) => {
      if (kindOf(error) === "busy") return undefined;
      throw error;
    });
    const conversation = this.make(opened?.id ?? session, folder);
    conversation.isElsewhere = !opened;
    await conversation.load();
    return conversation;
  }

  /**
   * Take over a conversation that no other window has open any more; else read it anew. Return
   * whether it is this window's now, with all that was said in it read.
   */
  async takeOver(conversation: Conversation): Promise<boolean> {
    return await this.takings.do(
      conversation,
      async () => !conversation.isElsewhere || (await this.taken(conversation)),
    );
  }

  private async taken(conversation: Conversation): Promise<boolean> {
    const server = await this.server();
    const argument = { id: conversation.session, show: false, ...folderOf(conversation) };
    try {
      await server.execute("aish.session.resume", argument);
      conversation.isElsewhere = false;
    } catch (error) {
      if (kindOf(error) !== "busy") throw error;
    }
    const isNew = await conversation.load();
    const isOwn = !conversation.isElsewhere;
    if (conversation === this.active && (isNew || isOwn)) this.face.activated();
    return isOwn;
  }

  /** Read the conversation in sight anew if another window has it; leave one that was deleted. */
  async readAnew(): Promise<void> {
    const { active } = this;
    if (!active?.isElsewhere) return;
    try {
      await this.takeOver(active);
    } catch (error) {
      if (kindOf(error) !== "notFound") throw error;
      await this.close(active.session);
    }
  }

  private drop(session: string): void {
    this.all = this.all.filter((one) => one.session !== session);
  }

  /** Begin a conversation in the folder that is worked in. */
  async begin(folder = currentFolder()): Promise<Conversation> {
    return await this.openings.do(`in ${folder}`, () => this.begun(folder));
  }

  private async begun(folder: string): Promise<Conversation> {
    const empty = this.all.find(
      (one) => one.folder === folder && !one.exchanges.length && !one.isElsewhere,
    );
    if (empty) {
      await this.activate(empty);
      return empty;
    }
    const server = await this.server();
    const argument = { show: false, ...(folder ? { workspace: folder } : {}) };
    const { id } = await server.execute("aish.session.new", argument);
    const conversation = this.make(id, folder);
    await this.activate(conversation);
    return conversation;
  }

  private async activate(conversation: Conversation): Promise<void> {
    this.active = conversation;
    this.face.activated();
    await this.keep();
    if (conversation.isElsewhere) {
      await this.face.refreshStatus();
      return;
    }
    // Code actions and the status are those of the session that the server shows.
    const server = await this.server();
    const argument = { id: conversation.session, ...folderOf(conversation) };
    await server.execute("aish.session.resume", argument).catch(() => undefined);
    await this.face.refreshStatus();
  }

  /** Show a session, which is opened first where it is not open. */
  async showSession(session: string, folder = currentFolder()): Promise<void> {
    const conversation = await this.resumed(session, folder);
    await this.takeOver(conversation);
    await this.activate(conversation);
  }

  /** Close a tab; its session stays. */
  async close(session: string): Promise<void> {
    const conversation = this.all.find((one) => one.session === session);
    if (!conversation) return;
    await this.closeAll([conversation]);
  }

  /** Close the tabs of folders that the window has no more. */
  async leaveFolders(): Promise<void> {
    await this.closeAll(this.all.filter(({ folder }) => !isOpen(folder)));
  }

  private async closeAll(closed: readonly Conversation[]): Promise<void> {
    for (const conversation of closed) conversation.stopAll();
    this.all = this.all.filter((one) => !closed.includes(one));
    if (!this.active || !closed.includes(this.active)) {
      for (const conversation of closed) this.face.changed(conversation);
      await this.keep();
      return;
    }
    this.active = undefined;
    const next = this.all.at(-1);
    await (next ? this.activate(next) : this.begin());
  }

  /** Remember what is open, for the next time. */
  async keep(): Promise<void> {
    const kept = this.all
      .filter((one) => one.exchanges.length || one === this.active)
      .map(({ session, folder, title }): KeptTab => ({ session, folder, title }));
    await this.context.workspaceState.update(TABS, kept);
  }

  /** Have what is asked from now on wait until the sessions are open again. */
  pause(): void {
    if (this.paused) return;
    let end = (): void => undefined;
    const promise = new Promise<void>((resolve) => (end = resolve));
    this.paused = { promise, end };
  }

  unpause(): void {
    this.paused?.end();
    this.paused = undefined;
  }

  /** Go on, after a restart of the server, where it stopped. */
  async goOn(): Promise<void> {
    try {
      await this.reopen();
    } finally {
      this.unpause();
    }
  }

  private async reopen(): Promise<void> {
    const server = await this.server();
    for (const conversation of this.all.filter(({ isElsewhere }) => !isElsewhere)) {
      const argument = { id: conversation.session, show: false, ...folderOf(conversation) };
      try {
        await whenFree(() => server.execute("aish.session.resume", argument));
      } catch (error) {
        if (kindOf(error) === "busy") {
          conversation.isElsewhere = true;
          continue;
        }
        if (kindOf(error) !== "notFound") throw error;
        // Nothing was written of it yet: what is asked in it goes to a new session.
        const fresh = { show: false, ...folderOf(conversation) };
        const from = conversation.session;
        conversation.session = (await server.execute("aish.session.new", fresh)).id;
        this.face.renamed(from, conversation.session);
      }
    }
    const next = this.active ?? this.all.at(-1);
    await (next ? this.activate(next) : this.begin());
  }

  /** Begin a conversation beside, with what was said before an exchange. */
  async fork(conversation: Conversation, turnId: string): Promise<Conversation> {
    const server = await this.server();
    const argument = { turnId, show: false, ...this.where(conversation) };
    const { id } = await server.execute("aish.session.fork", argument);
    const parted = this.make(id, conversation.folder);
    await parted.load();
    await this.activate(parted);
    return parted;
  }
}

/** Work of which each piece is done once at a time, whoever else asks for it meanwhile. */
class Once<Key, Result> {
  private readonly going = new Map<Key, Promise<Result>>();

  async do(key: Key, work: () => Promise<Result>): Promise<Result> {
    const going = this.going.get(key) ?? work().finally(() => this.going.delete(key));
    this.going.set(key, going);
    return await going;
  }
}

function folderOf(conversation: Conversation): { workspace?: string } {
  return conversation.folder ? { workspace: conversation.folder } : {};
}

/** Do what another window may hold up, which is about to close: once more while it is busy. */
async function whenFree<Result>(work: () => Promise<Result>, tries = TRIES): Promise<Result> {
  for (let left = tries; ; left -= 1) {
    try {
      return await work();
    } catch (error) {
      if (left === 0 || kindOf(error) !== "busy") throw error;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
  }
}

/** Return whether a conversation's folder is one of the window's; empty: it has none. */
function isOpen(folder: string): boolean {
  const uris = (vscode.workspace.workspaceFolders ?? []).map(({ uri }) => uri);
  const files = uris.filter(({ scheme }) => scheme === "file");
  return folder ? files.some((uri) => uri.toString() === folder) : !files.length;
}

/** Return the URI of the folder that is worked in; empty where none is open. */
export function currentFolder(): string {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const uri = vscode.window.activeTextEditor?.document.uri;
  const found = (uri && vscode.workspace.getWorkspaceFolder(uri)) ?? folders[0];
  return found?.uri.scheme === "file" ? found.uri.toString() : "";
}
