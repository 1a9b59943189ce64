/** The chat: the conversations in it, and what the user does on its pages. */
import * as vscode from "vscode";
import { type Server, warn } from "../server/client";
import type { TerminalReader } from "../terminal";
import { unlinked } from "../text";
import type { About, Conversation } from "./conversation";
import { Conversations } from "./conversations";
import { existing } from "./files";
import { follow, foldersOf, openFile } from "./links";
import { editorProposals, mentionOf } from "./mentions";
import type { FromChat, Question, Status, Tab } from "./messages";
import { isJudged, textOf } from "./model";
import { Notifications } from "./notifications";
import { type MessageRequest, Questions } from "./questions";
import { type Surface, Surfaces } from "./surfaces";
import { TerminalRuns } from "./terminal_runs";

/** What the button of a problem may do. */
const ACTIONS = new Set([
  "restartServer",
  "manageTrust",
  "openSettings",
  "connectModel",
  "pickModel",
  "editModels",
]);

/** What a chat says that is open in another window, too. */
export const ELSEWHERE =
  "This chat is open in another window, so it is read-only here. What you send starts a new chat. Once that window is closed, you can continue it here.";

/** What can be done in a chat that is only read. */
const READS = new Set(["findFiles", "openFile", "terminal"]);

export class ChatView implements vscode.Disposable {
  private readonly surfaces: Surfaces;
  readonly conversations: Conversations;
  readonly questions = new Questions({
    find: (request) => {
      const { session } = request;
      const row = this.conversations.of(session)?.waitingRow(request);
      return row ? { session, row } : undefined;
    },
    changed: (questions) => this.showQuestions(questions),
  });
  private readonly notifications = new Notifications({
    isVisible: (session) =>
      this.surfaces.isVisible && (!session || session === this.conversations.active?.session),
    show: async (session, folder) => {
      await this.reveal();
      if (session) await this.conversations.showSession(session, folder);
    },
  });
  private problem: { message: string; action: string } | undefined;
  private status: Status | null = null;
  private readonly terminals: TerminalRuns;
  private readonly statusChanged = new vscode.EventEmitter<Status | null>();
  private readonly turnEnded = new vscode.EventEmitter<void>();

  private isFocused = vscode.window.state.focused;
  /** What is only read here may have gone on in the window that the user comes from. */
  private readonly focused = vscode.window.onDidChangeWindowState(({ focused }) => {
    const isReturn = focused && !this.isFocused;
    this.isFocused = focused;
    if (isReturn) this.conversations.readAnew().catch(warn);
  });

  readonly onStatus = this.statusChanged.event;
  /** A reply or a command has ended: lists of sessions and the like may be others now. */
  readonly onTurnEnded = this.turnEnded.event;

  constructor(
    context: vscode.ExtensionContext,
    private readonly server: () => Promise<Server>,
    terminal: TerminalReader,
  ) {
    this.terminals = new TerminalRuns(terminal);
    this.conversations = new Conversations(context, server, {
      send: (message) => this.surfaces.send(message),
      renamed: (from, to) => this.surfaces.rename(from, to),
      changed: (conversation) => this.changed(conversation),
      activated: () => {
        this.show(this.surfaces);
        this.notifications.tellQuestions(this.questions.all);
      },
      refreshStatus: () => this.refreshStatus(),
    });
    this.surfaces = new Surfaces(context.extensionUri, {
      show: (surface) => this.show(surface),
      take: (message, from) => {
        this.take(message, from).catch(warn);
      },
      visibilityChanged: () => this.notifications.tellQuestions(this.questions.all),
    });
  }

  dispose(): void {
    this.focused.dispose();
    this.questions.dispose();
    this.terminals.dispose();
    this.surfaces.dispose();
    for (const conversation of this.conversations.all) conversation.stopAll();
  }

  // The pages

  /** Show all there is on one of the pages, or on each. */
  private show(on: Pick<Surfaces, "send">): void {
    const sendWith = vscode.workspace.getConfiguration("aish").get("chat.sendWith", "enter");
    const active = this.conversations.active;
    // What is gathered for the next frame is part of the exchanges already.
    active?.flush();
    on.send({
      kind: "chat",
      tabs: this.tabs(),
      active: active?.session ?? "",
      exchanges: active?.exchanges ?? [],
      sendWith,
    });
    on.send({ kind: "status", status: this.status });
    on.send({ kind: "questions", questions: this.questions.all });
    const elsewhere = { message: active?.isElsewhere ? ELSEWHERE : "", action: "" };
    on.send({ kind: "problem", ...(this.problem ?? elsewhere) });
  }

  private tabs(): Tab[] {
    const many = (vscode.workspace.workspaceFolders?.length ?? 0) > 1;
    return this.conversations.all.map(({ session, title, folder, isBusy }) => ({
      session,
      title: title || "New chat",
      folder: many ? nameOf(folder) : "",
      isBusy,
    }));
  }

  /** Show what keeps the chat from working, with a button; an empty message takes it away. */
  tell(message: string, action = ""): void {
    this.problem = message ? { message, action } : undefined;
    this.surfaces.send({ kind: "problem", message, action });
  }

  private async take(message: FromChat, from: Surface): Promise<void> {
    switch (message.kind) {
      case "ready":
        await this.conversations.open();
        break;
      case "send":
        await this.say(message.text, message.session);
        break;
      case "new":
        await this.conversations.begin();
        break;
      case "answer":
        this.questions.answer(message.id, message.button);
        break;
      case "openDiff":
        await this.questions.showDiff(message.id);
        break;
      case "show":
        await this.conversations.showSession(message.session);
        break;
      case "close":
        await this.conversations.close(message.session);
        break;
      case "complete":
        await this.complete(message.number, message.prefix, from);
        break;
      case "copy":
        await vscode.env.clipboard.writeText(message.text);
        break;
      case "link":
        await follow(message.href);
        break;
      case "dropFiles":
        this.insert(message.uris.map(mentionOf).join(" "));
        break;
      case "mentionTerminal":
        this.insert("@terminal ");
        break;
      case "search":
        await vscode.commands.executeCommand("aish.searchChats");
        break;
      case "context":
        await vscode.commands.executeCommand("aish.showContext");
        break;
      case "model":
        await vscode.commands.executeCommand("aish.pickModel");
        break;
      case "action":
        if (ACTIONS.has(message.action)) {
          await vscode.commands.executeCommand(`aish.${message.action}`);
        }
        break;
      default:
        await this.takeOfConversation(message);
        break;
    }
  }

  private async takeOfConversation(message: Extract<FromChat, { session: string }>): Promise<void> {
    const conversation = this.conversations.of(message.session);
    if (!conversation) return;
    if (!READS.has(message.kind) && !(await this.conversations.takeOver(conversation))) {
      throw new Error(ELSEWHERE);
    }
    switch (message.kind) {
      case "findFiles": {
        const { session, key, targets } = message;
        const found = await existing(targets, foldersOf(conversation.folder));
        this.surfaces.send({ kind: "files", session, key, found });
        break;
      }
      case "openFile":
        await openFile(message.target, foldersOf(conversation.folder));
        break;
      case "stop":
        conversation.stop(message.key);
        break;
      case "retry":
        if (message.choosesModel && !(await this.choseModel())) return;
        await conversation.retry(message.key);
        break;
      case "edit":
        await this.edit(conversation, message.key, message.text);
        break;
      case "run":
        await conversation.run(message.key, message.commandId, message.edited);
        break;
      case "undo":
        await conversation.undo(message.key);
        break;
      case "dismiss":
        await conversation.dismiss(message.key, message.commandId);
        break;
      case "terminal": {
        const folder = conversation.folder ? vscode.Uri.parse(conversation.folder) : undefined;
        const { key, commandId } = message;
        const exchange = conversation.find(key);
        const command = exchange?.commands.find((one) => one.id === commandId);
        if (!exchange || !command) return;
        const shown = { ...command, text: textOf(exchange, command) };
        await this.terminals.run(shown, isJudged(exchange, command), folder, (run) =>
          conversation.ranInTerminal(key, commandId, run),
        );
        return;
      }
      case "replace":
        await conversation.replace(message.key, message.block);
        break;
      case "say":
        await conversation.sayToGoal(message.text);
        break;
    }
  }

  // Conversations

  /** Ask in the conversation in sight, or in the one that is named. */
  async say(text: string, session?: string, about?: About): Promise<void> {
    if (!text.trim()) return;
    const conversation = await this.opened(text, session);
    const turnedTo = await conversation.say(text, about);
    if (turnedTo) await this.conversations.showSession(turnedTo, conversation.folder);
    // A line may have changed what is in force.
    if (text.trim().startsWith(":")) await this.refreshStatus();
  }

  /**
   * Return the conversation that is named, or the one in sight; where none can be opened, what was
   * typed for it is kept.
   */
  private async opened(text: string, session?: string): Promise<Conversation> {
    try {
      const named = this.conversations.of(session);
      return await this.owned(named ?? (await this.conversations.open()));
    } catch (error) {
      this.insert(text);
      throw error;
    }
  }

  /** Return a conversation that this window can go on with: a new one for one that is elsewhere. */
  private async owned(conversation: Conversation): Promise<Conversation> {
    const isOwn = await this.conversations.takeOver(conversation);
    return isOwn ? conversation : await this.conversations.begin(conversation.folder);
  }

  async pursue(goal: string, allowCaution: boolean): Promise<void> {
    await (await this.opened(goal)).pursue(goal, allowCaution);
  }

  private async edit(conversation: Conversation, key: string, text: string): Promise<void> {
    const turnId = conversation.find(key)?.turnId;
    const asked = turnId ? await this.conversations.fork(conversation, turnId) : conversation;
    await asked.say(text);
  }

  stop(): void {
    this.conversations.active?.stop();
  }

  /** Run a command that a code action or a lens of another document names. */
  async run(argument: Record<string, unknown>): Promise<void> {
    await this.reveal();
    const conversation = await this.owned(await this.conversations.open());
    const { commandId, text } = argument;
    for (const { key, commands } of conversation.exchanges.toReversed()) {
      const named = commands.find((one) => one.id === commandId);
      // It runs what it names, and not what was made of that in the chat.
      if (named) {
        await conversation.run(key, named.id, named.text);
        return;
      }
    }
    if (typeof text === "string") await conversation.say(`:run ${text}`);
  }

  private changed(conversation: Conversation): void {
    this.surfaces.send({ kind: "tabs", tabs: this.tabs() });
    this.notifications.follow(conversation);
    if (!conversation.isBusy) {
      this.questions.withdraw(conversation.session);
      this.turnEnded.fire();
      void this.conversations.keep();
    }
    if (conversation === this.conversations.active) this.refreshStatus().catch(() => undefined);
  }

  // Questions

  /** Ask in the chat what concerns it; else by a notification with the same buttons. */
  async choose(
    request: MessageRequest,
    taken: vscode.CancellationToken,
  ): Promise<{ title: string } | null> {
    const isChats = this.surfaces.isVisible || this.conversations.all.some((one) => one.isBusy);
    if (isChats) return await this.questions.choose(request, taken);
    const actions = request.actions ?? [];
    const message = unlinked(request.message);
    return (await vscode.window.showWarningMessage(message, ...actions)) ?? null;
  }

  private showQuestions(questions: Question[]): void {
    this.surfaces.send({ kind: "questions", questions });
    const rows = new Set(questions.map(({ row }) => row));
    for (const conversation of this.conversations.all) conversation.showAsking(rows);
    const value = questions.length;
    const tooltip = value === 1 ? "A question waits for you" : `${value} questions wait for you`;
    this.surfaces.setBadge(value ? { value, tooltip } : undefined);
    this.notifications.tellQuestions(this.questions.all);
  }

  // What else is shown and done

  async refreshStatus(): Promise<void> {
    const server = await this.server();
    const { model, context, cost } = await server.execute(
      "aish.status",
      this.conversations.where(),
    );
    this.status = { model, total: context.total, budget: context.budget, cost: cost ?? null };
    this.statusChanged.fire(this.status);
    this.surfaces.send({ kind: "status", status: this.status });
  }

  /** Have the user choose a model, and return whether it is another one. */
  private async choseModel(): Promise<boolean> {
    const before = this.status?.model;
    await vscode.commands.executeCommand("aish.pickModel");
    return this.status?.model !== before;
  }

  private async complete(number: number, prefix: string, from: Surface): Promise<void> {
    const server = await this.server();
    const found = await server
      .execute("aish.chat.complete", { prefix, ...this.conversations.where() })
      .catch(() => ({ items: [] }));
    const items = [...editorProposals(prefix), ...found.items];
    from.send({ kind: "proposals", number, items });
  }

  /** Put a text into the box for the next message, and show it. */
  insert(text: string, replaces = false): void {
    this.surfaces.sendToLatest({ kind: "insert", text, replaces });
  }

  async reveal(): Promise<void> {
    await this.surfaces.reveal();
  }

  openInEditor(): void {
    this.surfaces.openInEditor();
  }
}

function nameOf(folder: string): string {
  const uri = folder ? vscode.Uri.parse(folder) : undefined;
  return (uri && vscode.workspace.getWorkspaceFolder(uri)?.name) ?? "";
}
