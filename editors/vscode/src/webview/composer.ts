/** The box for the next message: keys, completion, what was typed before. */
import type { Proposal, Status } from "../chat/messages";
import type { FromWebview } from "../chat/messages";
import { dollars, percent, short } from "../text";
import { button, h } from "./dom";
import { icon, iconButton } from "./icons";

export class Composer {
  readonly element: HTMLElement;
  readonly box = h("textarea", {
    rows: "1",
    "aria-label": "Message",
    placeholder: "Ask, : for commands, @ to attach",
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
    this.stopButton = iconButton("stop", "Stop", () => actions.stop(), { hidden: true });
    const bar = h(
      "div",
      { class: "toolbar" },
      iconButton("add", "Attach a file, the selection, problems or the terminal", () =>
        this.propose("@"),
      ),
      this.status,
      this.stopButton,
      iconButton("send", "Send", () => this.send(), { class: "send" }),
    );
    this.element = h(
      "div",
      { class: "composer" },
      this.list,
      h("div", { class: "input" }, this.box, bar),
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
  }

  /** Put a text in at the cursor, or in the place of all that is there. */
  insert(text: string, replaces: boolean): void {
    const { value, selectionEnd } = this.box;
    if (replaces) this.box.value = text;
    else {
      const space = selectionEnd > 0 && !/\s$/.test(value.slice(0, selectionEnd)) ? " " : "";
      this.box.setRangeText(space + text, selectionEnd, selectionEnd, "end");
    }
    this.actions.changed(this.box.value);
    this.focus();
  }

  focus(): void {
    this.box.focus();
  }

  /** Type a sign for the user that something can follow, and show what. */
  private propose(sign: string): void {
    this.insert(sign, false);
    this.changed();
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
    const context = button(spent, () => this.post({ kind: "context" }), {
      class: "quiet used",
      title: `Context: ${full}% used, ${short(status.total)} of ${short(status.budget)} tokens`,
      "aria-label": `Context ${full}% used${spent ? `, ${spent}` : ""}: show it`,
    });
    context.prepend(ring(full));
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
    this.focus();
  }

  private changed(): void {
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

  private pressed(event: KeyboardEvent): void {
    // What an input method is composing with has these keys for itself.
    if (event.isComposing) return;
    if (!this.list.hidden && this.pressedInList(event)) {
      event.preventDefault();
      return;
    }
    if (event.key === "Enter" && !event.shiftKey) {
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
          icon(item.kind),
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

/** Return a ring that is as full as the context is. */
function ring(full: number): HTMLElement {
  const made = h("span", { class: "icon ring", "aria-hidden": "true" });
  const circle = `cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="2"`;
  made.innerHTML = `<svg width="16" height="16" viewBox="0 0 16 16">
    <circle ${circle} opacity="0.3"/>
    <circle ${circle} pathLength="100" stroke-dasharray="${full} 100" transform="rotate(-90 8 8)"/>
  </svg>`;
  return made;
}
