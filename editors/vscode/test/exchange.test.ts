import "./dom";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { FromWebview } from "../src/chat/messages";
import { type Exchange, exchange, newRun, STOPPED } from "../src/chat/model";
import type { CommandInfo } from "../src/protocol";
import { ExchangeView } from "../src/webview/exchange_view";

const posted: FromWebview[] = [];

function shown(known: Partial<Exchange>): ExchangeView {
  posted.length = 0;
  const made: Exchange = { ...exchange("k", "why?", "running"), ...known };
  return new ExchangeView(made, "s", (message) => posted.push(message));
}

function press(view: ExchangeView, label: string, at = 0): void {
  const found = [...view.element.querySelectorAll("button")].filter(
    ({ textContent }) => textContent === label,
  );
  assert.ok(found[at], label);
  found[at].click();
}

test("a block that comes can replace the selection, by its number among those that can", () => {
  const view = shown({ replaces: true });
  view.take([{ kind: "text", delta: "```diff\n-a\n```\n1. so\n\n   ```py\n   a\n   ```\n" }]);
  view.take([{ kind: "text", delta: "\n```py\nb\n```\n" }]);
  press(view, "Replace selection", 2);
  assert.deepEqual(posted, [{ kind: "replace", session: "s", key: "k", block: 1 }]);
});

test("that no model is connected is told once, and the button below the reply connects one", () => {
  const message = "The offline model answers. `:model add` connects one.";
  const view = shown({ model: "offline", state: "ended" });
  view.take([{ kind: "notice", level: "info", message }]);
  assert.equal(
    view.element.querySelector(".notice")?.textContent.trim(),
    "The offline model answers.",
  );
  press(view, "Connect a model");
  assert.deepEqual(posted, [{ kind: "action", action: "connectModel" }]);
});

const REFUSED = "The server refuses the key: see `api_key_env`.";

function actions(view: ExchangeView): (string | null)[] {
  return [...view.element.querySelectorAll(".callout button")].map((one) => one.textContent);
}

for (const errorKind of ["backendUnavailable", "backendRejected"]) {
  test(`an error of kind ${errorKind} is told once, and offers a model and the models' settings`, () => {
    const view = shown({ error: REFUSED, errorKind, state: "ended" });
    assert.equal(view.element.textContent.split("refuses the key").length, 2);
    assert.equal(view.element.querySelector(".callout code")?.textContent, "api_key_env");
    for (const label of actions(view)) press(view, label ?? "");
    assert.deepEqual(posted, [
      { kind: "retry", session: "s", key: "k", choosesModel: false },
      { kind: "retry", session: "s", key: "k", choosesModel: true },
      { kind: "action", action: "connectModel" },
      { kind: "action", action: "editModels" },
    ]);
  });
}

test("an error that no other model mends leads to the settings alone", () => {
  const view = shown({ error: "The cap is reached.", errorKind: "costCap", state: "ended" });
  assert.deepEqual(actions(view), ["Retry", "Another model", "Settings"]);
  press(view, "Settings");
  assert.deepEqual(posted, [{ kind: "action", action: "openSettings" }]);
});

test("an error of a question that was asked again offers nothing", () => {
  const view = shown({ error: "It broke.", state: "ended", isPast: true });
  assert.equal(view.element.querySelector(".callout button"), null);
});

test("an edit is shown as its lines, those that come and those that go told apart", () => {
  const view = shown({});
  const call = { kind: "tool", callId: "t", server: "aish", name: "edit_file" } as const;
  const more = {
    arguments: "{}",
    status: "done",
    title: "Edited a.py",
    result: "Changed a.py: 1 line added, 1 removed. It is open in the editor.",
  } as const;
  view.take([{ ...call, ...more, diff: "  a\n- b\n+ c" }]);
  const edit = view.element.querySelector(".tool");
  assert.equal(edit?.querySelector(".added")?.textContent, "+ c\n");
  assert.equal(edit.querySelector(".removed")?.textContent, "- b\n");
  assert.equal(edit.querySelector(".note")?.textContent, "It is open in the editor.");
});

test("how a call ended is an icon beside its title, and no sign that is read aloud", () => {
  const view = shown({});
  const call = { kind: "tool", callId: "t", server: "aish", name: "x", arguments: "{}" } as const;
  for (const status of ["pending", "running", "done", "failed", "denied"] as const) {
    view.take([{ ...call, status, title: "Looked", result: null, diff: null }]);
    const summary = view.element.querySelector("summary");
    assert.equal(summary?.textContent, " Looked");
    assert.equal(summary.querySelectorAll('.icon[aria-hidden="true"] svg').length, 1);
  }
});

const COMMAND: CommandInfo = {
  id: "c",
  text: "ls x",
  line: 0,
  endLine: 0,
  source: "cmd",
  placeholders: [],
  risk: "safe",
  reasons: [],
};

test("a fence that repeats the command of a card is hidden while the card is there", () => {
  const made = {
    ...exchange("k", "why?", "running"),
    commands: [{ ...COMMAND, line: 4, endLine: 4 }],
  };
  const view = new ExchangeView(made, "s", () => undefined);
  view.take([{ kind: "text", delta: "```sh\nls x\n```\n\nCMD: ls x\n\n```sh\nls y\n```\n" }]);
  const [repeat, other] = view.element.querySelectorAll(".code-block");
  assert.ok(repeat && !repeat.classList.contains("repeat"), "it is not hidden while more comes");
  view.replace({ ...made, state: "ended" });
  assert.ok(repeat.classList.contains("repeat"));
  assert.ok(other && !other.classList.contains("repeat"));
  view.drop("c");
  assert.ok(!repeat.classList.contains("repeat"));
});

test("a command that failed can be explained and mended, one that did not cannot", () => {
  const ended = { ...newRun(), state: "ended" as const };
  const view = shown({ commands: [COMMAND], runs: { c: { ...ended, exitCode: 2 } } });
  press(view, "Explain");
  view.takeRun("c", { ...ended, exitCode: 2, inTerminal: true });
  press(view, "Fix");
  assert.deepEqual(posted, [
    { kind: "send", session: "s", text: "Explain why `ls x` failed." },
    {
      kind: "send",
      session: "s",
      text: "@terminal Suggest what to run instead, as `ls x` failed.",
    },
  ]);
  view.takeRun("c", { ...ended, exitCode: 0 });
  assert.throws(() => press(view, "Explain"));
  view.takeRun("c", { ...ended, signal: "SIGTERM", note: STOPPED });
  assert.throws(() => press(view, "Explain"));
  assert.equal(view.element.querySelector(".ended")?.textContent, "stopped");
});

test("a command that has ended is left alone while another one prints", () => {
  const commands = [COMMAND, { ...COMMAND, id: "d", text: "ls z" }];
  const runs = { c: { ...newRun(), state: "ended" as const, exitCode: 1, output: "no" } };
  const view = shown({ commands, runs });
  const [ended, running] = view.element.querySelectorAll(".card");
  const parts = [...(ended?.querySelectorAll("button, [role=status]") ?? [])];
  assert.ok(parts.length > 3);
  view.take([{ kind: "output", commandId: "d", stream: "stdout", delta: "one\n" }]);
  const status = running?.querySelector("[role=status]");
  view.take([{ kind: "output", commandId: "d", stream: "stdout", delta: "two\n" }]);
  assert.deepEqual([...(ended?.querySelectorAll("button, [role=status]") ?? [])], parts);
  assert.equal(running?.querySelector("[role=status]"), status, "it is not read aloud again");
  assert.equal(running?.querySelector(".output + .ended"), status);
  view.takeRun("d", { ...newRun(), state: "ended", exitCode: 0 });
  assert.match(running?.textContent ?? "", /Run again.*exit 0/);
});

test("a call whose arguments the user reads stays open when it ends", () => {
  const view = shown({});
  const call = { kind: "tool", callId: "t", server: "aish", name: "x", arguments: "{}" } as const;
  view.take([{ ...call, status: "running", title: "Looking", result: null, diff: null }]);
  view.element.querySelector("details")?.setAttribute("open", "");
  view.take([{ ...call, status: "done", title: "Looked", result: "it", diff: null }]);
  assert.ok(view.element.querySelector("details[open]"));
});

test("an input method can be left with Escape without losing what is edited", () => {
  const view = shown({ commands: [COMMAND], state: "ended" });
  for (const label of ["Edit the question", "Edit the command"]) {
    const name =
      label === "Edit the question" ? ".you [aria-label=Edit]" : ".card [aria-label=Edit]";
    view.element.querySelector<HTMLElement>(name)?.click();
    const box = view.element.querySelector(`[aria-label="${label}"]`);
    const press = (isComposing: boolean): void => {
      box?.dispatchEvent(new window.KeyboardEvent("keydown", { key: "Escape", isComposing }));
    };
    press(true);
    assert.ok(view.element.contains(box), label);
    press(false);
    assert.ok(!view.element.contains(box), label);
  }
});

test("a command of which only one gap was filled in waits to be filled in", () => {
  const gaps = { ...COMMAND, text: "mv <old> <new>", placeholders: ["<old>", "<new>"] };
  const view = shown({ commands: [gaps], state: "ended" });
  view.takeRun("c", { ...newRun(), edited: "mv <old> x", state: "denied" });
  assert.match(view.element.querySelector(".card")?.textContent ?? "", /Fill in and run/);
  view.takeRun("c", { ...newRun(), edited: "mv y x", state: "denied" });
  assert.doesNotMatch(view.element.querySelector(".card")?.textContent ?? "", /Fill in and run/);
});

test("a card shows, copies and edits what the user has made of its command, and no risk of the old one", () => {
  const view = shown({ commands: [{ ...COMMAND, risk: "destructive" }], state: "ended" });
  assert.match(view.element.querySelector(".card.destructive")?.textContent ?? "", /destructive/);
  view.takeRun("c", { ...newRun(), edited: "ls other", state: "ended", exitCode: 0 });
  const card = view.element.querySelector(".card.caution:not(.destructive)");
  assert.equal(card?.querySelector(".command")?.textContent, "ls other");
  assert.equal(card.querySelector(".risk"), null);
  assert.equal(card.getAttribute("aria-label"), "Command: ls other");
  card.querySelector<HTMLElement>("[aria-label=Copy]")?.click();
  assert.deepEqual(posted, [{ kind: "copy", text: "ls other" }]);
  card.querySelector<HTMLElement>("[aria-label=Edit]")?.click();
  assert.equal(card.querySelector("textarea")?.value, "ls other");
});
