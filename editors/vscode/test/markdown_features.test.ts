/** Each feature of GitHub's Markdown that the documentation claims, against its HTML. */
import "./dom";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { h } from "../src/webview/dom";
import { markdown } from "../src/webview/markdown";

/** By feature: a text, and what it is in HTML. */
const FEATURES: Record<string, [string, string]> = {
  headings: ["# A\n###### F #\n\nB\n===\n", "<h1>A</h1><h6>F</h6><h1>B</h1>"],
  paragraphs: ["a\nb  \nc\\\nd\n\ne", "<p>a\nb<br>c<br>d</p><p>e</p>"],
  emphasis: [
    "*a* __b__ ***c*** snake_case_name",
    "<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> snake_case_name</p>",
  ],
  strikethrough: ["~~a~~ ~b~", "<p><del>a</del> <del>b</del></p>"],
  "code spans": [
    "`a` `` b`c `` `<b>`",
    "<p><code>a</code> <code>b`c</code> <code>&lt;b&gt;</code></p>",
  ],
  "backslash escapes": ["\\*a\\* 1\\. &amp; &copy;", "<p>*a* 1. &amp; ©</p>"],
  rules: ["a\n\n---\n***", "<p>a</p><hr><hr>"],
  quotations: [
    "> a\n> > b\nc",
    "<blockquote><p>a</p><blockquote><p>b\nc</p></blockquote></blockquote>",
  ],
  "bulleted lists": ["- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"],
  "numbered lists": ["7. a\n8. b", '<ol start="7"><li>a</li><li>b</li></ol>'],
  "a list that goes on behind a command": [
    "1. a\n\nCMD: ls\n\n2. b",
    '<ol><li>a</li></ol><pre class="command">ls</pre><ol start="2"><li>b</li></ol>',
  ],
  "loose lists": ["- a\n\n  b\n\n- c", "<ul><li><p>a</p><p>b</p></li><li><p>c</p></li></ul>"],
  "task lists": [
    "- [x] a\n- [ ] b",
    '<ul><li><input checked="" disabled="" type="checkbox"> a</li><li><input disabled="" type="checkbox"> b</li></ul>',
  ],
  tables: [
    "| a | b | c |\n|:--|:-:|--:|\n| 1 | `x \\| y` | |",
    '<table><thead><tr><th align="left">a</th><th align="center">b</th><th align="right">c</th></tr></thead><tbody><tr><td align="left">1</td><td align="center"><code>x | y</code></td><td align="right"></td></tr></tbody></table>',
  ],
  "fenced code": [
    "```py\na\n\n b\n```\n~~~\n```\n~~~",
    "<pre><code>a\n\n b\n</code></pre><pre><code>```\n</code></pre>",
  ],
  "a fence that never ends": ["```\na\n# b", "<pre><code>a\n# b\n</code></pre>"],
  "code in lists": [
    "1. a\n\n   ```sh\n   b\n   ```",
    "<ol><li><p>a</p><pre><code>b\n</code></pre></li></ol>",
  ],
  "indented code": ["    a\n      b", "<pre><code>a\n  b\n</code></pre>"],
  "some tags": [
    "H<sub>2</sub>O<br>x<sup>2</sup> <kbd>F1</kbd>",
    "<p>H<sub>2</sub>O<br>x<sup>2</sup> <kbd>F1</kbd></p>",
  ],
  links: [
    '[a](https://e.org/?b&amp;c "t") <https://e.org/?b&c>',
    '<p><a href="https://e.org/?b&amp;c">a</a> <a href="https://e.org/?b&amp;c">https://e.org/?b&amp;c</a></p>',
  ],
  "links to files": ["[the *file*](src/a.py)", '<p><a href="src/a.py">the <em>file</em></a></p>'],
  images: [
    "![an *image*](https://e.org/a.png)",
    '<p><a href="https://e.org/a.png">image: an image</a></p>',
  ],
  "links by name": [
    "[a], [b][A]\n\nc\n\n[a]: https://e.org",
    '<p><a href="https://e.org">a</a>, <a href="https://e.org">b</a></p><p>c</p>',
  ],
  "bare addresses": [
    "see www.e.org. and (https://e.org/a_b), me@e.org",
    '<p>see <a href="http://www.e.org">www.e.org</a>. and (<a href="https://e.org/a_b">https://e.org/a_b</a>), <a href="mailto:me@e.org">me@e.org</a></p>',
  ],
};

/** Return HTML without what only we add, and without the space that is not drawn. */
function structure(html: HTMLElement): string {
  const made = html.cloneNode(true) as HTMLElement;
  for (const one of made.querySelectorAll(".code-block")) {
    const code = (one.querySelector(".growing")?.textContent ?? "")
      .replace(/\n*$/, "\n")
      .replace(/^\n$/, "");
    one.replaceWith(h("pre", {}, h("code", {}, code)));
  }
  for (const one of made.querySelectorAll("pre > code")) one.removeAttribute("class");
  for (const one of made.querySelectorAll(".block, .table, .option"))
    one.replaceWith(...one.childNodes);
  // A link to a file is one once the file is known to be there, and no image is fetched.
  for (const one of made.querySelectorAll("[data-file]")) {
    one.querySelector(".target")?.remove();
    one.replaceWith(h("a", { href: one.getAttribute("data-file") ?? "" }, ...one.childNodes));
  }
  for (const one of made.querySelectorAll("img")) {
    const [href, name] = [one.getAttribute("src") ?? "", one.getAttribute("alt") ?? ""];
    one.replaceWith(h("a", { href }, `image: ${name || href}`));
  }
  for (const one of made.querySelectorAll("a[href]")) {
    const href = one.getAttribute("href") ?? "";
    one.setAttribute(
      "href",
      encodeURI(href).replaceAll(/%25/g, "%").replaceAll(/[[\]]/g, encodeURIComponent),
    );
  }
  for (const one of made.querySelectorAll("[title], [aria-label]")) {
    one.removeAttribute("title");
    one.removeAttribute("aria-label");
  }
  for (const one of made.querySelectorAll("input")) {
    const isChecked = one.hasAttribute("checked");
    one.replaceWith(isChecked ? "[x]" : "[ ]");
  }
  made.normalize();
  const drawn = made.innerHTML.replaceAll(
    /\s*(<\/?(?:p|li|ul|ol|h\d|hr|br|blockquote|table|thead|tbody|tr|t[hd]|pre)\b[^>]*>)\s*/g,
    "$1",
  );
  return drawn.replaceAll(/[ \t]+/g, " ").replaceAll("\n ", "\n");
}

function reference(html: string): HTMLElement {
  const made = h("div");
  made.innerHTML = html;
  return made;
}

for (const [feature, [text, html]] of Object.entries(FEATURES)) {
  test(`${feature} are what GitHub makes of them`, () => {
    assert.equal(structure(markdown(text)), structure(reference(html)));
  });
}

/** A copy of GitHub's specification, whose examples are all tried; `test/spec.txt` of cmark-gfm. */
const SPEC = process.env["TESTS_GFM_SPEC"];

test("GitHub's own examples", { skip: !SPEC && "TESTS_GFM_SPEC names no specification" }, () => {
  const examples = readFileSync(SPEC ?? "", "utf8").matchAll(
    /^(#+ .*)$|^`{32} example[^\n]*\n([\s\S]*?)^\.\n([\s\S]*?)^`{32}$/gm,
  );
  const counts: Record<string, [number, number]> = {};
  let section = "";
  for (const [, heading, text, html] of examples) {
    if (heading) section = heading.replace(/^#+ /, "");
    if (text === undefined || html === undefined) continue;
    const [made, wanted] = [text, html].map((one) => one.replaceAll("→", "\t")) as [string, string];
    const [shown, expected] = [structure(markdown(made)), structure(reference(wanted))];
    const count = (counts[section] ??= [0, 0]);
    count[1] += 1;
    if (shown === expected) count[0] += 1;
    else console.log(`${section}\n${made}\n  ${shown}\n  ${expected}\n`);
  }
  console.log(counts);
});
