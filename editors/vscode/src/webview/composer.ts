/** The box for the next message: keys, completion, what was typed before. */
import type { Proposal, Status } from "../chat/messages";
import type { FromWebview } from "../chat/messages";
import { dollars, percent, short } from "../text";
import { button, h } from "./dom";

export class Composer {
  readonly element: HTMLElement;
  readonly box = h("textarea", {
    rows: "2",
    "aria-label": "Message",
    placeholder: "Ask, or : for a command, @ for a file",
    role: "combobox",
    "aria-autocomplete": "list",
    "aria-expanded": "false",
    "aria-controls": "proposals",
  });
  private readonly list = h("ul", {
    id: "proposals",
    role: "listbox",
    "aria-label": "Proposals",
    hidden: true,
  });
  private readonly sendButton: HTMLButtonElement;
  private readonly stopButton: HTMLButtonElement;
  private readonly status = h("div", { class: "status" });
  private proposals: Proposal[] = [];
  private chosen = 0;
  private number = 0;
  private history: string[] = [];
  private at = 0;
  sendWith = "enter";

  constructor(
    private readonly post: (message: FromWebview) => void,
    private readonly actions: {
      send: (text: string) => void;
      stop: () => void;
      changed: (draft: string) => void;
    },
  ) {
    this.sendButton = button("Send", () => this.send(), { class: "primary" });
    this.stopButton = button("Stop", () => actions.stop(), { hidden: true });
    const attach = button("@", () => post({ kind: "attach" }), {
      class: "quiet",
      title: "Attach what is open or selected in the editor",
      "aria-label": "Attach what is open or selected in the editor",
    });
    this.element = h(
      "div",
      { class: "composer" },
      this.list,
      this.box,
      h("div", { class: "row" }, attach, this.status, this.stopButton, this.sendButton),
    );
    this.box.addEventListener("input", () => this.changed());
    this.box.addEventListener("keydown", (event) => this.pressed(event));
    this.box.addEventListener("blur", () => this.hide());
  }

  get text(): string {
    return this.box.value;
  }

  set text(text: string) {
    this.box.value = text;
    this.fit();
  }

  /** Put a text in at the cursor, or in the place of all that is there. */
  insert(text: string, replaces: boolean): void {
    const { value, selectionEnd } = this.box;
    if (replaces || !value) this.box.value = text;
    else {
      const space = selectionEnd > 0 && !/\s$/.test(value.slice(0, selectionEnd)) ? " " : "";
      this.box.value = value.slice(0, selectionEnd) + space + text + value.slice(selectionEnd);
    }
    this.fit();
    this.actions.changed(this.box.value);
    this.box.focus();
  }

  setBusy(isBusy: boolean): void {
    this.stopButton.hidden = !isBusy;
  }

  setHistory(history: string[]): void {
    this.history = history;
    this.at = history.length;
  }

  showStatus(status: Status | null): void {
    if (!status) return;
    const full = percent(status.total, status.budget);
    const spent = dollars(status.cost);
    const model = button(status.model, () => this.post({ kind: "model" }), {
      class: "quiet model",
      title: "Choose the model",
    });
    const context = button(
      `${full}%${spent ? ` ${spent}` : ""}`,
      () => this.post({ kind: "context" }),
      {
        class: "quiet",
        title: `${short(status.total)} of ${short(status.budget)} tokens: show the context`,
        "aria-label": `Context ${full}% used${spent ? `, ${spent}` : ""}: show it`,
      },
    );
    this.status.replaceChildren(model, context);
  }

  private send(): void {
    const text = this.box.value;
    if (!text.trim()) return;
    this.history.push(text.trim());
    this.at = this.history.length;
    this.text = "";
    this.hide();
    this.actions.changed("");
    this.actions.send(text);
  }

  private changed(): void {
    this.fit();
    this.actions.changed(this.box.value);
    const prefix = this.prefix();
    if (/^:|(?:^|\s)@\S*$/.test(prefix)) {
      this.post({ kind: "complete", number: ++this.number, prefix });
    } else {
      // What was asked for before comes too late.
      this.number += 1;
      this.hide();
    }
  }

  /** Return the line up to the cursor. */
  private prefix(): string {
    const before = this.box.value.slice(0, this.box.selectionStart);
    return before.slice(before.lastIndexOf("\n") + 1);
  }

  private fit(): void {
    const lines = Math.min(10, Math.max(2, this.box.value.split("\n").length));
    this.box.rows = lines;
  }

  private pressed(event: KeyboardEvent): void {
    if (!this.list.hidden && this.pressedInList(event)) {
      event.preventDefault();
      return;
    }
    if (event.key === "Enter" && !event.isComposing && !event.shiftKey) {
      const isControl = event.ctrlKey || event.metaKey;
      if (isControl || this.sendWith === "enter") {
        event.preventDefault();
        this.send();
      }
    } else if (event.key === "Escape") {
      this.actions.stop();
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      this.recall(event);
    }
  }

  private pressedInList(event: KeyboardEvent): boolean {
    const count = this.proposals.length;
    switch (event.key) {
      case "ArrowDown":
        this.choose((this.chosen + 1) % count);
        return true;
      case "ArrowUp":
        this.choose((this.chosen + count - 1) % count);
        return true;
      case "Tab":
        this.accept(this.chosen);
        return true;
      case "Enter": {
        // What is typed in full already is sent.
        const proposal = this.proposals[this.chosen];
        if (!proposal || this.prefix().slice(proposal.start) === proposal.insert.trimEnd())
          return false;
        this.accept(this.chosen);
        return true;
      }
      case "Escape":
        this.hide();
        return true;
      default:
        return false;
    }
  }

  /** Go through what was sent before, from a box that holds nothing else. */
  private recall(event: KeyboardEvent): void {
    const isRecalled = this.history[this.at] === this.box.value;
    if (this.box.value && !isRecalled) return;
    const next = this.at + (event.key === "ArrowUp" ? -1 : 1);
    if (next < 0 || next > this.history.length) return;
    event.preventDefault();
    this.at = next;
    this.text = this.history[next] ?? "";
  }

  showProposals(number: number, items: Proposal[]): void {
    if (number !== this.number || document.activeElement !== this.box) return;
    this.proposals = items.slice(0, 50);
    if (!items.length) {
      this.hide();
      return;
    }
    this.list.replaceChildren(
      ...this.proposals.map((item, at) =>
        h(
          "li",
          { role: "option", id: `proposal-${at}`, onmousedown: (event) => this.clicked(event, at) },
          h("span", {}, item.label),
          item.detail ? h("span", { class: "note" }, ` ${item.detail}`) : null,
        ),
      ),
    );
    this.list.hidden = false;
    this.box.setAttribute("aria-expanded", "true");
    this.choose(0);
  }

  private clicked(event: Event, at: number): void {
    event.preventDefault();
    this.accept(at);
  }

  private choose(at: number): void {
    this.chosen = at;
    [...this.list.children].forEach((item, number) =>
      item.setAttribute("aria-selected", String(number === at)),
    );
    this.box.setAttribute("aria-activedescendant", `proposal-${at}`);
    this.list.children[at]?.scrollIntoView({ block: "nearest" });
  }

  private accept(at: number): void {
    const proposal = this.proposals[at];
    if (!proposal) return;
    const end = this.box.selectionStart;
    const start = end - this.prefix().length + proposal.start;
    this.box.setRangeText(proposal.insert, start, end, "end");
    this.hide();
    this.changed();
  }

  private hide(): void {
    this.list.hidden = true;
    this.box.setAttribute("aria-expanded", "false");
    this.box.removeAttribute("aria-activedescendant");
  }
}
