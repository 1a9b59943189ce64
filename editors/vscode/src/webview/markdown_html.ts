/**
 * Markdown, as GitHub has it, as elements.
 *
 * A model's text is nobody's to trust: HTML in it is shown as text, an image as a link, and what is
 * made of the rest goes through a sanitizer that lets only what is listed through.
 */
import DOMPurify from "dompurify";
import { Lexer, Marked, type Token, type Tokens, type TokensList } from "marked";
import { isolated } from "../text";
import { h } from "./dom";

/** The attributes that a renderer writes, none of which holds an address. */
const PLAIN = ["align", "aria-label", "checked", "class", "data-file", "disabled", "start", "type"];

const ALLOWED = {
  ALLOWED_TAGS:
    "a blockquote br code del em h1 h2 h3 h4 h5 h6 hr input kbd li ol p pre span strong sub sup table tbody td th thead tr ul".split(
      " ",
    ),
  ALLOWED_ATTR: [...PLAIN, "href", "title"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  // Else the pattern of an address is asked of these, and they are dropped.
  ADD_URI_SAFE_ATTR: PLAIN,
};

const ADDRESS = /^(?:https?:|mailto:)/i;

/** What of HTML is no text: models write it in tables and formulas. */
const TAG = /&lt;(br ?\/?|\/?(?:kbd|sub|sup))&gt;/gi;

const marked = new Marked({
  gfm: true,
  breaks: false,
  extensions: [
    {
      name: "suggestion",
      level: "block",
      start: (text: string) => /^CMD: /m.exec(text)?.index,
      tokenizer: (text: string) => {
        const found = /^CMD: [^\n]*\S[^\n]*(?:\n|$)/.exec(text);
        return found ? { type: "suggestion", raw: found[0] } : undefined;
      },
      // Inside of a list or a quotation it is no suggestion, and is text.
      renderer: ({ raw }) => `<p>${escaped(raw)}</p>`,
    },
  ],
  renderer: {
    html: ({ text }) => escaped(text).replace(TAG, "<$1>"),
    image({ href, tokens }) {
      const name = this.parser.parseInline(tokens, this.parser.textRenderer);
      return link(href, `image: ${name || attribute(href)}`);
    },
    link({ href, tokens }) {
      return link(href, this.parser.parseInline(tokens));
    },
    checkbox: ({ checked }) =>
      `<input type="checkbox" disabled${checked ? " checked" : ""} aria-label="${checked ? "done" : "to do"}"> `,
  },
});

/** Whatever else it says it does, a link opens a page in the browser or a file that is there. */
function link(href: string, shown: string): string {
  const to = attribute(href);
  if (ADDRESS.test(href)) return `<a href="${to}" title="${to}">${shown}</a>`;
  return `<span data-file="${to}">${shown}<span class="target"> (${to})</span></span>`;
}

/** Return an address as an attribute has it: what is an entity in it stays one. */
function attribute(href: string): string {
  return escaped(href).replace(/&amp;(?=(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z]\w{1,30});)/gi, "&");
}

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}

/** What `[name]: address` defines, by its name. */
export type Links = TokensList["links"];

/** Return the blocks of a text, one after the other; what came before it defines some links. */
export function blocksOf(text: string, before: Links): TokensList {
  const lexer = new Lexer(marked.defaults);
  Object.assign(lexer.tokens.links, before);
  return lexer.lex(text);
}

/** A block of code inside of another block, with the line that it begins on. */
export interface Inner {
  token: Tokens.Code;
  line: number;
  element: HTMLElement;
}

/** Show a block that begins on a line of the text, and return the blocks of code in it. */
export function render(token: Token, line: number, into: HTMLElement): Inner[] {
  const html = marked.parser([token]).trim();
  into.append(DOMPurify.sanitize(html, { ...ALLOWED, RETURN_DOM_FRAGMENT: true }));
  for (const text of texts(into)) text.replaceWith(...unbroken(isolated(text.data)));
  for (const table of into.querySelectorAll("table")) scrolling(table);
  const elements = into.querySelectorAll("pre");
  return [...codeIn([token], line)].flatMap(([code, first], at) => {
    const element = elements[at];
    return element ? [{ token: code, line: first, element }] : [];
  });
}

function* codeIn(tokens: readonly Token[], line: number): Generator<[Tokens.Code, number]> {
  for (const token of tokens) {
    if (token.type === "code") yield [token as Tokens.Code, line];
    else if (token.type === "list") yield* codeIn((token as Tokens.List).items, line);
    else if (token.type === "list_item" || token.type === "blockquote") {
      yield* codeIn((token as Tokens.ListItem | Tokens.Blockquote).tokens, line);
    }
    line += token.raw.split("\n").length - 1;
  }
}

/** Have a table scroll to the side, within reach of the keyboard too. */
function scrolling(table: HTMLTableElement): void {
  const frame = h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" });
  table.replaceWith(frame);
  frame.append(table);
}

/** An option of a command, which reads as one word. */
const OPTION = /(?<!\S)--?[A-Za-z][\w-]{0,40}/g;

/** Return a text with its options as elements, within which no line ends. */
export function unbroken(text: string): (string | HTMLElement)[] {
  const found: (string | HTMLElement)[] = [];
  let from = 0;
  for (const match of text.matchAll(OPTION)) {
    found.push(text.slice(from, match.index), h("span", { class: "option" }, match[0]));
    from = match.index + match[0].length;
  }
  found.push(text.slice(from));
  return found.filter((one) => one !== "");
}

export function texts(within: Node): Text[] {
  const walker = document.createTreeWalker(within, NodeFilter.SHOW_TEXT);
  const found: Text[] = [];
  while (walker.nextNode()) found.push(walker.currentNode as Text);
  return found;
}
