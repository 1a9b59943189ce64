import assert from "node:assert/strict";
import { test } from "node:test";
import { Fences } from "../src/fences";
import type { CommandInfo } from "../src/protocol";

function shown(...pieces: string[]): string {
  const fences = new Fences();
  return pieces.map((piece) => fences.take(piece)).join("") + fences.end();
}

const LINES = ["cat > a <<E", "CMD: no", "", "E"];
const FOUND = { text: LINES.join("\n"), line: 1, endLine: 4, source: "cmd" } as CommandInfo;
const NEXT = { text: "ls", line: 6, endLine: 6, source: "cmd" } as CommandInfo;
const REPLY = `So.\nCMD: ${FOUND.text}\nThen.\nCMD: ls`;

/** Show a reply in two pieces, with the server's word on each command once its last line is there. */
function shownAsFound(at: number): string {
  const fences = new Fences();
  let [made, lines] = ["", 0];
  for (const piece of [REPLY.slice(0, at), REPLY.slice(at)]) {
    made += fences.take(piece);
    lines += piece.split("\n").length - 1;
    if (lines > FOUND.endLine && !made.includes("<<E")) made += fences.suggest(FOUND);
  }
  return made + fences.suggest(NEXT) + fences.end();
}

test("a command of several lines is one block, with what the server has found", () => {
  for (let at = 0; at <= REPLY.length; at += 1) {
    assert.equal(
      shownAsFound(at),
      `So.\n\n\`\`\`sh\n${FOUND.text}\n\`\`\`\nThen.\n\n\`\`\`sh\nls\n\`\`\`\n`,
    );
  }
});

test("a line that the server passes by holds up only what comes before the next command", () => {
  const fences = new Fences();
  const before = fences.take("CMD: a\nWell.\nCMD: b\nEnd.\n");
  const b = { text: "b", line: 2, endLine: 2, source: "cmd" } as CommandInfo;
  const made = before + fences.suggest(b);
  assert.equal(made, "\n```sh\na\n```\nWell.\n\n```sh\nb\n```\nEnd.\n");
});

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
