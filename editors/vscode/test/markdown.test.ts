import "./dom";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { CommandInfo } from "../src/protocol";
import "../src/webview/highlight";
import { markdown, MarkdownView } from "../src/webview/markdown";

/** Pieces that replies are made of; a generator joins and cuts them. */
const PIECES = [
  "Lists the files.",
  "\n\n",
  "\n",
  "CMD: ls -la\n",
  "CMD: rm -r build",
  "```sh\nmake test\n```\n",
  "```\nCMD: a\nCMD: b\n```\n",
  "~~~python\nprint('```')\n~~~\n",
  "````md\n```\nx\n```\n````\n",
  "- one\n- two\n",
  "1. first\n\n   CMD: inside\n",
  "> quoted\n",
  "| a | b |\n|---|---|\n| 1 | 2 |\n",
  "# Title\n",
  "a **bold** `code` [link](https://example.org) ",
  "setext\n===\n",
  "    indented code\n",
  "<b>html</b>\n",
  "\n---\n",
  "*not closed",
  "\u202eturned",
  "é 😀 ",
];

/** How many replies each property is tried with; `./dev full` tries more. */
const TRIED = process.env["TESTS_FULL"] === "1" ? 400 : 100;

/** Return numbers in [0, 1) that are the same each time. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function reply(random: () => number): string {
  const count = 1 + Math.floor(random() * 12);
  return Array.from({ length: count }, () => PIECES[Math.floor(random() * PIECES.length)]).join("");
}

/** Return what is drawn: a line feed before a tag is not. */
function drawn(element: HTMLElement): string {
  return element.innerHTML.replaceAll(/\n+(?=<|$)/g, "");
}

test("a reply that comes in pieces looks like one that came whole", () => {
  for (let seed = 1; seed <= TRIED; seed += 1) {
    const random = numbers(seed);
    const text = reply(random);
    const view = new MarkdownView(0);
    for (let at = 0; at < text.length; at += 1 + Math.floor(random() * 7)) {
      view.update(text.slice(0, at));
    }
    view.update(text);
    assert.equal(drawn(view.element), drawn(markdown(text)), JSON.stringify(text));
  }
});

test("the number and the line of a block are those that the server counts", () => {
  const text =
    "1. one\n\n   ```py\n   a\n   ```\n2. two\n   > ~~~\n   > b\n   > ~~~\n\n```diff\n-x\n```\n\n```\nc\n```\n";
  const view = new MarkdownView(10);
  view.update(text);
  const code = view.blocks
    .flatMap((block) => [block, ...block.inner])
    .filter(({ type }) => type === "code");
  assert.deepEqual(
    code.map(({ first, last, number }) => [first, last, number]),
    [
      [12, 14, 0],
      [16, 18, 1],
      [20, 22, 2],
      [24, 26, 2],
    ],
  );
});

test("each line of a suggestion is found in the block of its line", () => {
  for (let seed = 1; seed <= TRIED; seed += 1) {
    const text = reply(numbers(seed));
    const view = new MarkdownView(0);
    view.update(text);
    for (const block of view.blocks.filter(({ type }) => type === "suggestion")) {
      const line = text.split("\n")[block.first] ?? "";
      assert.ok(line.startsWith("CMD: "), JSON.stringify({ text, block: block.first }));
    }
  }
});

/** Replies, the first and the last line of what the server takes for a suggestion, and the rest. */
const SUGGESTED: [string, number, number, string][] = [
  ["See:\nCMD: ls \\\n  -la\n\nDone.\n", 1, 2, "<p>See:</p><p>Done.</p>"],
  ["CMD: cat <<E\na\n\n- b\nE\nDone.\n", 0, 4, "<p>Done.</p>"],
  ["CMD: for i in 1; do\n  date\ndone", 0, 2, ""],
  ["1. a\nCMD: ls\n2. b\n", 1, 1, '<ol><li>a</li></ol><ol start="2"><li>b</li></ol>'],
  ["> a\nCMD: ls\n", 1, 1, "<blockquote><p>a</p></blockquote>"],
  ["<!--\nCMD: ls\n-->\n", 1, 1, "&lt;!--<p>--&gt;</p>"],
  ["```\na\nCMD: ls\n```\n", 2, 2, "a CMD: ls"],
  [
    "See [a].\nCMD: ls \\\n  -a\n\n[a]: https://a.b\n",
    1,
    2,
    '<p>See <a href="https://a.b">a</a>.</p>',
  ],
];

test("what the server takes for a suggestion is a block of its own and is said once", () => {
  for (const [text, line, endLine, rest] of SUGGESTED) {
    const more = { id: "c", text: "", source: "cmd", risk: "safe" } as const;
    const command: CommandInfo = { ...more, line, endLine, placeholders: [], reasons: [] };
    const views = [0, 1].map(() => new MarkdownView(0));
    views[0]?.update(text, [command]);
    // It is told once its last line has come, or what is behind it.
    for (let at = 0; at <= text.length; at += 1) views[1]?.update(text.slice(0, at));
    views[1]?.update(text, [command]);
    for (const { element, blocks } of views) {
      const found = blocks.find((block) => block.type === "suggestion");
      if (found) assert.deepEqual([found.first, found.last], [line, endLine], text);
      found?.element.remove();
      for (const one of element.querySelectorAll("a")) one.removeAttribute("title");
      const html = element.innerHTML.replaceAll(/<\/?(?:div|span|pre)[^>]*>|\n(?=<|$)/g, "");
      assert.equal(html.replaceAll("\n", " "), rest, text);
    }
  }
});

test("what is indented, in a quotation or empty is no suggestion, as for the server", () => {
  for (const text of ["- a\n\n  CMD: ls\n", "  CMD: ls\n", "> CMD: ls\n", "CMD: \n", "CMD:ls\n"]) {
    assert.equal(markdown(text).querySelector(".command"), null, text);
    assert.match(markdown(text).textContent, /CMD:/);
  }
});

const ATTACKS = [
  "<script>alert(1)</script>",
  "<img src=http://evil.example/x onerror=alert(1)>",
  "![x](http://evil.example/pixel.png)",
  "[run](command:workbench.action.terminal.sendSequence?%22rm%22)",
  "[run](javascript:alert(1))",
  "[run](JaVaScRiPt:alert(1))",
  "[run](vscode://x)",
  "[run](data:text/html,<script>alert(1)</script>)",
  '[x](https://ok.example/"onclick=alert(1))',
  "<a href=command:x>y</a>",
  "<iframe src=//evil.example>",
  "<svg onload=alert(1)>",
  "<style>*{display:none}</style>",
  "<base href=//evil.example>",
  "<form action=//evil.example><input name=x>",
  "`<img src=x onerror=alert(1)>`",
  "| <img src=x> |\n|---|\n| <script>1</script> |",
  "- <details open ontoggle=alert(1)>",
  '![a](x "onerror=alert(1)")',
  "[a]: command:x\n\n[a]",
  "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
];

const ELEMENTS = new Set(
  "A BLOCKQUOTE BR CODE DEL DIV EM H1 H2 H3 H4 H5 H6 HR INPUT KBD LI OL P PRE SPAN STRONG SUB SUP TABLE TBODY TD TH THEAD TR UL".split(
    " ",
  ),
);

function harmless(element: HTMLElement, text: string): void {
  for (const one of element.querySelectorAll("*")) {
    assert.ok(ELEMENTS.has(one.tagName), `${one.tagName} in ${JSON.stringify(text)}`);
    for (const { name, value } of one.attributes) {
      assert.ok(!name.startsWith("on") && name !== "style" && name !== "src", `${name} in ${text}`);
      if (name === "href") assert.match(value, /^(?:https?:|mailto:)/, text);
    }
  }
}

test("no attack makes an element, a handler or a link that is not listed", () => {
  for (const attack of ATTACKS) harmless(markdown(attack), attack);
  for (let seed = 1; seed <= TRIED; seed += 1) {
    const random = numbers(seed);
    const parts = Array.from({ length: 3 }, () => {
      const attack = ATTACKS[Math.floor(random() * ATTACKS.length)] ?? "";
      const cut = Math.floor(random() * attack.length);
      return random() < 0.5 ? attack : attack.slice(cut) + attack.slice(0, cut);
    });
    const text = parts.join(random() < 0.5 ? "\n" : "");
    const view = new MarkdownView(0);
    for (let at = 1; at <= text.length; at += 3) {
      view.update(text.slice(0, at));
      harmless(view.element, text.slice(0, at));
    }
  }
});

test("code is colored as it grows, and its text stays what it is", () => {
  const view = new MarkdownView(0);
  const code = "def f(x):\n    return '<b>' # y\n";
  for (let at = 1; at <= code.length; at += 1) {
    view.update("```py\n" + code.slice(0, at));
    const shown = view.element.querySelector(".growing")?.textContent;
    assert.equal(shown, code.slice(0, at).replace(/\n$/, ""));
  }
  const names = [...view.element.querySelectorAll("[class^=hljs-]")].map((one) => one.className);
  assert.ok(["hljs-keyword", "hljs-string", "hljs-comment"].every((one) => names.includes(one)));
});

test("a change is colored by its lines", () => {
  const { innerHTML } = markdown("```diff\n-old\n+new\n```");
  assert.match(innerHTML, /hljs-deletion">-old<.*hljs-addition">\+new</s);
});

test("what turns text around is shown and does nothing", () => {
  assert.match(markdown("see \u202etxt.exe").textContent, /<U\+202E>txt\.exe/);
  assert.match(markdown("```\n\u2066x\n```").textContent, /<U\+2066>x/);
});

test("a megabyte on one line is text", () => {
  const text = `**${"x".repeat(1 << 20)}**`;
  const started = performance.now();
  assert.equal(markdown(text).textContent, text);
  assert.ok(performance.now() - started < 10_000);
});

test("what is nested, wide or never ends is all there", () => {
  const depth = 200;
  const nested = Array.from(
    { length: depth },
    (_, level) => `${"  ".repeat(level)}- level ${level}`,
  );
  const list = markdown(nested.join("\n"));
  assert.match(list.textContent, /level 199/);
  const quoted = markdown(`${"> ".repeat(depth)}deep`);
  assert.match(quoted.textContent, /deep/);
  const row = (cell: string): string => `|${cell.repeat(500)}\n`;
  const table = markdown(row(" x |") + row("-|") + row(" y |"));
  assert.equal(table.querySelectorAll(".table td").length, 500);
  const endless = `\`\`\`py\n${"x = 1\n".repeat(20_000)}`;
  assert.equal(markdown(endless).querySelectorAll(".code-block").length, 1);
});
