/**
 * The questions that wait for an answer: each in the row that waits for it, or, if it has none or
 * could lose something, above the box for the next message, where nothing scrolls it away.
 */
import type { FromWebview, Question } from "../chat/messages";
import { button, h } from "./dom";

export class QuestionViews {
  /** Where those are that have no row, or that could lose something. */
  readonly element = h("div", { class: "questions", hidden: true });
  private questions: Question[] = [];
  private readonly shown = new Map<string, HTMLElement>();

  constructor(
    private readonly log: HTMLElement,
    private readonly post: (message: FromWebview) => void,
  ) {}

  /** Show these; return what to say of the new ones. */
  show(questions: readonly Question[], session: string): string {
    this.questions = questions.filter((one) => !one.session || one.session === session);
    const ids = new Set(this.questions.map(({ id }) => id));
    for (const [id, element] of this.shown) {
      if (ids.has(id)) continue;
      const hadFocus = element.contains(document.activeElement);
      element.remove();
      this.shown.delete(id);
      if (hadFocus) document.querySelector<HTMLElement>(".composer textarea")?.focus();
    }
    const fresh = this.questions.filter(({ id }) => !this.shown.has(id));
    this.place();
    return fresh.map(({ title }) => `aish asks: ${title}`).join(" ");
  }

  /** Put each into its row, which may have come, or been made again, since it was asked. */
  place(): void {
    const fresh: [Question, HTMLElement][] = [];
    for (const question of this.questions) {
      const row = question.isDangerous ? null : this.row(question.row);
      let element = this.shown.get(question.id);
      if (!element) {
        element = this.made(question);
        this.shown.set(question.id, element);
        fresh.push([question, element]);
      }
      const isCard = row?.classList.contains("card") ?? false;
      element.classList.toggle("docked", !row);
      if (!row) {
        if (element.parentElement !== this.element) this.element.append(element);
      } else if (isCard) {
        if (element.parentElement !== row) row.append(element);
      } else if (element.previousElementSibling !== row) row.after(element);
    }
    this.element.hidden = !this.element.childElementCount;
    // What is hidden takes no focus.
    for (const [question, element] of fresh) this.reveal(question, element);
  }

  private row(id: string): HTMLElement | null {
    const rows = this.log.querySelectorAll<HTMLElement>("[data-command], [data-call]");
    const isIts = ({ dataset }: HTMLElement): boolean =>
      dataset["command"] === id || dataset["call"] === id;
    return (id && [...rows].findLast(isIts)) || null;
  }

  /** Bring it into sight. A dialog takes the focus, unless the user is typing. */
  private reveal({ isDangerous }: Question, element: HTMLElement): void {
    element.scrollIntoView({ block: "nearest" });
    const typing = document.activeElement;
    if (!isDangerous || (typing instanceof HTMLTextAreaElement && typing.value)) return;
    element.querySelector<HTMLElement>(".no")?.focus();
  }

  private made(question: Question): HTMLElement {
    const { id, title, code, lines, notes, isDangerous } = question;
    const heading = h("p", { class: "question-title", id: `${id}-title` }, ...words(title));
    const element = h(
      "section",
      {
        class: `question${isDangerous ? " dangerous" : ""}`,
        role: isDangerous ? "alertdialog" : "group",
        "aria-labelledby": `${id}-title`,
      },
      heading,
      code && h("pre", { class: "command", ...region("Command") }, code),
      lines.length > 0 && diff(lines),
      ...prose(notes),
      this.buttons(question),
    );
    element.dataset["question"] = id;
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.post({ kind: "answer", id, button: 0 });
    });
    return element;
  }

  private buttons({ id, buttons, lines, isDangerous }: Question): HTMLElement {
    const made = buttons.map(({ label, title }, number) => {
      const yes = isDangerous ? "danger" : "primary";
      const kind = number === 0 ? "no" : number === 1 ? yes : "";
      const answer = (): void => this.post({ kind: "answer", id, button: number });
      return button(label, answer, { class: kind, ...(title ? { title } : {}) });
    });
    // The one that does nothing stands beside the plain yes.
    const [no, yes, ...more] = made;
    const open = (): void => this.post({ kind: "openDiff", id });
    return h(
      "div",
      { class: "buttons" },
      yes,
      no,
      ...more,
      lines.length > 0 && button("Open the diff", open, { class: "quiet" }),
    );
  }
}

/** Return the attributes of a scrolling part that the keyboard reaches. */
function region(label: string): Record<string, string> {
  return { tabindex: "0", role: "region", "aria-label": label };
}

/** Return the lines of a change, in the colours of a diff. */
export function diff(lines: readonly string[]): HTMLElement {
  const kinds: Record<string, string> = { "+": "added", "-": "removed", ".": "left-out" };
  const rows = lines.map((line) =>
    h("span", { class: kinds[line.charAt(0)] ?? "same" }, `${line}\n`),
  );
  return h("pre", { class: "change", ...region("Change") }, ...rows);
}

/** Return paragraphs; one that is indented is code. */
function prose(text: string): HTMLElement[] {
  return text
    .split(/\n{2,}/)
    .filter((paragraph) => paragraph.trim())
    .map((paragraph) => {
      const lines = paragraph.split("\n");
      if (lines.every((line) => line.startsWith("- "))) {
        const items = lines.map((line) => h("li", {}, ...words(line.slice(2))));
        return h("ul", { class: "question-note" }, ...items);
      }
      return lines.every((line) => line.startsWith("    "))
        ? h(
            "pre",
            { class: "command", ...region("What it is about") },
            lines.map((line) => line.slice(4)).join("\n"),
          )
        : h("p", { class: "question-note" }, ...words(paragraph));
    });
}

/** Return a text with what is between backticks as code. */
function words(text: string): (HTMLElement | string)[] {
  return text
    .split(/`([^`\n]+)`/)
    .map((part, at) => (at % 2 ? h("code", {}, part) : part))
    .filter(Boolean);
}
