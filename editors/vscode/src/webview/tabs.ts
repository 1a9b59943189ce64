/** The chats that are open, as tabs that the arrow keys walk through and Delete closes. */
import type { FromWebview, Tab } from "../chat/messages";
import { h } from "./dom";
import { icon } from "./icons";

/** Where a key leads to from the tab at a place. */
const STEPS: Record<string, (at: number, count: number) => number> = {
  ArrowRight: (at, count) => (at + 1) % count,
  ArrowLeft: (at, count) => (at + count - 1) % count,
  Home: () => 0,
  End: (_at, count) => count - 1,
};

export class Tabs {
  readonly element = h("div", { class: "tabs", role: "tablist", "aria-label": "Chats" });

  constructor(private readonly post: (message: FromWebview) => void) {}

  show(tabs: readonly Tab[], active: string): void {
    const hadFocus = this.element.contains(document.activeElement);
    this.element.hidden = tabs.length < 2;
    this.element.replaceChildren(...tabs.map((tab, at) => this.tab(tab, at, tabs, active)));
    const shown = this.element.querySelector<HTMLElement>(".active");
    shown?.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (hadFocus) shown?.focus();
  }

  private tab(tab: Tab, at: number, tabs: readonly Tab[], active: string): HTMLElement {
    const { session, title, folder, isBusy } = tab;
    const isActive = session === active;
    const name = `${folder ? `${folder}: ` : ""}${title}`;
    const show = (one: Tab | undefined): void => {
      if (one && one.session !== active) this.post({ kind: "show", session: one.session });
    };
    const close = (): void => this.post({ kind: "close", session });
    const made = h(
      "div",
      {
        class: `tab${isActive ? " active" : ""}`,
        role: "tab",
        tabindex: isActive ? "0" : "-1",
        title: name,
        "aria-selected": String(isActive),
        "aria-label": `${name}${isBusy ? ", working" : ""}`,
        "aria-keyshortcuts": "Delete",
        onclick: () => show(tab),
      },
      isBusy ? h("span", { class: "busy" }) : null,
      h("span", { class: "tab-name" }, name),
      // A tab has no buttons in it for who cannot see it: there the key closes it.
      h("span", { class: "tab-close", title: "Close", "aria-hidden": "true" }, icon("close")),
    );
    made.querySelector(".tab-close")?.addEventListener("click", (event) => {
      event.stopPropagation();
      close();
    });
    made.addEventListener("auxclick", (event) => {
      if (event.button === 1) close();
    });
    made.addEventListener("keydown", (event) => {
      const step = STEPS[event.key];
      if (step) show(tabs[step(at, tabs.length)]);
      else if (event.key === "Enter" || event.key === " ") show(tab);
      else if (event.key === "Delete") close();
      else return;
      event.preventDefault();
    });
    return made;
  }
}
