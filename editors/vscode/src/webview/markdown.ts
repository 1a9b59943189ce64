/**
 * A reply's Markdown as it grows: what is complete is rendered once, the rest again each time.
 *
 * A model's text is nobody's to trust: HTML in it is shown as text, an image as a link, and what is
 * made of the rest goes through a sanitizer that lets only what is listed through.
 */
import DOMPurify from "dompurify";
import { Marked, type Token, type Tokens } from "marked";
import { isolated } from "../text";
import { h } from "./dom";
import { GrowingText } from "./growing_text";

/** Characters of one paragraph or list above which it is shown as plain text. */
const MOST_FORMATTED = 64 * 1024;

const ALLOWED = {
  ALLOWED_TAGS: [
    ...["a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr"],
    ...[
      "input",
      "li",
      "ol",
      "p",
      "pre",
      "strong",
      "table",
      "tbody",
      "td",
      "th",
      "thead",
      "tr",
      "ul",
    ],
  ],
  ALLOWED_ATTR: ["align", "checked", "disabled", "href", "start", "title", "type"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
};

const marked = new Marked({
  gfm: true,
  breaks: false,
  extensions: [
    {
      name: "suggestion",
      level: "block",
      start: (text: string) => /^CMD: /m.exec(text)?.index,
      tokenizer: (text: string) => {
        const found = /^CMD: [^\n]*(?:\n|$)/.exec(text);
        return found ? { type: "suggestion", raw: found[0] } : undefined;
      },
      // Inside of a list or a quotation it is no suggestion, and is text.
      renderer: ({ raw }) => `<p>${escaped(raw)}</p>`,
    },
  ],
  renderer: {
    html: ({ text }) => escaped(text),
    image: ({ href, text }) => link(href, `image: ${text || href}`),
    link({ href, tokens }) {
      return link(href, this.parser.parseInline(tokens), true);
    },
  },
});

function link(href: string, text: string, isHtml = false): string {
  const shown = isHtml ? text : escaped(text);
  // Whatever else it says it does, a link opens a page in the browser, or is none.
  if (!/^(?:https?:|mailto:)/i.test(href)) return `${shown} (${escaped(href)})`;
  return `<a href="${escaped(href)}" title="${escaped(href)}">${shown}</a>`;
}

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}

/** A block of a reply, from one line to another one. */
export interface Block {
  type: "suggestion" | "code" | "other";
  element: HTMLElement;
  first: number;
  last: number;
  /** Of a code block, its number among those of the text. */
  number: number;
}

export class MarkdownView {
  readonly element = h("div", { class: "markdown" });
  /** The blocks that will not change any more, then those that may. */
  blocks: Block[] = [];
  private text = "";
  /** Characters and lines of what is complete, and how many blocks of it. */
  private done = { characters: 0, lines: 0, blocks: 0, code: 0 };
  private growing: { view: GrowingText; label: HTMLElement; block: Block } | undefined;

  constructor(
    private readonly firstLine: number,
    private readonly onCode: (block: Block, code: string) => HTMLElement[] = () => [],
  ) {}

  /** Show a text that begins with what was shown before. */
  update(text: string): void {
    if (text === this.text) return;
    this.text = text;
    const tokens = marked.lexer(text.slice(this.done.characters));
    this.dropUnfinished(tokens[0]);
    let { characters, lines, code } = this.done;
    const lastAt = tokens.findLastIndex((token) => token.type !== "space");
    tokens.forEach((token, at) => {
      const block = this.block(token, lines, code);
      characters += token.raw.length;
      lines += token.raw.split("\n").length - 1;
      if (block?.type === "code") code += 1;
      if (block && !this.blocks.includes(block)) {
        this.blocks.push(block);
        this.element.append(block.element);
      }
      const next = text.slice(characters).trimStart();
      // A line that is not complete may yet become another thing, and go on with the one above it.
      if ((at < lastAt && next.includes("\n")) || isClosed(token)) {
        this.done = { characters, lines, blocks: this.blocks.length, code };
        this.growing = undefined;
      }
    });
  }

  /** Remove what will be rendered again; a block of code that only grows stays. */
  private dropUnfinished(next: Token | undefined): void {
    const grows =
      this.growing !== undefined &&
      next?.type === "code" &&
      this.growing.block === this.blocks.at(-1);
    const kept = this.done.blocks + (grows ? 1 : 0);
    for (const block of this.blocks.splice(kept)) block.element.remove();
    if (!grows) this.growing = undefined;
  }

  private block(token: Token, line: number, number: number): Block | null {
    if (token.type === "space") return null;
    const first = this.firstLine + line;
    const last = first + token.raw.replace(/\n+$/, "").split("\n").length - 1;
    if (token.type === "code" && this.growing) {
      this.growing.view.update(isolated((token as Tokens.Code).text));
      this.growing.label.textContent = labelOf(token as Tokens.Code);
      this.growing.block.last = last;
      return this.growing.block;
    }
    const made: Block = {
      type: "other",
      element: h("div", { class: "block" }),
      first,
      last,
      number,
    };
    if (token.type === "suggestion") {
      made.type = "suggestion";
      made.element.append(h("pre", { class: "command" }, token.raw.slice(5).trimEnd()));
    } else if (token.type === "code") {
      this.addCode(made, token as Tokens.Code);
    } else if (token.raw.length > MOST_FORMATTED) {
      made.element.append(h("p", { class: "plain" }, isolated(token.raw)));
    } else {
      made.element.append(rendered(token));
    }
    return made;
  }

  private addCode(made: Block, token: Tokens.Code): void {
    made.type = "code";
    const view = new GrowingText("code");
    view.update(isolated(token.text));
    const buttons = this.onCode(made, token.text);
    const label = h("span", {}, labelOf(token));
    made.element.append(h("div", { class: "code-head" }, label, ...buttons), view.element);
    made.element.classList.add("code-block");
    this.growing = { view, label, block: made };
  }
}

function labelOf(token: Tokens.Code): string {
  return (token.lang ?? "").split(/\s/, 1)[0] ?? "";
}

/** Return whether nothing that follows can belong to a block. */
function isClosed(token: Token): boolean {
  if (token.type === "suggestion") return token.raw.endsWith("\n");
  if (token.type !== "code" || !token.raw.endsWith("\n")) return false;
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(token.raw)?.[1];
  if (fence === undefined) return false;
  const last = token.raw.trimEnd().split("\n").slice(1).at(-1)?.trim() ?? "";
  return last.startsWith(fence) && last === fence.charAt(0).repeat(last.length);
}

function rendered(token: Token): DocumentFragment {
  const html = marked.parser([token]).trim();
  const fragment = DOMPurify.sanitize(html, { ...ALLOWED, RETURN_DOM_FRAGMENT: true });
  for (const text of texts(fragment)) {
    const shown = isolated(text.data);
    if (shown !== text.data) text.data = shown;
  }
  return fragment;
}

function texts(fragment: DocumentFragment): Text[] {
  const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
  const found: Text[] = [];
  while (walker.nextNode()) found.push(walker.currentNode as Text);
  return found;
}

/** Return a whole Markdown text. */
export function markdown(text: string): HTMLElement {
  const view = new MarkdownView(0);
  view.update(text);
  return view.element;
}
