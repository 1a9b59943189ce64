/** Has blocks of code colored, once the script that can is loaded. */
import DOMPurify from "dompurify";
import { h } from "./dom";
import type { GrowingText } from "./growing_text";
import type { Highlight } from "./highlight";

/** Characters of a block that is colored with each piece that comes, and of the largest one. */
const AT_ONCE = 4 * 1024;
const MOST = 32 * 1024;

/** Milliseconds between the colors of a large block and the next ones. */
const PAUSE = 200;

const SPANS = {
  ALLOWED_TAGS: ["span"],
  ALLOWED_ATTR: ["class"],
  RETURN_DOM_FRAGMENT: true as const,
};

declare const globalThis: { highlight?: Highlight };

const waiting = new Map<GrowingText, [string, string]>();
const own = document.currentScript as HTMLScriptElement | null;
let isLoading = false;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Color a block of code, now or soon; what it shows then is of the same text. */
export function color(view: GrowingText, code: string, language: string): void {
  waiting.delete(view);
  if (!language || code.length > MOST) return;
  if (globalThis.highlight && code.length <= AT_ONCE) {
    paint(globalThis.highlight, view, code, language);
    return;
  }
  waiting.set(view, [code, language]);
  if (globalThis.highlight) timer ??= setTimeout(paintNext, PAUSE);
  else load();
}

function load(): void {
  if (isLoading || !own) return;
  isLoading = true;
  const src = own.src.replace(/chat\.js/, "highlight.js");
  document.head.append(h("script", { src, nonce: own.nonce ?? "", onload: paintNext }));
}

/** Color one block: a reply with many leaves time for what the user does. */
function paintNext(): void {
  timer = undefined;
  const [next] = waiting;
  if (!next || !globalThis.highlight) return;
  const [view, [code, language]] = next;
  waiting.delete(view);
  paint(globalThis.highlight, view, code, language);
  if (waiting.size) timer = setTimeout(paintNext, code.length > AT_ONCE ? PAUSE : 0);
}

function paint(highlight: Highlight, view: GrowingText, code: string, language: string): void {
  const html = highlight(code, language.toLowerCase());
  if (html !== null) view.showColored(DOMPurify.sanitize(html, SPANS));
}
