/** Names of files in what a reply shows, as links, where the extension says that they are there. */
import { type FileName, fileNamesIn } from "../file_names";
import { h } from "./dom";
import { texts } from "./markdown_html";

/** What is read for names: the text of a reply, its calls, and outputs that have ended. */
const READ = ".markdown > .block, .card:not(.running) .output, .tool > .title, .tool > .growing";

/** What no link is made in. */
const LEFT_OUT = "a, button, textarea, .card, .command, .code-head, [data-file]";

/** Names of an exchange that are asked for, and characters of a part of it that are read. */
const MOST = 20_000;
const MOST_READ = 1024 * 1024;

export class FileLinks {
  private readonly seen = new WeakSet<Element>();
  /** The names that were asked for; true: a file that can be opened. */
  private readonly known = new Map<string, boolean>();
  private hasFiles = false;

  constructor(
    private readonly element: HTMLElement,
    private readonly ask: (targets: string[]) => void,
  ) {
    // What is drawn anew, in colors, has lost its links.
    element.addEventListener("painted", ({ target }) => {
      const read = (target as Element).closest(READ);
      if (read && this.seen.has(read)) this.link(read);
    });
  }

  /** Read what has come, and ask for what is not known yet. */
  update(): void {
    const unknown = new Set<string>();
    for (const element of this.element.querySelectorAll(READ)) {
      if (this.seen.has(element)) continue;
      this.seen.add(element);
      for (const target of targetsIn(element)) if (!this.known.has(target)) unknown.add(target);
      this.link(element);
    }
    const asked = [...unknown].slice(0, MOST - this.known.size);
    for (const target of asked) this.known.set(target, false);
    if (asked.length) this.ask(asked);
  }

  /** Make links of what is there. */
  show(found: readonly string[]): void {
    for (const target of found) this.known.set(target, true);
    this.hasFiles ||= found.length > 0;
    for (const element of this.element.querySelectorAll(READ)) {
      if (this.seen.has(element)) this.link(element);
    }
  }

  private link(element: Element): void {
    if (!this.hasFiles) return;
    for (const { nodes, names } of passagesOf(element)) {
      addLinks(
        nodes,
        names.filter(({ target }) => this.known.get(target)),
      );
    }
    for (const one of element.querySelectorAll<HTMLElement>("[data-file]")) {
      const target = targetOf(one);
      if (!this.known.get(target)) continue;
      one.querySelector(".target")?.remove();
      one.replaceWith(linkTo(target, ...one.childNodes));
    }
  }
}

/** What is read as one text, although it may be several nodes: code that has colors. */
interface Passage {
  nodes: Text[];
  names: FileName[];
}

function passagesOf(element: Element): Passage[] {
  const all: Text[][] = [];
  let last: Element | null = null;
  for (const node of texts(element)) {
    const parent = node.parentElement;
    const out = parent?.closest(LEFT_OUT);
    if (out && out !== element && element.contains(out)) continue;
    const code = parent?.closest("pre") ?? null;
    if (code && code === last) all.at(-1)?.push(node);
    else all.push([node]);
    last = code;
  }
  return all.map((nodes) => {
    const text = nodes.map(({ data }) => data).join("");
    const isWhole = nodes[0]?.parentElement?.closest("pre, code")?.tagName === "CODE";
    return { nodes, names: fileNamesIn(text.slice(0, MOST_READ), isWhole) };
  });
}

function* targetsIn(element: Element): Generator<string> {
  for (const one of element.querySelectorAll<HTMLElement>("[data-file]")) yield targetOf(one);
  for (const { names } of passagesOf(element)) for (const { target } of names) yield target;
}

/** Return the file that a link of Markdown names: its address has blanks and the like encoded. */
function targetOf(one: HTMLElement): string {
  const address = one.dataset["file"] ?? "";
  try {
    return decodeURIComponent(address);
  } catch {
    return address;
  }
}

/** Make links in a text; of two that share characters, the first one. */
function addLinks(nodes: readonly Text[], names: FileName[]): void {
  const sorted = names.sort((one, other) => one.start - other.start);
  let [from, at] = [0, 0];
  for (const node of nodes) {
    const pieces: (string | HTMLElement)[] = [];
    const end = from + node.data.length;
    let done = from;
    for (let name = sorted[at]; name && name.start < end; name = sorted[++at]) {
      if (name.start < done) continue;
      const to = Math.min(name.end, end);
      const shown = node.data.slice(name.start - from, to - from);
      pieces.push(node.data.slice(done - from, name.start - from), linkTo(name.target, shown));
      done = to;
    }
    if (pieces.length) node.replaceWith(...pieces, node.data.slice(done - from));
    from = end;
  }
}

function linkTo(target: string, ...shown: (string | Node)[]): HTMLElement {
  const to = { "data-target": target, href: `#${target}`, title: `Open ${target}` };
  return h("a", { class: "file", ...to }, ...shown);
}
