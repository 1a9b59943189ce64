/** Preformatted text that grows, in pieces of some lines: the browser lays only the last one out. */
import { ansi } from "./ansi";
import { h } from "./dom";

/** Characters of a piece. */
const PIECE = 4096;

/** Pieces that are shown; what is above them is cut off with a note. */
const MOST_PIECES = 400;

export class GrowingText {
  readonly element: HTMLElement;
  private text = "";
  private readonly paint = ansi();
  private piece: HTMLElement | undefined;
  private length = 0;
  private endsLine = true;

  constructor(private readonly kind: "code" | "output") {
    // What scrolls has to be within reach of the keyboard.
    this.element = h("pre", { class: `growing ${kind}`, tabindex: "0" });
    this.element.setAttribute("role", "region");
    this.element.setAttribute("aria-label", kind === "code" ? "Code" : "Output");
  }

  /** Show a text; where it begins with the one before only the rest of it is added. */
  update(text: string): void {
    if (text === this.text) return;
    if (!text.startsWith(this.text)) {
      this.element.replaceChildren();
      this.piece = undefined;
      this.paint.reset();
      this.text = "";
    }
    this.add(text.slice(this.text.length));
    this.text = text;
  }

  /** Show the text that is shown with colors; what comes then is added to it. */
  showColored(colored: DocumentFragment): void {
    this.piece = h("span", { class: "piece" }, colored);
    this.length = this.text.length;
    this.element.replaceChildren(this.piece);
    this.element.dispatchEvent(new Event("painted", { bubbles: true }));
  }

  private add(text: string): void {
    let rest = text;
    while (rest) {
      // A piece is drawn on lines of its own: one that begins within a line would break it.
      if (!this.piece || this.length > (this.endsLine ? PIECE : 4 * PIECE)) this.begin();
      // A piece ends where a line does, unless the line is very long.
      const end = rest.indexOf("\n", Math.max(0, PIECE - this.length));
      const cut = end < 0 || end > 2 * PIECE ? Math.min(rest.length, 2 * PIECE) : end + 1;
      this.addTo(rest.slice(0, cut));
      rest = rest.slice(cut);
    }
  }

  private begin(): void {
    this.piece = h("span", { class: "piece" });
    this.length = 0;
    this.element.append(this.piece);
    if (this.element.childElementCount > MOST_PIECES) this.element.firstElementChild?.remove();
  }

  private addTo(text: string): void {
    this.length += text.length;
    this.endsLine = text.endsWith("\n");
    if (this.kind === "output") {
      const piece = this.piece as HTMLElement;
      this.paint.add(piece, text);
      this.length = piece.textContent.length; // without what was written over
      return;
    }
    const last = this.piece?.lastChild;
    if (last instanceof Text) last.appendData(text);
    else this.piece?.append(text);
  }
}
