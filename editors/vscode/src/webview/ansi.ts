/** The colors of a command's output, as elements; no other code of a terminal does anything. */
import Anser from "anser";
import { isolated } from "../text";
import { h } from "./dom";

/** A code at the end of a text that is not complete, or the first half of a line's end. */
const BEGUN = /(?:\x1b(?:\[[0-9;?]*)?|\r+)$/;

const NOT_COLORS =
  /\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]/g;

export interface Paint {
  add: (to: HTMLElement, text: string) => void;
  reset: () => void;
}

/** Return what adds text with codes in it to elements, a code at a cut included. */
export function ansi(): Paint {
  let kept = "";
  let state = new Anser();
  return {
    reset: () => {
      kept = "";
      state = new Anser();
    },
    add: (to, text) => {
      let whole = kept + text;
      kept = BEGUN.exec(whole)?.[0] ?? "";
      whole = whole.slice(0, whole.length - kept.length);
      whole = whole.replace(/\r+\n/g, "\n");
      if (/^[^\n]*\r/.test(whole)) dropLine(to);
      // What follows a carriage return stands in the place of its line.
      const shown = whole.replace(/[^\n]*\r/g, colorsIn).replace(NOT_COLORS, "");
      for (const part of state.ansiToJson(shown, OPTIONS)) {
        if (!part.content) continue;
        const classes = classesOf(part);
        const text = isolated(part.content);
        to.append(classes ? h("span", { class: classes }, text) : text);
      }
    },
  };
}

const OPTIONS = { use_classes: true, remove_empty: true };

/** Return the codes for colors in a text, which also hold for what stands in its place. */
function colorsIn(text: string): string {
  return (text.match(/\x1b\[[0-9;]*m/g) ?? []).join("");
}

/** Remove what an element has behind its last end of a line. */
function dropLine(from: HTMLElement): void {
  for (let last = from.lastChild; last; last = from.lastChild) {
    const text = last.textContent ?? "";
    const kept = text.slice(0, text.lastIndexOf("\n") + 1);
    if (kept !== text) last.textContent = kept; // Else what is selected in it would be so no more.
    if (kept) return;
    last.remove();
  }
}

function classesOf(part: Anser.AnserJsonEntry): string {
  const found: string[] = [];
  if (/^ansi-[a-z-]+$/.test(part.fg)) found.push(`fg-${part.fg}`);
  if (/^ansi-[a-z-]+$/.test(part.bg)) found.push(`bg-${part.bg}`);
  for (const decoration of part.decorations) found.push(`text-${decoration}`);
  return found.join(" ");
}
