/** The chat's page: tabs, messages, and the box for the next one. */
import type { FromWebview, Tab, ToWebview } from "../chat/messages";
import type { Exchange } from "../chat/model";
import "./chat.css";
import { Composer } from "./composer";
import { button, h } from "./dom";
import { ExchangeView } from "./exchange_view";
import { GoalStrip } from "./goal_strip";
import { icon, iconButton } from "./icons";
import { QuestionViews } from "./questions";
import { Tabs } from "./tabs";

interface VsCode {
  postMessage: (message: FromWebview) => void;
  getState: () => { drafts?: Record<string, string> } | undefined;
  setState: (state: { drafts: Record<string, string> }) => void;
}
declare function acquireVsCodeApi(): VsCode;

/** Exchanges that are shown at first, and more of them each time the user scrolls up to them. */
const PAGE = 20;

/** Pixels from the end within which the page goes along with what comes. */
const NEAR = 8;

class Chat {
  private readonly vscode = acquireVsCodeApi();
  private readonly drafts = new Map(Object.entries(this.vscode.getState()?.drafts ?? {}));
  /** Chats whose draft was kept by a page that may have been closed before it forgot it. */
  private readonly old = new Set(this.drafts.keys());
  private readonly tabs = new Tabs((message) => this.post(message));
  private readonly problem = h("div", { class: "problem", role: "alert", hidden: true });
  private readonly log = h("main", { class: "log", tabindex: "0", "aria-label": "Messages" });
  private readonly more = button("Show earlier messages", () => this.showEarlier(), {
    class: "quiet more",
  });
  private readonly connecting = this.offer();
  private readonly empty = this.welcome();
  private readonly spoken = h("div", { class: "spoken", "aria-live": "polite" });
  private readonly composer = new Composer((message) => this.post(message), {
    send: (text) => this.send(text),
    stop: () => this.stop(),
    changed: (draft) => this.keepDraft(draft),
  });
  private readonly questions = new QuestionViews(this.log, (message) => this.post(message));
  private readonly goal = new GoalStrip((key) =>
    this.post({ kind: "stop", session: this.session, key }),
  );
  private session = "";
  private exchanges: Exchange[] = [];
  private firstShown = 0;
  private readonly views = new Map<string, ExchangeView>();
  private isFollowing = true;
  /** Where the log stood when it was last looked at. */
  private last = { top: 0, height: 0 };
  private readonly toEnd = iconButton("arrowDown", "Go to the end", () => this.goToEnd(), {
    class: "to-end",
    hidden: true,
  });

  constructor() {
    this.composer.element.prepend(this.toEnd);
    document.body.append(
      this.tabs.element,
      this.problem,
      this.log,
      this.goal.element,
      this.questions.element,
      this.composer.element,
      this.spoken,
    );
    this.log.append(this.empty);
    window.addEventListener("message", ({ data }: MessageEvent<ToWebview>) => this.take(data));
    this.log.addEventListener("scroll", () => this.scrolled(), { passive: true });
    window.addEventListener("focus", () => this.post({ kind: "focused" }));
    document.addEventListener("click", (event) => this.clicked(event));
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => this.dropped(event));
    this.post({ kind: "ready" });
  }

  private post(message: FromWebview): void {
    this.vscode.postMessage(message);
  }

  private take(message: ToWebview): void {
    switch (message.kind) {
      case "chat":
        this.show(message);
        break;
      case "tabs":
        this.showTabs(message.tabs);
        break;
      case "exchange":
        if (message.session === this.session) this.showExchange(message.exchange);
        break;
      case "events":
        this.viewOf(message)?.take(message.events);
        break;
      case "run":
        this.viewOf(message)?.takeRun(message.commandId, message.run);
        break;
      case "dropped":
        this.viewOf(message)?.drop(message.commandId);
        break;
      case "files":
        this.viewOf(message)?.showFiles(message.found);
        break;
      case "status":
        this.composer.showStatus(message.status);
        this.connecting.hidden = message.status?.model !== "offline";
        break;
      case "proposals":
        this.composer.showProposals(message.number, message.items);
        break;
      case "questions":
        this.say(this.questions.show(message.questions, this.session));
        break;
      case "insert":
        this.composer.insert(message.text, message.replaces);
        break;
      case "draft":
        this.takeDraft(message.session, message.text);
        break;
      case "renamed":
        this.rename(message);
        break;
      case "focus":
        this.composer.focus();
        break;
      case "problem":
        this.showProblem(message.message, message.action);
        break;
    }
    this.questions.place();
    this.goal.show([...this.views.values()].find((view) => view.goal)?.goal);
    this.follow();
  }

  /** Return what a message is about, if it is in sight: the keys of two chats may be the same. */
  private viewOf({ session, key }: { session: string; key: string }): ExchangeView | undefined {
    return session === this.session ? this.views.get(key) : undefined;
  }

  // What is shown

  private show(message: Extract<ToWebview, { kind: "chat" }>): void {
    this.carryDraft(message);
    this.session = message.active;
    this.exchanges = message.exchanges;
    this.views.clear();
    this.dropSent();
    this.firstShown = Math.max(0, this.exchanges.length - PAGE);
    this.log.replaceChildren(this.empty);
    for (const exchange of this.exchanges.slice(this.firstShown)) this.add(exchange);
    this.showMore();
    this.composer.sendWith = message.sendWith;
    this.composer.text = this.drafts.get(this.session) ?? "";
    this.composer.setHistory(this.exchanges.map(({ prompt }) => prompt).filter(Boolean));
    this.isFollowing = true;
    this.showTabs(message.tabs);
  }

  /** Return what a chat without a model begins with. */
  private offer(): HTMLElement {
    const connect = (): void => this.post({ kind: "action", action: "connectModel" });
    return h(
      "div",
      { class: "connect", hidden: true },
      h("p", {}, "No model is connected. Until one is, everyday questions are answered offline."),
      button("Connect a model", connect, { class: "primary" }),
    );
  }

  private welcome(): HTMLElement {
    const example = (text: string): HTMLElement =>
      h(
        "li",
        {},
        button(text, () => this.composer.insert(text, true), { class: "quiet" }),
      );
    return h(
      "div",
      { class: "welcome" },
      icon("terminal"),
      h("h1", {}, "Ask your shell assistant"),
      h(
        "p",
        {},
        "Each command of a reply can be run here, and the next question knows what came of it.",
      ),
      this.connecting,
      h(
        "ul",
        {},
        example("what are the ten largest files here?"),
        example("which process listens on port 8080?"),
        example("how much disk space is left?"),
      ),
    );
  }

  private add(exchange: Exchange): ExchangeView {
    const view = new ExchangeView(exchange, this.session, (message) => this.post(message));
    this.views.set(exchange.key, view);
    this.log.append(view.element);
    this.empty.hidden = true;
    return view;
  }

  private showExchange(exchange: Exchange): void {
    const known = this.views.get(exchange.key);
    if (known) known.replace(exchange);
    else if (!this.exchanges.some(({ key }) => key === exchange.key)) {
      this.exchanges.push(exchange);
      this.add(exchange);
      // What is said of its end is new then, though the words may be the same.
      this.spoken.textContent = "";
      this.isFollowing = true;
    }
    if (exchange.state === "ended") this.say(endingOf(exchange));
  }

  private showMore(): void {
    this.empty.hidden = this.exchanges.length > 0;
    if (this.firstShown > 0) this.log.prepend(this.more);
    else this.more.remove();
  }

  /** Show some more of what was said, above what is shown, which stays where it is. */
  private showEarlier(): void {
    const from = Math.max(0, this.firstShown - PAGE);
    const height = this.log.scrollHeight - this.log.scrollTop;
    const first = this.log.querySelector(".exchange");
    for (const exchange of this.exchanges.slice(from, this.firstShown)) {
      const view = new ExchangeView(exchange, this.session, (message) => this.post(message));
      this.views.set(exchange.key, view);
      this.log.insertBefore(view.element, first);
    }
    this.firstShown = from;
    this.showMore();
    this.log.scrollTop = this.log.scrollHeight - height;
  }

  private showTabs(tabs: Tab[]): void {
    this.tabs.show(tabs, this.session);
    this.composer.setBusy(tabs.some(({ session, isBusy }) => isBusy && session === this.session));
  }

  private showProblem(message: string, action: string): void {
    this.problem.hidden = !message;
    if (!message) return;
    const labels: Record<string, string> = {
      restartServer: "Try again",
      manageTrust: "Manage trust",
    };
    const label = labels[action];
    this.problem.replaceChildren(
      h("p", {}, message),
      label ? button(label, () => this.post({ kind: "action", action }), { class: "primary" }) : "",
    );
  }

  private say(text: string): void {
    if (text) this.spoken.textContent = text;
  }

  // What the user does

  private send(text: string): void {
    this.isFollowing = true;
    this.post({ kind: "send", session: this.session, text });
  }

  private stop(): void {
    this.post({ kind: "stop", session: this.session });
  }

  private keepDraft(draft: string, session = this.session): void {
    this.storeDraft(draft, session);
    this.post({ kind: "draft", session, text: draft });
  }

  private storeDraft(draft: string, session: string): void {
    if (draft) this.drafts.set(session, draft);
    else this.drafts.delete(session);
    this.vscode.setState({ drafts: Object.fromEntries(this.drafts) });
  }

  /** Forget the draft that was sent just before the page was closed. */
  private dropSent(): void {
    const wasKept = this.old.delete(this.session);
    const draft = this.drafts.get(this.session)?.trim();
    if (wasKept && draft && draft === this.exchanges.at(-1)?.prompt.trim()) this.keepDraft("");
  }

  /** Go on with what was typed on another page. */
  private takeDraft(session: string, draft: string): void {
    this.storeDraft(draft, session);
    if (session === this.session && this.composer.text !== draft) this.composer.text = draft;
  }

  /** Take what was typed for a session to the one that takes its place. */
  private rename({ from, to }: { from: string; to: string }): void {
    const draft = this.drafts.get(from) ?? "";
    this.storeDraft("", from);
    this.storeDraft(draft, to);
    if (this.session === from) this.session = to;
  }

  /** Have what was typed into a chat that is gone, or before there was one, stay in sight. */
  private carryDraft({ tabs, active }: Extract<ToWebview, { kind: "chat" }>): void {
    const typed = this.drafts.get(this.session);
    if (!typed || !active || tabs.some(({ session }) => session === this.session)) return;
    this.keepDraft("");
    this.keepDraft([this.drafts.get(active), typed].filter(Boolean).join("\n"), active);
  }

  private clicked(event: MouseEvent): void {
    const link = (event.target as Element | null)?.closest<HTMLElement>("a[href]");
    if (!link) return;
    event.preventDefault();
    // Else VS Code, which listens at the window, opens the page too, and without a question.
    event.stopPropagation();
    const { target } = link.dataset;
    if (target) this.post({ kind: "openFile", session: this.session, target });
    else this.post({ kind: "link", href: link.getAttribute("href") ?? "" });
  }

  private dropped(event: DragEvent): void {
    event.preventDefault();
    const data = event.dataTransfer?.getData("application/vnd.code.uri-list") ?? "";
    const uris = (data || event.dataTransfer?.getData("text/uri-list") || "")
      .split(/\r?\n/)
      .filter((uri) => /^(?:file|vscode-remote):/.test(uri));
    if (uris.length) this.post({ kind: "dropFiles", uris });
  }

  private scrolled(): void {
    const { scrollHeight, scrollTop, clientHeight } = this.log;
    // What becomes shorter moves up on its own; whoever scrolls up wants to read.
    const isLeft = scrollTop < this.last.top && scrollHeight >= this.last.height;
    const left = scrollHeight - scrollTop - clientHeight;
    this.isFollowing = left < 1 || (!isLeft && (left < NEAR || this.isFollowing));
    this.look();
    if (scrollTop < 200 && this.firstShown > 0 && scrollHeight > clientHeight) this.showEarlier();
  }

  private follow(): void {
    if (this.isFollowing) this.log.scrollTop = this.log.scrollHeight;
    this.look();
  }

  private look(): void {
    this.last = { top: this.log.scrollTop, height: this.log.scrollHeight };
    this.toEnd.hidden = this.isFollowing;
  }

  private goToEnd(): void {
    this.isFollowing = true;
    this.follow();
    this.composer.focus();
  }
}

function endingOf({ commands, error }: Exchange): string {
  if (error) return error;
  const [first] = commands;
  if (!first) return "The reply is complete.";
  const count =
    commands.length === 1
      ? "One command is suggested"
      : `${commands.length} commands are suggested`;
  return `The reply is complete. ${count}: ${first.text}, ${first.risk}.`;
}

new Chat();
