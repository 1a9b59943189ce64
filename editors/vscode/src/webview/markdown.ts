/** A reply's Markdown as it grows: what is complete is rendered once, the rest again each time. */
import type { Token, Tokens, TokensList } from "marked";
import type { CommandInfo } from "../protocol";
import { isolated } from "../text";
import { color } from "./coloring";
import { h } from "./dom";
import { GrowingText } from "./growing_text";
import { blocksOf, type Links, render, unbroken } from "./markdown_html";

/** Characters of one paragraph or list above which it is shown as plain text. */
const MOST_FORMATTED = 64 * 1024;

/** Languages of blocks that are a change to a document or a console, and not its text. */
const NO_TEXT = new Set(["diff", "patch", "console", "shell-session"]);

/** A block of a reply, from one line to another one. */
export interface Block {
  type: "suggestion" | "code" | "other";
  element: HTMLElement;
  first: number;
  last: number;
  /** Of a block of code, its number among those that may be a document's text. */
  number: number;
  /** The blocks of code in a list or a quotation. */
  inner: Block[];
}

interface Growing {
  view: GrowingText;
  label: HTMLElement;
  block: Block;
}

/** How far a text is complete: in characters, lines, blocks, and blocks that are text. */
const NOTHING = { characters: 0, lines: 0, blocks: 0, texts: 0 };

export class MarkdownView {
  readonly element = h("div", { class: "markdown" });
  /** The blocks that will not change any more, then those that may. */
  blocks: Block[] = [];
  private text = "";
  private done = { ...NOTHING };
  /** The links that what is complete defines, and those that what is shown knows. */
  private links: Links = {};
  private shownLinks = "{}";
  private growing: Growing | undefined;
  /** The lines of the suggestions that the server has found, by the first of each. */
  private readonly suggested = new Map<number, number>();

  constructor(
    private readonly firstLine: number,
    private readonly onCode: (block: Block) => HTMLElement[] = () => [],
  ) {}

  /** Show a text that begins with what was shown before, and has these commands in it. */
  update(text: string, commands: readonly CommandInfo[] = []): void {
    const hasNew = this.learn(commands);
    if (text === this.text && !hasNew) return;
    this.text = text;
    const tokens = this.lexed(text);
    this.dropUnfinished(tokens[0]);
    let { characters, lines, texts } = this.done;
    const lastAt = tokens.findLastIndex((token) => token.type !== "space");
    tokens.forEach((token, at) => {
      const block = this.block(token, lines, texts);
      characters += token.raw.length;
      lines += token.raw.split("\n").length - 1;
      if (block) texts += textsIn(block);
      if (block && !this.blocks.includes(block)) {
        this.blocks.push(block);
        this.element.append(block.element);
      }
      const next = text.slice(characters).trimStart();
      // A line that is not complete may yet become another thing, and go on with the one above it.
      if ((at < lastAt && next.includes("\n")) || isClosed(token)) {
        this.done = { characters, lines, blocks: this.blocks.length, texts };
        this.growing = undefined;
        if (token.type === "def") this.links[token["tag"] as string] ??= token as Tokens.Def;
      }
    });
  }

  /** Take lines for suggestions; return whether blocks that are shown are to be cut anew. */
  private learn(commands: readonly CommandInfo[]): boolean {
    let hasNew = false;
    for (const { line, endLine, source } of commands) {
      if (source !== "cmd" || this.suggested.has(line)) continue;
      this.suggested.set(line, endLine);
      const at = this.blocks.findIndex(({ first, last }) => first <= line && line <= last);
      const block = this.blocks[at];
      if (!block || block.type === "code") continue;
      if (block.type === "suggestion" && block.last === endLine) continue;
      hasNew = true;
      if (at < this.done.blocks) this.done = this.before(at);
      this.growing = undefined;
    }
    return hasNew;
  }

  /** Return how far the text is complete before a block. */
  private before(at: number): typeof NOTHING {
    const lines = (this.blocks[at]?.first ?? this.firstLine) - this.firstLine;
    const characters = this.text.split("\n", lines).reduce((sum, one) => sum + one.length + 1, 0);
    const texts = this.blocks.slice(0, at).reduce((sum, block) => sum + textsIn(block), 0);
    return { characters, lines, blocks: at, texts };
  }

  /** Return the blocks of a text, cut where the server has found suggestions. */
  private cut(text: string, line: number, before: Links): TokensList {
    const tokens = blocksOf(text, before);
    if (!this.suggested.size) return tokens;
    let at = line;
    for (const token of tokens) {
      for (let first = at; first <= at + rowsOf(token) && token.type !== "code"; first += 1) {
        const last = this.suggested.get(first) ?? -1;
        if (last < 0 || (token.type === "suggestion" && first === last)) continue;
        const lines = text.split(/(?<=\n)/);
        const part = (from: number, to?: number): string =>
          lines.slice(from - line, to === undefined ? to : to - line).join("");
        const raw = part(first, last + 1);
        const above = blocksOf(part(line, first), tokens.links);
        const below = this.cut(part(last + 1), last + 1, tokens.links);
        const all = [...above, { type: "suggestion", raw }, ...below];
        return Object.assign(all, { links: tokens.links });
      }
      at += token.raw.split("\n").length - 1;
    }
    return tokens;
  }

  /** Return what is not complete yet; a link that is defined only now may stand in any of it. */
  private lexed(text: string): TokensList {
    const { characters, lines } = this.done;
    const tokens = this.cut(text.slice(characters), this.firstLine + lines, this.links);
    const links = JSON.stringify(tokens.links);
    if (links === this.shownLinks || text.length > MOST_FORMATTED) return tokens;
    this.shownLinks = links;
    if (!this.done.blocks) return tokens;
    this.done = { ...NOTHING };
    this.links = {};
    this.growing = undefined;
    return this.cut(text, this.firstLine, {});
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
    if (token.type === "space" || token.type === "def") return null;
    if (token.type === "code" && this.growing) {
      this.fill(this.growing, token as Tokens.Code, line);
      return this.growing.block;
    }
    const made = this.made(token, line, number);
    if (token.type === "suggestion") {
      made.type = "suggestion";
      const text = token.raw.slice(5).trimEnd();
      made.element.append(h("pre", { class: "command" }, ...unbroken(isolated(text))));
    } else if (token.type === "code") {
      this.growing = this.addCode(made, token as Tokens.Code, line);
    } else if (token.raw.length > MOST_FORMATTED) {
      made.element.append(h("p", { class: "plain" }, isolated(token.raw)));
    } else {
      this.addOther(made, token, line);
    }
    return made;
  }

  private made(token: Token, line: number, number: number): Block {
    const first = this.firstLine + line;
    const element = h("div", { class: "block" });
    return { type: "other", element, first, last: first + rowsOf(token), number, inner: [] };
  }

  private addOther(made: Block, token: Token, line: number): void {
    let { number } = made;
    for (const one of render(token, line, made.element)) {
      const block = this.made(one.token, one.line, number);
      this.addCode(block, one.token, one.line);
      number += textsIn(block);
      one.element.replaceWith(block.element);
      made.inner.push(block);
    }
  }

  private addCode(block: Block, token: Tokens.Code, line: number): Growing {
    block.type = "code";
    const view = new GrowingText("code");
    const label = h("span");
    const head = h("div", { class: "code-head" }, label, ...this.onCode(block));
    block.element.append(head, view.element);
    block.element.classList.add("code-block");
    const made = { view, label, block };
    this.fill(made, token, line);
    return made;
  }

  private fill({ view, label, block }: Growing, token: Tokens.Code, line: number): void {
    const language = languageOf(token);
    const code = isolated(token.text);
    view.update(code);
    color(view, code, language);
    label.textContent = language;
    block.last = this.firstLine + line + rowsOf(token);
    block.element.classList.toggle("is-text", isText(token, language));
  }
}

/** Return how many lines a block has after its first one. */
function rowsOf(token: Token): number {
  return token.raw.replace(/\n+$/, "").split("\n").length - 1;
}

function languageOf(token: Tokens.Code): string {
  return (token.lang ?? "").split(/\s/, 1)[0] ?? "";
}

/** Return whether a block may be a document's text; the server counts those. */
function isText(token: Tokens.Code, language: string): boolean {
  const isFenced = token.codeBlockStyle !== "indented";
  const isCommands = /^CMD: /m.test(token.text);
  return isFenced && !isCommands && !!token.text.trim() && !NO_TEXT.has(language.toLowerCase());
}

function textsIn(block: Block): number {
  const own = block.element.classList.contains("is-text") ? 1 : 0;
  return block.inner.reduce((sum, inner) => sum + textsIn(inner), own);
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

/** Return a whole Markdown text. */
export function markdown(text: string): HTMLElement {
  const view = new MarkdownView(0);
  view.update(text);
  return view.element;
}
