/** Names of files in a reply: what is read as one, what is opened, and the links on the page. */
import "./dom";
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import promises from "node:fs/promises";
import { after, mock, test } from "node:test";
import { existing, findFile } from "../src/chat/files";
import type { FromWebview } from "../src/chat/messages";
import { type Exchange, exchange, newRun } from "../src/chat/model";
import { fileNamesIn } from "../src/file_names";
import type { CommandInfo } from "../src/protocol";
import { ExchangeView } from "../src/webview/exchange_view";

const base = mkdtempSync(join(tmpdir(), "aish-files-"));
after(() => rmSync(base, { recursive: true }));

const [own, other, outside] = [join(base, "own"), join(base, "other"), join(base, "outside")];
const FILES = [
  "own/src/a.py",
  "own/src/[id].tsx",
  "own/src/(b) c.ts",
  "own/a:b.txt",
  "own/notes:3",
  "own/straße/名前.md",
  "own/Makefile",
  "other/src/a.py",
  "outside/secret.txt",
];
for (const name of FILES) {
  mkdirSync(dirname(join(base, name)), { recursive: true });
  writeFileSync(join(base, name), "text\n");
}
symlinkSync(join(outside, "secret.txt"), join(own, "out.txt"));
symlinkSync(outside, join(own, "out"));
symlinkSync(join(own, "src"), join(own, "in"));

const folders = { own, all: [own, other] };

/** Return the first target of a text that is a file of the folder. */
async function read(text: string): Promise<string | undefined> {
  const targets = fileNamesIn(text).map(({ target }) => target);
  const [target] = await existing(targets, folders);
  return target;
}

test("a name in a text is found, with the place that stands behind it", async () => {
  const texts: Record<string, string> = {
    "See src/a.py.": "src/a.py",
    "(in ./src/a.py, I think)": "./src/a.py",
    "**src/a.py:22**": "src/a.py:22",
    "src/a.py:22:5: error: expected ';'": "src/a.py:22:5",
    "src/a.py:22:import os": "src/a.py:22",
    "src/a.py:import os": "src/a.py",
    "src/a.py:22-30": "src/a.py:22-30",
    "src/a.py(3,5): error TS2322": "src/a.py(3,5)",
    "src/a.py#L22-L30": "src/a.py#L22-L30",
    '  File "src/a.py", line 22, in f': "src/a.py:22",
    "    at f (src/(b) c.ts:10:5)": "src/(b) c.ts:10:5",
    "    at g (src/a.py:10:5)": "src/a.py:10:5",
    " --> src/a.py:3:5": "src/a.py:3:5",
    [`${own}/src/a.py:3: in f`]: `${own}/src/a.py:3`,
    [`    at file://${own}/src/a.py:12:3`]: `file://${own}/src/a.py:12:3`,
    [`    at async f (file://${own}/src/(b)%20c.ts?v=1:12:3)`]: `file://${own}/src/(b)%20c.ts?v=1:12:3`,
    [`file://${own}/src/a.py:12`]: `file://${own}/src/a.py:12`,
    "app: src/[id].tsx": "src/[id].tsx",
    "(src/[id].tsx)": "src/[id].tsx",
    "a:b.txt": "a:b.txt",
    "straße/名前.md:1": "straße/名前.md:1",
    "Makefile:3: *** missing separator.": "Makefile:3",
  };
  for (const [text, target] of Object.entries(texts)) {
    assert.equal(await read(text), target, text);
  }
});

test("what is no file of the folder is none, whatever it looks like", async () => {
  const texts = [
    "ssh host:22, http://localhost:8080/src/a.py and C:\\src\\a.py:3",
    "e.g. v1.2.3 and Node.js, src/ or src/gone.py:1",
    "../outside/secret.txt and src/../../outside/secret.txt",
    `${outside}/secret.txt`,
    "out.txt out/secret.txt",
    `file://${outside}/secret.txt:1:2 file://${own}/../outside/secret.txt command:quit`,
    `file://host${own}/src/a.py:1 xfile://${own}/src/a.py file:///%00/a.py file:///%2F/a.py`,
    `${"x/".repeat(2048)}a.py`,
    "src/a.py\0",
    "(((((( :::: .... ]]]] {",
  ];
  for (const text of texts) assert.equal(await read(text), undefined, text);
});

test("a target is a file within the folders, links followed, else nothing", async () => {
  const at = async (target: string): Promise<unknown> => await findFile(target, folders);
  const path = join(own, "src/a.py");
  assert.deepEqual(await at("src/a.py:999999"), { path, line: 999999, column: 0 });
  assert.deepEqual(await at("in/a.py:2:7"), { path, line: 2, column: 7 });
  assert.deepEqual(await at("src/../src/a.py"), { path, line: 0, column: 0 });
  const blanks = { path: join(own, "src/(b) c.ts"), line: 0, column: 0 };
  assert.deepEqual(await at("src/(b) c.ts"), blanks);
  const frame = `file://${own}/src/(b)%20c.ts?v=1:12:3`;
  assert.deepEqual(await at(frame), { ...blanks, line: 12, column: 3 });
  assert.deepEqual(await at("notes:3"), { path: join(own, "notes:3"), line: 0, column: 0 });
  assert.deepEqual(await at(join(other, "src/a.py")), {
    path: join(other, "src/a.py"),
    line: 0,
    column: 0,
  });
  for (const target of ["", ".", "/", "src", "../other/../outside/secret.txt", "out.txt", "a\0b"]) {
    assert.equal(await at(target), undefined, target);
  }
  assert.equal(await findFile("src/a.py", { own: "", all: [] }), undefined);
});

test("a name outside of the folders is not looked at, not even to see whether it is there", async () => {
  const looked: string[] = [];
  const { realpath } = promises;
  const look = mock.method(promises, "realpath", async (path: string) => {
    looked.push(path);
    return await realpath(path);
  });
  const names = [`${outside}/secret.txt`, "../outside/secret.txt", "//host/share/a.py"];
  assert.deepEqual(await existing([...names, "src/a.py"], folders), ["src/a.py"]);
  look.mock.restore();
  assert.deepEqual(looked, [own, other, join(own, "src/a.py")]);
});

const posted: FromWebview[] = [];

function shown(text: string, known: Partial<Exchange> = {}): ExchangeView {
  posted.length = 0;
  const made = { ...exchange("k", "why?", "running"), ...known };
  const view = new ExchangeView(made, "s", (message) => posted.push(message));
  view.take([{ kind: "text", delta: text }]);
  return view;
}

function ended(view: ExchangeView): string[] {
  const { exchange: made } = view as unknown as { exchange: Exchange };
  view.replace({ ...made, state: "ended" });
  return posted.flatMap((message) => (message.kind === "findFiles" ? message.targets : []));
}

function linksOf(view: ExchangeView): [string, string][] {
  return [...view.element.querySelectorAll<HTMLElement>("a.file")].map((one) => [
    one.textContent,
    one.dataset["target"] ?? "",
  ]);
}

test("names are asked for once the reply has ended, and those that are there are links", () => {
  const view = shown("In `my file.txt` or src/a.py:22, see [it](src/a%20b.py#L2) and b.py.\n");
  assert.deepEqual(posted, []);
  const asked = ended(view);
  for (const one of ["my file.txt", "src/a.py:22", "src/a b.py#L2", "b.py"])
    assert.ok(asked.includes(one));
  view.showFiles(["my file.txt", "src/a.py:22", "src/a b.py#L2"]);
  assert.deepEqual(linksOf(view), [
    ["my file.txt", "my file.txt"],
    ["src/a.py:22", "src/a.py:22"],
    ["it", "src/a b.py#L2"],
  ]);
  for (const link of view.element.querySelectorAll("a.file")) assert.ok(link.hasAttribute("href"));
  assert.equal(view.element.querySelector(".target"), null);
  ended(view);
  assert.equal(posted.length, 1);
});

test("names in a block of code are links, and no others are where a card stands", () => {
  const command: CommandInfo = {
    ...{ id: "c", text: "cat src/a.py", line: 4, endLine: 4, source: "cmd", placeholders: [] },
    ...{ risk: "safe", reasons: [] },
  };
  const text = '```\n  File "src/a.py", line 3\n```\n\nCMD: cat src/a.py\n';
  const view = shown(text, { commands: [command] });
  ended(view);
  view.showFiles(["src/a.py:3", "src/a.py"]);
  assert.deepEqual(linksOf(view), [["src/a.py", "src/a.py:3"]]);
});

test("the file that a call is about is a link, and what the reply changed can be undone", () => {
  const view = shown("Done.\n", { canUndo: true });
  const call = { kind: "tool", callId: "t", server: "aish", name: "edit_file" } as const;
  const made = { arguments: "{}", status: "done", title: "Edited src/a.py", result: "" } as const;
  view.take([{ ...call, ...made, diff: "- a\n+ b" }]);
  assert.ok(ended(view).includes("src/a.py"));
  view.showFiles(["src/a.py"]);
  assert.deepEqual(linksOf(view), [["src/a.py", "src/a.py"]]);
  // Nothing else can be pressed inside of what opens and closes.
  assert.equal(view.element.querySelector("summary a"), null);
  [...view.element.querySelectorAll("button")]
    .find(({ textContent }) => textContent === "Undo its changes")
    ?.click();
  assert.deepEqual(posted.at(-1), { kind: "undo", session: "s", key: "k" });
});

test("names in an output are links once the command has ended", () => {
  const run = {
    ...newRun(),
    output: "\x1b[1msrc/a.c:3:5: \x1b[31merror\x1b[m\n\x1b[35mb.c\x1b[m:\x1b[32m7\x1b[m:y",
  };
  const view = shown("", { runs: { c: run } });
  assert.deepEqual(ended(view), []);
  view.takeRun("c", { ...run, state: "ended", exitCode: 1 });
  assert.ok(ended(view).includes("src/a.c:3:5"));
  view.showFiles(["src/a.c:3:5", "b.c:7"]);
  assert.deepEqual(linksOf(view), [
    ["src/a.c:3:5", "src/a.c:3:5"],
    ["b.c", "b.c:7"],
  ]);
});

test("10,000 names in a reply are links, and nothing is lost", () => {
  const names = Array.from({ length: 10_000 }, (_, at) => `src/file${at}.py`);
  const view = shown(`${names.join(" ")}\n`);
  const asked = ended(view);
  assert.deepEqual(asked, names);
  view.showFiles(asked);
  assert.equal(linksOf(view).length, 10_000);
  assert.ok(view.element.textContent.includes(names.join(" ")));
});

test("there is an end to the names that are read and looked for", async () => {
  assert.equal(fileNamesIn("src/a.py ".repeat(20_001)).length, 20_000);
  const names = Array.from({ length: 20_001 }, () => "src/a.py");
  const look = mock.method(
    promises,
    "realpath",
    async (path: string) => await Promise.resolve(path),
  );
  const found = await existing(names, { own, all: [own] });
  look.mock.restore();
  assert.equal(found.length, 20_000);
});
