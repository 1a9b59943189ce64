/** What in a text may be the name of a file, with a line and a column behind it. */

/** A name as it stands in a text, and as it is asked for: `src/a.py:22:5`. */
export interface FileName {
  start: number;
  end: number;
  target: string;
}

/** A file with a place in it; lines and columns count from 1. */
export interface Place {
  path: string;
  line: number;
  column: number;
}

/** Characters of a name that is looked for. */
const LONGEST = 1024;

/** Names of a text that are read; what is behind them is left. */
const MOST = 20_000;

/** Characters of punctuation that are taken off a word. */
const MOST_TRIMMED = 8;

/** A word of a text, as far as a name without blanks may go. */
const WORD = /[^\s"'`<>|;“”‘’«»、。，；：（）「」]+/g;

/** Names that stand in a frame, where blanks are part of them: Python's and Node's tracebacks. */
const FRAMED = [
  /\bFile "(?<path>[^"\n]{1,1024})", line (?<line>\d+)/dg,
  /^ *at (?:[^\n]{1,256}? )?\((?<path>[^\n]{1,1024}?):(?<line>\d+):(?<column>\d+)\)$/dgm,
];

/** A name, and the line behind it, before the text of that line or a message: of grep, of gcc. */
const NUMBERED = /^\d*[^:\d][^:]*:\d+(?::\d+)?(?=:|$)/;

/** Names that have neither a dot nor a slash. */
const BARE = /^(?:[A-Z]\w*file|[A-Z]{4,})$/;

const CLOSING: Record<string, string> = { "(": ")", "[": "]", "{": "}" };

/** The ways to write a place: `a:22`, `a:22:5`, `a:22-30`, `a(22,5)`, `a#L22`. */
const PLACE =
  /^(?<path>.+?)(?::(?<a>\d+)(?::(?<b>\d+)|-\d+)?|\((?<c>\d+)(?:,\s?(?<d>\d+))?\)|#L(?<e>\d+)(?:C(?<f>\d+))?(?:-L?\d+(?:C\d+)?)?)$/;

/** Return what may be names of files, the likelier one first where two share characters. */
export function fileNamesIn(text: string, isWhole = false): FileName[] {
  const found: FileName[] = [];
  if (isWhole) add(found, text, 0);
  for (const pattern of FRAMED) {
    for (const { groups, indices } of text.matchAll(pattern)) {
      const { path, line, column } = groups ?? {};
      const [start = 0, end = 0] = indices?.groups?.["path"] ?? [];
      found.push({ start, end, target: [path, line, column].filter(Boolean).join(":") });
    }
  }
  for (const { 0: word, index } of text.matchAll(WORD)) {
    if (found.length >= MOST) break;
    if (word.length > LONGEST) continue;
    const [name, skipped] = trimmed(word);
    // Node names its modules by their addresses.
    if (name.includes("://") && !name.startsWith("file:///")) continue;
    const numbered = NUMBERED.exec(name)?.[0];
    if (numbered) add(found, numbered, index + skipped);
    if (numbered !== name) add(found, name, index + skipped);
    const colon = name.indexOf(":");
    if (colon > 0 && !numbered && !/^\d/.test(name.slice(colon + 1)))
      add(found, name.slice(0, colon), index + skipped);
  }
  return found;
}

function add(found: FileName[], target: string, start: number): void {
  if (target.length > LONGEST || target.includes("\n")) return;
  const path = placesOf(target).at(-1)?.path ?? "";
  if (!(/\w/.test(path) || /[^\x00-\x7f]/.test(path))) return;
  if (!/[./]/.test(path) && !BARE.test(path)) return;
  found.push({ start, end: start + target.length, target });
}

/** Return a word without the punctuation around it, and how much of that stood before it. */
function trimmed(word: string): [string, number] {
  let [from, to] = [0, word.length];
  for (let left = MOST_TRIMMED; ; left -= 1) {
    const text = word.slice(from, to);
    const [first, last] = [text.charAt(0), text.charAt(text.length - 1)];
    const closing = CLOSING[first];
    if (!left) return [text, from];
    if (/[.,:!?*]/.test(last) || (/[)\]}]/.test(last) && !isBalanced(text))) to -= 1;
    else if (closing === last && text) [from, to] = [from + 1, to - 1];
    else if (first === "*" || (closing && !isBalanced(text))) from += 1;
    else return [text, from];
  }
}

function isBalanced(text: string): boolean {
  const opened: string[] = [];
  for (const one of text) {
    const closing = CLOSING[one];
    if (closing) opened.push(closing);
    else if (/[)\]}]/.test(one) && opened.pop() !== one) return false;
  }
  return !opened.length;
}

/** Return what a target may mean: all of it is a name, or a place stands behind the name. */
export function placesOf(target: string): Place[] {
  const whole = { path: target, line: 0, column: 0 };
  const { path, a, b, c, d, e, f } = PLACE.exec(target)?.groups ?? {};
  if (path === undefined) return [whole];
  return [whole, { path, line: Number(a ?? c ?? e), column: Number(b ?? d ?? f ?? 0) }];
}
