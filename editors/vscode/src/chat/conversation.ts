/** One conversation: a session of the server, with what was said in it and what goes on. */
import * as vscode from "vscode";
import type {
  AskResult,
  ChatLineDone,
  CommandInfo,
  Event,
  NorrisResult,
  RunReport,
} from "../protocol";
import { kindOf, messageOf, type Server } from "../server/client";
import type { ToWebview } from "./messages";
import { fromHistory } from "./history";
import {
  ended,
  type Exchange,
  exchange,
  finish,
  fold,
  hasChanged,
  isSuggested,
  joined,
  newRun,
  type Run,
  textOf,
  unjudged,
} from "./model";

/** What a question may go along with. */
export interface About {
  uri?: string;
  range?: unknown;
  diagnostics?: unknown;
}

/** Milliseconds that events are gathered for: a frame. */
const FRAME = 16;

export class Conversation {
  exchanges: Exchange[] = [];
  title = "";
  /** Another window has it open: it can only be read here. */
  isElsewhere = false;
  private number = 0;
  /** What was read last of what was said before. */
  private read = "";
  /** How to stop what goes on, by the exchange or the command. */
  private readonly going = new Map<string, vscode.CancellationTokenSource>();
  private readonly waiting = new Map<string, Event[]>();
  /** The text of each command that is to run, by the id of its card. */
  private readonly texts = new Map<string, string>();
  /** What each question went along with. */
  private readonly about = new Map<string, About>();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    public session: string,
    readonly folder: string,
    private readonly server: () => Promise<Server>,
    private readonly send: (message: ToWebview) => void,
    private readonly changed: (conversation: Conversation) => void,
  ) {}

  get isBusy(): boolean {
    return this.going.size > 0;
  }

  private get place(): { workspace?: string; session: string } {
    return this.folder
      ? { workspace: this.folder, session: this.session }
      : { session: this.session };
  }

  /** Read what was said before, and return whether it is other than what was read last. */
  async load(): Promise<boolean> {
    const server = await this.server();
    const { session: id, isElsewhere, place } = this;
    const where = isElsewhere ? { id, ...(this.folder ? { workspace: this.folder } : {}) } : place;
    const [history, { commands }] = await Promise.all([
      server.execute("aish.session.history", where),
      isElsewhere ? { commands: [] } : server.execute("aish.commands.list", place),
    ]);
    const read = JSON.stringify([history.turns, commands]);
    if (read === this.read) return false;
    this.read = read;
    const going = this.exchanges.filter(({ key }) => this.going.has(key));
    this.exchanges = [...fromHistory(history.turns, commands), ...going];
    this.title = titleOf(this.exchanges[0]?.prompt ?? "");
    return true;
  }

  /**
   * Ask a question, or carry a line out that begins with a colon. Return the session that a line has
   * turned to, where it has.
   */
  async say(text: string, about: About = {}): Promise<string | undefined> {
    const line = text.trim();
    if (/^:[a-z]/.test(line) && !line.includes("\n")) return await this.line(line);
    await this.ask(text, about);
    return undefined;
  }

  private async ask(prompt: string, about: About): Promise<void> {
    const made = this.begin(prompt, { replaces: about.range !== undefined });
    this.about.set(made.key, about);
    await this.follow(made, (server, onEvent, token) => {
      const argument = { prompt, ...this.place, ...about } as never;
      return server.stream<"aish.ask", AskResult>("aish.ask", argument, onEvent, token);
    });
  }

  /** Ask an exchange again: its old answer is no longer sent. */
  async retry(key: string, model?: string): Promise<void> {
    const before = this.find(key);
    if (!before?.turnId) {
      if (before) await this.say(before.prompt, this.about.get(key));
      return;
    }
    const made = this.begin(before.prompt, { replaces: before.replaces });
    const argument = { ...this.place, turnId: before.turnId, ...(model ? { model } : {}) };
    await this.follow(made, async (server, onEvent, token) => {
      const result = await server.stream<"aish.retry", AskResult>(
        "aish.retry",
        argument,
        onEvent,
        token,
      );
      before.isPast = true;
      this.show(before);
      return result;
    });
  }

  async pursue(goal: string, allowCaution: boolean): Promise<void> {
    const made = this.begin(goal, { isGoal: true });
    await this.follow(made, (server, onEvent, token) =>
      server.stream<"aish.norris.start", NorrisResult>(
        "aish.norris.start",
        { ...this.place, goal, allowCaution },
        onEvent,
        token,
      ),
    );
  }

  private async line(line: string): Promise<string | undefined> {
    const made = this.begin(line);
    let turnedTo: string | undefined;
    await this.follow(made, async (server, onEvent, token) => {
      const argument = { line, ...this.place };
      const found = await server.stream<"aish.chat.line", ChatLineDone>(
        "aish.chat.line",
        argument,
        onEvent,
        token,
      );
      if (/^:(?:resume|session)\b/.test(line) && found.session !== this.session) {
        turnedTo = found.session;
      }
      if (found.text) fold(made, { kind: "text", delta: found.text });
      if (found.comes === "output") this.note(made, line, found.result as RunReport);
      return found.comes === "output" ? undefined : found.result;
    });
    return turnedTo;
  }

  /** Show a command that was run by a line, with what it printed. */
  private note(made: Exchange, line: string, report: RunReport): void {
    if (!made.commands.some((command) => command.id === report.commandId)) {
      made.commands.push(unjudged(report.commandId, report.text || line, -1));
    }
    ended((made.runs[report.commandId] ??= newRun()), report);
  }

  /** Show a new exchange; what its page depends on has to be known by now. */
  private begin(prompt: string, known: Partial<Exchange> = {}): Exchange {
    const made = { ...exchange(`e${Date.now()}-${++this.number}`, prompt), ...known };
    this.exchanges.push(made);
    this.title ||= titleOf(prompt);
    this.show(made);
    return made;
  }

  /** Follow the events of a job until its end; tell what broke off. */
  private async follow(
    made: Exchange,
    work: (
      server: Server,
      onEvent: (event: Event) => void,
      token: vscode.CancellationToken,
    ) => Promise<unknown>,
  ): Promise<void> {
    const source = new vscode.CancellationTokenSource();
    this.going.set(made.key, source);
    this.changed(this);
    try {
      const onEvent = (event: Event): void => this.take(made, event);
      finish(made, await work(await this.server(), onEvent, source.token));
    } catch (error) {
      made.error = messageOf(error);
      made.errorKind = kindOf(error);
      made.finishReason ??= source.token.isCancellationRequested ? "cancelled" : "error";
      if (made.finishReason === "cancelled") made.error = "";
    } finally {
      this.flush();
      made.state = "ended";
      // What broke off may have changed files, too.
      made.canUndo = hasChanged(made);
      for (const run of Object.values(made.runs)) if (run.state === "running") run.state = "ended";
      this.going.delete(made.key);
      source.dispose();
      this.show(made);
      this.changed(this);
    }
  }

  private take(made: Exchange, event: Event): void {
    fold(made, event);
    const events = this.waiting.get(made.key) ?? [];
    events.push(event);
    this.waiting.set(made.key, events);
    this.timer ??= setTimeout(() => this.flush(), FRAME);
    if (event.kind === "start" || event.kind === "step") this.changed(this);
  }

  /** Send what was gathered. */
  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    for (const [key, events] of this.waiting) {
      this.send({ kind: "events", session: this.session, key, events: joined(events) });
    }
    this.waiting.clear();
  }

  private show(made: Exchange): void {
    this.waiting.delete(made.key);
    this.send({ kind: "exchange", session: this.session, exchange: made });
  }

  /** Run a suggestion, or what the user has made of it; its output stands under it. */
  async run(key: string, commandId: string, edited: string | null): Promise<void> {
    const made = this.find(key);
    const command = made?.commands.find((one) => one.id === commandId);
    if (!made || !command || made.runs[commandId]?.state === "running") return;
    const isKnown = isSuggested(made, command);
    const text = edited ?? textOf(made, command);
    const run = (made.runs[commandId] = newRun());
    if (text !== command.text) run.edited = text;
    this.texts.set(commandId, text);
    const source = new vscode.CancellationTokenSource();
    this.going.set(`${key} ${commandId}`, source);
    this.changed(this);
    this.showRun(made, commandId);
    try {
      const report = await this.ran(made, command, text, isKnown, source.token);
      ended(run, report);
      if (run.edited) run.edited = report.text;
      run.note ||= report.finishReason === "denied" ? "not run" : "";
    } catch (error) {
      run.state = "denied";
      run.note = messageOf(error);
    } finally {
      this.flush();
      this.going.delete(`${key} ${commandId}`);
      this.texts.delete(commandId);
      source.dispose();
      this.showRun(made, commandId);
      this.changed(this);
    }
  }

  private async ran(
    made: Exchange,
    command: CommandInfo,
    text: string,
    isKnown: boolean,
    token: vscode.CancellationToken,
  ): Promise<RunReport> {
    const onEvent = (event: Event): void => {
      // How the command ended is no word on the reply that suggested it.
      if (event.kind === "end") return;
      // An edited command has an id of its own: its output belongs here all the same.
      this.take(made, event.kind === "output" ? { ...event, commandId: command.id } : event);
    };
    const server = await this.server();
    const stream = (what: object): Promise<RunReport> =>
      server.stream<"aish.run", RunReport>("aish.run", { ...what, ...this.place }, onEvent, token);
    if (!isKnown) return await stream({ text });
    try {
      const edited = text === command.text ? {} : { edited: text };
      return await stream({ commandId: command.id, ...edited });
    } catch (error) {
      // It was run or dropped before: it may be run again, and is judged again.
      if (kindOf(error) === "notFound") return await stream({ text });
      throw error;
    }
  }

  /** Return the id of the row that waits for an approval: of a command, or of a tool call. */
  waitingRow({ callId, text }: { callId: string; text: string }): string | undefined {
    // Some model servers count their calls anew in each reply: only what goes on can wait.
    const isHere = this.exchanges.some(
      ({ commands, parts, runs, state }) =>
        (state !== "ended" &&
          parts.some((part) => part.kind === "tool" && part.call.callId === callId)) ||
        commands.some(
          ({ id }) => id === callId && (state !== "ended" || runs[id]?.state === "running"),
        ),
    );
    if (isHere) return callId;
    // What was edited, or runs again, has an id of its own.
    return [...this.texts].find(([, one]) => one.trim() === text.trim())?.[0];
  }

  /** Show which commands the user is being asked about. */
  showAsking(rows: ReadonlySet<string>): void {
    for (const made of this.exchanges) {
      for (const [id, run] of Object.entries(made.runs)) {
        if (run.isAsking === rows.has(id)) continue;
        run.isAsking = rows.has(id);
        this.showRun(made, id);
      }
    }
  }

  /** Take note of what a command did in the user's terminal. */
  ranInTerminal(key: string, commandId: string, run: Run): void {
    const made = this.find(key);
    if (!made) return;
    made.runs[commandId] = { ...run, edited: made.runs[commandId]?.edited ?? "" };
    this.showRun(made, commandId);
  }

  private showRun(made: Exchange, commandId: string): void {
    const run = made.runs[commandId];
    if (!run) return;
    this.flush();
    this.send({ kind: "run", session: this.session, key: made.key, commandId, run });
  }

  async dismiss(key: string, commandId: string): Promise<void> {
    const made = this.find(key);
    if (!made) return;
    made.commands = made.commands.filter((command) => command.id !== commandId);
    this.send({ kind: "dropped", session: this.session, key, commandId });
    const server = await this.server();
    await server
      .execute("aish.commands.dismiss", { commandId, ...this.place })
      .catch(() => undefined);
  }

  /** Undo what a reply changed; the server tells what it put back, or why it did not. */
  async undo(key: string): Promise<void> {
    const id = this.find(key)?.turnId;
    if (!id) return;
    const server = await this.server();
    await server.execute("aish.undo", { id, ...this.place });
  }

  /** Put a block of a reply in the place of what was selected. */
  async replace(key: string, block: number): Promise<void> {
    const turnId = this.find(key)?.turnId;
    if (!turnId) return;
    const server = await this.server();
    const workspace = this.folder || null;
    await server.execute("aish.selection.replace", { turnId, block, workspace });
  }

  /** Add a text to what the next step of the goal says. */
  async sayToGoal(text: string): Promise<void> {
    const server = await this.server();
    await server.execute("aish.norris.say", { text, ...this.place });
  }

  find(key: string): Exchange | undefined {
    return this.exchanges.find((one) => one.key === key);
  }

  /** Stop an exchange with all that runs for it or, without one, what goes on now. */
  stop(key = this.going.keys().next().value): void {
    for (const [name, source] of this.going) {
      if (name === key || name.startsWith(`${key} `)) source.cancel();
    }
  }

  stopAll(): void {
    for (const source of this.going.values()) source.cancel();
  }
}

/** Return the first words of a question: the title of a tab. */
export function titleOf(prompt: string): string {
  const line = prompt.trim().split("\n", 1)[0] ?? "";
  return line.length > 32 ? `${line.slice(0, 31).trimEnd()}…` : line;
}
