/** A suggested command: its risk and reasons, what can be done with it, and what came of it. */
import { type Run, STOPPED } from "../chat/model";
import type { CommandInfo } from "../protocol";
import { visible } from "../text";
import { button, h } from "./dom";
import { GrowingText } from "./growing_text";
import { iconButton } from "./icons";

export interface CardActions {
  run: (command: CommandInfo, edited: string | null) => void;
  terminal: (command: CommandInfo) => void;
  copy: (text: string) => void;
  dismiss: (command: CommandInfo) => void;
  stop: (command: CommandInfo) => void;
  mentionTerminal: () => void;
  ask: (question: string) => void;
  open: (uri: string) => void;
}

const RISKS: Record<CommandInfo["risk"], string> = {
  safe: "only reads",
  caution: "may change something",
  destructive: "could lose something",
};

export class Card {
  readonly element: HTMLElement;
  private readonly body = h("div", { class: "card-body" });
  private readonly below = h("div", { class: "card-run" });
  private output: GrowingText | undefined;
  private isEditing = false;
  private isRunning = false;
  private hasRun = false;
  private edited = "";
  /** What was shown last of how it goes. */
  private shown = "";

  constructor(
    private readonly command: CommandInfo,
    private readonly actions: CardActions,
    private readonly isJudged = true,
  ) {
    this.element = h("section", { class: "card" }, this.body, this.below);
    this.element.dataset["command"] = command.id;
    this.show();
  }

  private get needsEditing(): boolean {
    return this.command.placeholders.some((gap) => this.text.includes(gap));
  }

  /** What is shown is what is copied, edited and run. */
  private get text(): string {
    return this.edited || this.command.text;
  }

  private show(): void {
    const { text } = this;
    const { risk, reasons } = this.command;
    const asks = risk === "destructive" ? " · you are asked first" : "";
    const why = (reasons.join("; ") || RISKS[risk]) + asks;
    const known = this.edited ? "caution" : risk;
    for (const one of Object.keys(RISKS)) this.element.classList.toggle(one, one === known);
    this.element.setAttribute("aria-label", `Command: ${visible(text)}`);
    this.body.replaceChildren(
      h(
        "pre",
        { class: "command", tabindex: "0", role: "region", "aria-label": "Command" },
        visible(text),
      ),
      iconButton("close", "Dismiss", () => this.actions.dismiss(this.command), {
        class: "dismiss",
      }),
      !this.isJudged || this.edited
        ? ""
        : h("p", { class: "risk" }, h("span", { class: "risk-name" }, risk), ` ${visible(why)}`),
      this.isRunning ? this.stopButton() : this.buttons(),
    );
  }

  private stopButton(): HTMLElement {
    return h(
      "div",
      { class: "buttons" },
      button("Stop", () => this.actions.stop(this.command)),
    );
  }

  private buttons(): HTMLElement {
    const { command, actions } = this;
    const run = this.needsEditing
      ? button("Fill in and run", () => this.edit(), { class: "primary" })
      : button(this.hasRun ? "Run again" : "Run", () => actions.run(command, null), {
          class: command.risk === "destructive" && !this.edited ? "danger" : "primary",
        });
    return h(
      "div",
      { class: "buttons" },
      run,
      this.needsEditing ? null : iconButton("edit", "Edit", () => this.edit()),
      iconButton("copy", "Copy", () => actions.copy(this.text)),
      this.needsEditing
        ? null
        : iconButton("terminal", "To terminal", () => actions.terminal(command)),
    );
  }

  private edit(): void {
    if (this.isEditing) return;
    this.isEditing = true;
    const box = h("textarea", { "aria-label": "Edit the command", spellcheck: "false" });
    box.value = this.text;
    const done = (): void => {
      this.isEditing = false;
      this.show();
    };
    const run = (): void => {
      const edited = box.value.trim();
      if (!edited) return;
      done();
      this.actions.run(this.command, edited);
    };
    box.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Escape") done();
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
    });
    const buttons = h(
      "div",
      { class: "buttons" },
      button("Run", run, { class: "primary" }),
      button("Cancel", done),
    );
    this.body.replaceChildren(box, buttons);
    box.focus();
    const gap = /<[^>\n]+>|YOUR_\w+|\.\.\./.exec(box.value);
    if (gap) box.setSelectionRange(gap.index, gap.index + gap[0].length);
  }

  /** Show what came of it so far; what is as it was keeps the focus, and is not read aloud again. */
  update(run: Run): void {
    if (run.output && !this.output) {
      this.output = new GrowingText("output");
      this.below.prepend(this.output.element);
    }
    if (this.output) {
      const { element } = this.output;
      const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
      this.output.update(run.output);
      if (isAtEnd) element.scrollTop = element.scrollHeight;
    }
    const shown = JSON.stringify({ ...run, output: "" });
    if (shown === this.shown) return;
    this.shown = shown;
    this.below.querySelector(".ended")?.remove();
    this.edited = run.edited;
    this.below.append(this.ending(run));
    this.isRunning = run.state === "running";
    this.hasRun = run.state === "ended" && !run.inTerminal;
    this.element.classList.toggle("running", this.isRunning);
    if (!this.isEditing) this.show();
  }

  private ask(what: string, run: Run): void {
    const { text } = this;
    const failed = text.includes("\n") ? `this failed:\n\n${text}` : `\`${text}\` failed.`;
    this.actions.ask(`${run.inTerminal ? "@terminal " : ""}${what} ${failed}`);
  }

  private ending(run: Run): HTMLElement {
    const endedBadly = run.state === "denied" || (run.exitCode ?? 0) !== 0 || run.signal !== null;
    const failed = endedBadly && run.note !== STOPPED;
    const made = h("p", { class: `ended${failed ? " failed" : ""}`, role: "status" }, endOf(run));
    const { outputUri } = run;
    const add = (text: string, action: () => void): void =>
      made.append(" ", button(text, action, { class: "quiet" }));
    if (outputUri) add("All of the output", () => this.actions.open(outputUri));
    // What runs in a terminal is the user's own: it goes along only where they say so.
    if (run.state === "ended" && failed) {
      add("Explain", () => this.ask("Explain why", run));
      add("Fix", () => this.ask("Suggest what to run instead, as", run));
    }
    if (run.inTerminal && run.exitCode !== null) add("Ask about it", this.actions.mentionTerminal);
    return made;
  }
}

/** Return how a command ended, in words. */
export function endOf(run: Run): string {
  if (run.isAsking && run.state === "running") return "waits for your answer …";
  if (run.state === "running") return run.inTerminal ? "runs in the terminal …" : "runs …";
  const parts: string[] = [];
  if (run.signal && run.note !== STOPPED) parts.push(`ended by ${run.signal}`);
  else if (run.exitCode !== null) parts.push(`exit ${run.exitCode}`);
  if (run.durationMs >= 1000) parts.push(`${(run.durationMs / 1000).toFixed(1)} s`);
  else if (run.durationMs) parts.push(`${run.durationMs} ms`);
  if (run.note) parts.push(visible(run.note));
  return parts.join(" · ") || "ended";
}
