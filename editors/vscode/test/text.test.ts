import "./dom";
import assert from "node:assert/strict";
import { test } from "node:test";
import { nested } from "../src/server/nested";
import { dollars, percent, short, unlinked, visible } from "../src/text";
import { isOlder } from "../src/version";
import { ansi } from "../src/webview/ansi";
import { GrowingText } from "../src/webview/growing_text";

test("nothing is hidden in what is shown", () => {
  assert.equal(visible("a\u202eb\u200bc\u001bd\re"), "a<U+202E>b<U+200B>c<U+001B>d<U+000D>e");
  assert.equal(visible("a\tb\nc é 😀"), "a\tb\nc é 😀");
  assert.equal(visible("\u{e0041}"), "<U+E0041>");
});

test("nothing in a message becomes a link of VS Code's that runs a command", () => {
  assert.equal(unlinked("see [this](command:a.b?%5B1%5D)"), "see [this] (command:a.b?%5B1%5D)");
  assert.equal(unlinked("f[0](x), [y] and (z)"), "f[0] (x), [y] and (z)");
});

test("only settings that somebody has set go to the server, by the server's names", () => {
  const values: Record<string, unknown> = {
    "context.maxTurns": 3,
    "context.compress.keepTurns": 1,
    defaultModel: "local",
  };
  const names = ["context.maxTurns", "context.tokenBudget", "context.compress.keepTurns"];
  const found = nested([...names, "defaultModel", "memory.path"], {
    inspect: (key) => (key in values ? { globalValue: values[key] } : { defaultValue: 7 }),
    get: (key) => values[key] ?? 7,
  });
  assert.deepEqual(found, {
    context: { max_turns: 3, compress: { keep_turns: 1 } },
    default_model: "local",
  });
});

test("versions are compared by their numbers", () => {
  assert.ok(isOlder("0.0.9", "0.1.0"));
  assert.ok(isOlder("no version", "0.1.0"));
  assert.ok(!isOlder("0.10.0", "0.9.1"));
  assert.ok(!isOlder("0.1.0.dev3", "0.1.0"));
});

test("numbers are short", () => {
  assert.deepEqual([950, 1234, 34567].map(short), ["950", "1.2k", "35k"]);
  assert.deepEqual([null, 0.00123, 1.5].map(dollars), ["", "$0.0012", "$1.50"]);
  assert.equal(percent(1, 0), 0);
  assert.equal(percent(40, 2), 100);
});

function painted(...texts: string[]): HTMLElement {
  const element = document.createElement("div");
  const paint = ansi();
  for (const text of texts) paint.add(element, text);
  return element;
}

test("colors are classes, whole or in pieces, and no other code does anything", () => {
  const html = painted("\u001b[31mred\u001b[0m plain").innerHTML;
  assert.equal(html, '<span class="fg-ansi-red">red</span> plain');
  const text = "a\u001b[1;32mgreen\u001b[0mb";
  for (let at = 0; at <= text.length; at += 1) {
    const cut = painted(text.slice(0, at), text.slice(at));
    assert.equal(cut.textContent, "agreenb", String(at));
  }
  const hostile =
    "\u001b]8;;http://evil.example\u0007link\u001b]8;;\u0007\u001b[2J\u001b[5;5H<b>x</b>";
  assert.equal(painted(hostile).innerHTML, "link&lt;b&gt;x&lt;/b&gt;");
  assert.equal(painted("50%\r100%\n").textContent, "100%\n");
});

test("a carriage return begins the line anew, wherever the pieces are cut", () => {
  assert.equal(
    painted("a\n\u001b[31m10%\u001b[0m", " of 9\r", "20%\r", "30%").textContent,
    "a\n30%",
  );
  const reset = painted("\u001b[31mred\n", "\u001b[0m10%\r20%").innerHTML;
  assert.equal(reset, '<span class="fg-ansi-red">red\n</span>20%');
  const text = "one\r\ntwo\r\r\n10%\r20%\r\nthree\r";
  for (let at = 0; at <= text.length; at += 1) {
    const cut = painted(text.slice(0, at), text.slice(at));
    assert.equal(cut.textContent, "one\ntwo\n20%\nthree", String(at));
  }
});

test("what is written over leaves nothing, however often that is", () => {
  const view = new GrowingText("output");
  let text = "";
  for (let at = 0; at < 5000; at += 1) view.update((text += `\r${String(at)} of 5000 done`));
  assert.equal(view.element.textContent, "4999 of 5000 done");
});

test("a line that comes in pieces is never cut by a piece of its own", () => {
  const view = new GrowingText("code");
  let text = "";
  for (let number = 0; number < 3000; number += 1) {
    text += number % 20 ? " word" : "\n word";
    view.update(text);
  }
  const pieces = [...view.element.querySelectorAll(".piece")].map((one) => one.textContent);
  assert.ok(pieces.length > 2);
  assert.ok(
    pieces.slice(0, -1).every((piece) => piece.endsWith("\n")),
    JSON.stringify(pieces),
  );
});

test("a text that grows is the text, however it comes", () => {
  const text = Array.from({ length: 3000 }, (_, at) => `line ${at}`).join("\n");
  const view = new GrowingText("code");
  for (let at = 0; at < text.length; at += 997) view.update(text.slice(0, at));
  view.update(text);
  assert.equal(view.element.textContent, text);
  assert.ok(view.element.childElementCount > 3);
  view.update("other");
  assert.equal(view.element.textContent, "other");
});
