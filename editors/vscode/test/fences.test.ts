import assert from "node:assert/strict";
import { test } from "node:test";
import { Fences } from "../src/fences";

function shown(...pieces: string[]): string {
  const fences = new Fences();
  return pieces.map((piece) => fences.take(piece)).join("") + fences.end();
}

test("a suggestion becomes a block, and nothing else does", () => {
  const text = "Lists.\nCMD: ls -la\nIt is `CMD: x`.\n  CMD: indented\nCM\nCMD:none\n";
  const made = "Lists.\n\n```sh\nls -la\n```\nIt is `CMD: x`.\n  CMD: indented\nCM\nCMD:none\n";
  assert.equal(shown(text), made);
  const fenced = "```text\nCMD: a\n```\nCMD: b\n~~~~\n~~~\nCMD: c\n~~~~\nCMD: d";
  assert.equal(
    shown(fenced),
    "```text\nCMD: a\n```\n\n```sh\nb\n```\n~~~~\n~~~\nCMD: c\n~~~~\n\n```sh\nd\n```\n",
  );
  assert.equal(shown("CMD: echo '```'\n"), "\n````sh\necho '```'\n````\n");
});

test("however a reply is cut, the same is shown", () => {
  const text = "Well.\nCMD: make test\n\n```sh\nCMD: a\n```\nCMDs\nCMD: b\nCM";
  for (let first = 0; first <= text.length; first += 1) {
    for (let second = first; second <= text.length; second += 3) {
      const cut = [text.slice(0, first), text.slice(first, second), text.slice(second)];
      assert.equal(shown(...cut), shown(text));
    }
  }
  assert.equal(shown(...text.split(/(?=.)/s)), shown(text));
});
