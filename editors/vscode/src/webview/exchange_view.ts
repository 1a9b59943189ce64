/** A question with its reply, as elements that follow the events. */
import type { FromWebview } from "../chat/messages";
import {
  type Exchange,
  fold,
  isJudged,
  lacksModel,
  newRun,
  type Part,
  replyText,
  type Run,
} from "../chat/model";
import type { Event as ServerEvent } from "../protocol";
import { dollars, inVsCode, short, visible } from "../text";
import { Card } from "./card";
import { button, h } from "./dom";
import { otherPart } from "./exchange_parts";
import { FileLinks } from "./file_links";
import { icon, iconButton } from "./icons";
import { type Block, markdown, MarkdownView } from "./markdown";

export type Post = (message: FromWebview) => void;

type PartView =
  | { kind: "text"; view: MarkdownView }
  | { kind: "reasoning"; element: HTMLElement; body: HTMLElement }
  | { kind: "other"; element: HTMLElement; shown: string };

export class ExchangeView {
  readonly element = h("article", { class: "exchange" });
  private readonly you = h("div", { class: "you" });
  private readonly reply = h("div", { class: "reply" });
  private readonly rest = h("div", { class: "rest" });
  private readonly foot = h("footer", { class: "foot" });
  private readonly parts: PartView[] = [];
  private readonly cards = new Map<string, Card>();
  private readonly links = new FileLinks(this.element, (targets) =>
    this.post({ kind: "findFiles", session: this.session, key: this.exchange.key, targets }),
  );

  constructor(
    private exchange: Exchange,
    private readonly session: string,
    private readonly post: Post,
  ) {
    this.element.dataset["key"] = exchange.key;
    this.element.append(this.you, this.reply, this.rest, this.foot);
    this.showQuestion();
    this.sync();
  }

  get isBusy(): boolean {
    return this.exchange.state !== "ended";
  }

  /** The exchange, if it is a goal that is being pursued. */
  get goal(): Exchange | undefined {
    return this.exchange.isGoal && this.isBusy ? this.exchange : undefined;
  }

  /** Take the extension's word for all of it. */
  replace(exchange: Exchange): void {
    const before = this.exchange;
    this.exchange = exchange;
    if (replyText(before) !== replyText(exchange) || before.parts.length > exchange.parts.length) {
      for (const part of this.parts.splice(0)) elementOf(part).remove();
    }
    this.showQuestion();
    this.sync();
  }

  take(events: readonly ServerEvent[]): void {
    for (const event of events) fold(this.exchange, event);
    this.sync();
  }

  /** Show how a command goes on, whose output has come before. */
  takeRun(commandId: string, run: Run): void {
    this.exchange.runs[commandId] = run;
    this.sync();
  }

  showFiles(found: readonly string[]): void {
    this.links.show(found);
  }

  drop(commandId: string): void {
    this.exchange.commands = this.exchange.commands.filter((command) => command.id !== commandId);
    this.cards.get(commandId)?.element.remove();
    this.cards.delete(commandId);
    this.hideRepeats();
  }

  // The question

  private showQuestion(): void {
    const { prompt, key, isPast, isGoal, state } = this.exchange;
    const isLine = prompt.startsWith(":");
    this.element.classList.toggle("past", isPast);
    // A question shows by its place whose it is.
    const heading = h("h2", { class: isGoal ? "who" : "spoken" }, isGoal ? "Goal" : "You");
    const tools = h("div", { class: "question-tools" });
    if (state === "ended" && !isLine && !isGoal) {
      const again = iconButton("refresh", "Ask again", () => this.send({ kind: "retry", key }));
      const edit = iconButton("edit", "Edit", () => this.editQuestion());
      tools.append(edit, again);
    }
    const text = h("div", { class: "prompt" }, visible(prompt));
    this.you.replaceChildren(heading, tools, text);
    if (isPast) text.append(h("span", { class: "note" }, " (no longer sent to the model)"));
  }

  private editQuestion(): void {
    const { prompt, key } = this.exchange;
    const box = h("textarea", { "aria-label": "Edit the question" });
    box.value = prompt;
    const done = (): void => this.showQuestion();
    const ask = (): void => {
      const text = box.value.trim();
      done();
      if (text) this.send({ kind: "edit", key, text });
    };
    box.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Escape") done();
      if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        ask();
      }
    });
    this.you.replaceChildren(
      box,
      h(
        "div",
        { class: "buttons" },
        button("Ask in a new chat", ask, { class: "primary" }),
        button("Cancel", done),
      ),
    );
    box.focus();
  }

  private send(
    message:
      | { kind: "retry"; key: string; choosesModel?: boolean }
      | { kind: "edit"; key: string; text: string },
  ): void {
    this.post({ ...message, session: this.session });
  }

  // The reply

  private sync(): void {
    const { parts } = this.exchange;
    parts.forEach((part, at) => this.syncPart(part, at));
    this.syncCards();
    this.syncFoot();
    if (!this.isBusy) this.links.update();
  }

  private syncPart(part: Part, at: number): void {
    let view = this.parts[at];
    if (!view) {
      view = this.made(part);
      this.parts.push(view);
      this.reply.append(elementOf(view));
    }
    if (part.kind === "text" && view.kind === "text")
      view.view.update(part.text, this.exchange.commands);
    else if (part.kind === "reasoning" && view.kind === "reasoning") {
      if (view.body.textContent !== part.text) view.body.textContent = part.text;
    } else if (view.kind === "other") {
      const shown = JSON.stringify(part);
      if (shown === view.shown) return;
      const element = otherPart(part);
      // What the user has opened stays open.
      element.toggleAttribute("open", view.element.hasAttribute("open"));
      view.element.replaceWith(element);
      Object.assign(view, { element, shown });
    }
  }

  private made(part: Part): PartView {
    if (part.kind === "text") {
      const onCode = (block: Block): HTMLElement[] => this.codeButtons(block);
      return { kind: "text", view: new MarkdownView(part.firstLine, onCode) };
    }
    if (part.kind === "reasoning") {
      const body = h("div", { class: "reasoning-body" });
      const element = h("details", { class: "reasoning" }, h("summary", {}, "Reasoning"), body);
      return { kind: "reasoning", element, body };
    }
    return { kind: "other", element: otherPart(part), shown: JSON.stringify(part) };
  }

  private codeButtons(block: Block): HTMLElement[] {
    const copy = iconButton("copy", "Copy", () =>
      this.post({ kind: "copy", text: codeOf(block.element) }),
    );
    if (!this.exchange.replaces) return [copy];
    const replace = (): void => {
      const { key } = this.exchange;
      this.post({ kind: "replace", session: this.session, key, block: block.number });
    };
    return [button("Replace selection", replace, { class: "quiet replace" }), copy];
  }

  private syncCards(): void {
    for (const command of this.exchange.commands) {
      let card = this.cards.get(command.id);
      if (!card) {
        card = new Card(command, this.actions(), isJudged(this.exchange, command));
        this.cards.set(command.id, card);
      }
      this.place(command.line, command.source, card.element);
      const run = this.exchange.runs[command.id];
      if (run) card.update(run);
    }
    for (const [id, run] of Object.entries(this.exchange.runs)) {
      if (!this.exchange.commands.some((command) => command.id === id)) this.showUnasked(id, run);
    }
    this.hideRepeats();
  }

  /** Hide the blocks that say once more what a card says, with buttons, beside them. */
  private hideRepeats(): void {
    const { commands, replaces, state } = this.exchange;
    if (state !== "ended" || replaces) return;
    const said = new Set(commands.map(({ text }) => text.trim()));
    for (const { element, type } of this.blocks.flatMap((one) => [one, ...one.inner])) {
      if (type !== "code") continue;
      const isRepeat = !element.querySelector(".card") && said.has(codeOf(element).trim());
      element.classList.toggle("repeat", isRepeat);
    }
  }

  private get blocks(): Block[] {
    return this.parts.flatMap((part) => (part.kind === "text" ? part.view.blocks : []));
  }

  /** Show the output of what was run without being suggested: by a tool. */
  private showUnasked(id: string, run: Run): void {
    let card = this.cards.get(id);
    if (!card) {
      const made = { text: "", line: 0, endLine: 0, placeholders: [], reasons: [] };
      card = new Card({ ...made, id: `past ${id}`, source: "cmd", risk: "safe" }, this.actions());
      card.element.classList.add("bare");
      this.cards.set(id, card);
      this.rest.append(card.element);
    }
    card.update(run);
  }

  /** Put a card where its command stands in the reply. */
  private place(line: number, source: string, card: HTMLElement): void {
    const isAt = ({ first, last }: Block): boolean => first <= line && line <= last;
    const outer = this.blocks.find(isAt);
    const block = outer?.inner.find(isAt) ?? outer;
    if (!block) {
      if (card.parentElement !== this.rest) this.rest.append(card);
      return;
    }
    const takesPlace = block.type === "suggestion" || (block.type === "code" && source === "fence");
    if (takesPlace) block.element.classList.add("replaced");
    if (block.element !== card.parentElement) block.element.append(card);
  }

  private actions(): ConstructorParameters<typeof Card>[1] {
    const { session, post } = this;
    const key = (): string => this.exchange.key;
    return {
      run: (command, edited) => {
        this.exchange.runs[command.id] ??= newRun();
        post({ kind: "run", session, key: key(), commandId: command.id, edited });
      },
      terminal: ({ id }) => post({ kind: "terminal", session, key: key(), commandId: id }),
      copy: (text) => post({ kind: "copy", text }),
      dismiss: ({ id }) => post({ kind: "dismiss", session, key: key(), commandId: id }),
      stop: ({ id }) => post({ kind: "stop", session, key: `${key()} ${id}` }),
      mentionTerminal: () => post({ kind: "mentionTerminal" }),
      ask: (text) => post({ kind: "send", session, text }),
      open: (href) => post({ kind: "link", href }),
    };
  }

  private undo(): void {
    this.post({ kind: "undo", session: this.session, key: this.exchange.key });
  }

  private copyReply(): void {
    this.post({ kind: "copy", text: replyText(this.exchange).trim() });
  }

  /** Return what went wrong, with what can be done about it while that still counts. */
  private callout(): HTMLElement {
    const { error, errorKind, key, isGoal, isPast } = this.exchange;
    const retry = (choosesModel: boolean): void => this.send({ kind: "retry", key, choosesModel });
    const isModels = lacksModel(errorKind);
    const settings = isModels ? "editModels" : "openSettings";
    const buttons = h(
      "div",
      { class: "buttons" },
      isGoal ? null : button("Retry", () => retry(false), { class: "primary" }),
      isGoal ? null : button("Another model", () => retry(true)),
      isModels && button("Connect a model…", () => this.act("connectModel")),
      button("Settings", () => this.act(settings)),
    );
    const message = h("div", { class: "error" }, icon("problems"), markdown(inVsCode(error)));
    return h("div", { class: "callout", role: "alert" }, message, isPast ? null : buttons);
  }

  private act(action: string): void {
    this.post({ kind: "action", action });
  }

  private syncFoot(): void {
    const { exchange } = this;
    const shown: (HTMLElement | string)[] = [];
    if (exchange.state !== "ended") {
      const text = exchange.state === "waiting" ? "Queued …" : "Answering …";
      shown.push(h("span", { class: "busy" }, exchange.isGoal ? "Working …" : text));
    } else if (exchange.error) {
      shown.push(this.callout());
    }
    const ending = ENDINGS[exchange.finishReason ?? ""];
    if (ending && exchange.state === "ended" && !exchange.error)
      shown.push(h("span", { class: "note" }, ending));
    if (exchange.state === "ended" && exchange.model)
      shown.push(h("span", { class: "note" }, usageOf(exchange)));
    // Before what is wide: in a narrow view that goes to a row of its own.
    if (exchange.state === "ended" && replyText(exchange).trim())
      shown.push(iconButton("copy", "Copy the reply", () => this.copyReply()));
    if (exchange.state === "ended" && exchange.model === "offline")
      shown.push(button("Connect a model", () => this.act("connectModel"), { class: "quiet" }));
    for (const { kind, path, first, last, cut } of exchange.attached) {
      const lines = first ? `:${first}-${last}` : "";
      shown.push(
        h("span", { class: "chip" }, `${visible(path || kind)}${lines}${cut ? " (cut)" : ""}`),
      );
    }
    if (exchange.state === "ended" && exchange.canUndo)
      shown.push(button("Undo its changes", () => this.undo(), { class: "quiet" }));
    const text = shown.map((one) => (typeof one === "string" ? one : one.outerHTML)).join("");
    if (this.foot.dataset["shown"] === text) return;
    this.foot.dataset["shown"] = text;
    this.foot.replaceChildren(...shown);
  }
}

function codeOf(block: HTMLElement): string {
  return block.querySelector(".growing")?.textContent ?? "";
}

/** How a reply ended; a goal's end has a notice. */
const ENDINGS: Record<string, string> = {
  cancelled: "stopped",
  length: "cut off: the reply was as long as it may be",
  timeout: "cut off: it took too long",
  repetition: "ended: it began to repeat itself",
  refusal: "the model refused",
};

function usageOf({ model, usage }: Exchange): string {
  if (!usage) return model;
  const cost = dollars(usage.cost);
  const tokens = `${short(usage.inputTokens)} in, ${short(usage.outputTokens)} out`;
  return [model, tokens, cost].filter(Boolean).join(" · ");
}

function elementOf(view: PartView): HTMLElement {
  return view.kind === "text" ? view.view.element : view.element;
}
