import "./dom";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { FromWebview, Tab, ToWebview } from "../src/chat/messages";
import { exchange, newRun } from "../src/chat/model";

const posted: FromWebview[] = [];
Object.defineProperty(globalThis, "acquireVsCodeApi", {
  value: () => ({
    postMessage: (message: FromWebview) => posted.push(message),
    getState: () => ({ drafts: { sent: "why?", typed: "and then" } }),
    setState: () => undefined,
  }),
});
const begun = import("../src/webview/chat");

async function box(): Promise<HTMLTextAreaElement> {
  await begun;
  const found = document.querySelector("textarea");
  assert.ok(found);
  return found;
}

function type(into: HTMLTextAreaElement, text: string): void {
  into.value = text;
  into.dispatchEvent(new window.Event("input"));
}

function show(active: string, ...sessions: string[]): void {
  const tab = (session: string): Tab => ({ session, title: session, folder: "", isBusy: false });
  const tabs = sessions.map(tab);
  const exchanges = active === "sent" ? [exchange("k", "why?", "ended")] : [];
  const data: ToWebview = { kind: "chat", tabs, active, exchanges, sendWith: "enter" };
  window.dispatchEvent(new window.MessageEvent("message", { data }));
}

test("what is typed before there is a chat stays", async () => {
  const input = await box();
  type(input, "how do I");
  show("");
  assert.equal(input.value, "how do I");
  show("one", "one");
  assert.equal(input.value, "how do I");
});

test("what is typed into a chat is there again when it is", async () => {
  const input = await box();
  show("one", "one", "two");
  type(input, "for one");
  show("two", "one", "two");
  assert.equal(input.value, "");
  type(input, "for two");
  show("one", "one", "two");
  assert.equal(input.value, "for one");
});

test("what is typed into a chat that is gone moves on", async () => {
  const input = await box();
  show("one", "one");
  type(input, "for one");
  show("three", "three");
  assert.equal(input.value, "for one");
  show("three", "three");
  assert.equal(input.value, "for one");
});

test("what is typed into a chat goes along to the session that takes its place, in sight or not", async () => {
  const input = await box();
  show("two", "hidden", "two");
  type(input, "for two");
  show("hidden", "hidden", "two");
  type(input, "for hidden");
  show("two", "hidden", "two");
  for (const name of ["hidden", "two"]) {
    const data: ToWebview = { kind: "renamed", from: name, to: `${name}, anew` };
    window.dispatchEvent(new window.MessageEvent("message", { data }));
  }
  assert.equal(input.value, "for two");
  show("two, anew", "hidden, anew", "two, anew");
  assert.equal(input.value, "for two");
  show("hidden, anew", "hidden, anew", "two, anew");
  assert.equal(input.value, "for hidden");
  type(input, "");
});

function key(on: Element | null, name: string): void {
  on?.dispatchEvent(new window.KeyboardEvent("keydown", { key: name, bubbles: true }));
}

test("the arrow keys walk through the tabs, and Delete closes one", async () => {
  await box();
  show("one", "one", "two", "three");
  posted.length = 0;
  const tab = (): HTMLElement | null => document.querySelector("[role=tab][aria-selected=true]");
  tab()?.focus();
  key(tab(), "ArrowLeft");
  assert.deepEqual(posted.at(-1), { kind: "show", session: "three" });
  show("three", "one", "two", "three");
  assert.equal(document.activeElement, tab());
  key(tab(), "Home");
  assert.deepEqual(posted.at(-1), { kind: "show", session: "one" });
  key(tab(), "Delete");
  assert.deepEqual(posted.at(-1), { kind: "close", session: "three" });
});

test("a text is put in where the caret is, which stays behind it", async () => {
  const input = await box();
  type(input, "see for the rest");
  input.setSelectionRange(3, 3);
  const data: ToWebview = { kind: "insert", text: "@a.py ", replaces: false };
  window.dispatchEvent(new window.MessageEvent("message", { data }));
  assert.equal(input.value, "see @a.py  for the rest");
  assert.equal(input.selectionStart, 10);
});

test("a draft of a page that was closed is there again, unless it was sent", async () => {
  const input = await box();
  show("typed", "typed", "sent", "three");
  assert.equal(input.value, "and then");
  show("sent", "typed", "sent");
  assert.equal(input.value, "");
});

function send(data: ToWebview): void {
  window.dispatchEvent(new window.MessageEvent("message", { data }));
}

test("keys belong to an input method while it composes", async () => {
  const input = await box();
  show("one", "one");
  type(input, "@x");
  const asked = posted.findLast((one) => one.kind === "complete");
  const item = { kind: "file", label: "x.py", insert: "@x.py ", detail: "", start: 0 } as const;
  input.focus();
  send({ kind: "proposals", number: asked?.number ?? 0, items: [item] });
  posted.length = 0;
  const list = document.querySelector<HTMLElement>("#proposals");
  assert.equal(list?.hidden, false);
  const press = (key: string, isComposing: boolean): void => {
    input.dispatchEvent(new window.KeyboardEvent("keydown", { key, isComposing, bubbles: true }));
  };
  for (const key of ["Enter", "Tab", "ArrowDown", "Escape"]) press(key, true);
  assert.equal(input.value, "@x");
  assert.equal(list.hidden, false);
  press("Escape", false);
  assert.equal(list.hidden, true);
  press("Escape", true);
  assert.deepEqual(posted, [], "nothing is sent or stopped");
  press("Escape", false);
  assert.deepEqual(posted, [{ kind: "stop", session: "one" }]);
  type(input, "");
});

test("what is told of a chat that is out of sight changes nothing in the one that is in sight", async () => {
  await box();
  show("sent", "one", "sent");
  const run = { ...newRun(), output: "of another chat" };
  send({ kind: "run", session: "one", key: "k", commandId: "c", run });
  assert.equal(document.querySelector(".card"), null);
  send({ kind: "run", session: "sent", key: "k", commandId: "c", run });
  assert.ok(document.querySelector(".card"));
});

test("a file of a remote window can be dropped as one of this machine can", async () => {
  await box();
  posted.length = 0;
  const dropped =
    "vscode-remote://ssh-remote%2Bhost/a.py\r\nhttps://x.example/b.py\r\nfile:///c.py";
  const event = new window.Event("drop");
  Object.assign(event, { dataTransfer: { getData: () => dropped } });
  document.dispatchEvent(event);
  const uris = ["vscode-remote://ssh-remote%2Bhost/a.py", "file:///c.py"];
  assert.deepEqual(posted, [{ kind: "dropFiles", uris }]);
});

test("the end of each reply is told, also in the same words as that of the one before", async () => {
  await box();
  show("one", "one");
  const spoken = document.querySelector("[aria-live=polite]");
  const told = [];
  for (const key of ["a", "b"]) {
    for (const state of ["running", "ended"] as const) {
      send({ kind: "exchange", session: "one", exchange: exchange(key, "why?", state) });
      told.push(spoken?.textContent);
    }
  }
  assert.deepEqual(told, ["", "The reply is complete.", "", "The reply is complete."]);
});
