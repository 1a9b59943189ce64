import "./dom";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { FromWebview, Question } from "../src/chat/messages";
import { exchange, fold } from "../src/chat/model";
import type { ApprovalRequest, StepEvent } from "../src/protocol";
import { approvalQuestion } from "../src/question";
import { GoalStrip } from "../src/webview/goal_strip";
import { QuestionViews } from "../src/webview/questions";

const REQUEST: ApprovalRequest = {
  id: "1",
  callId: "c1",
  session: "s",
  kind: "command",
  text: "make\u202e",
  cwd: "file:///home/me/a%20b",
  risk: "caution",
  reasons: ["it may change something", "it is long"],
  diff: null,
  undo: "No undo.",
  covers: "make; ls",
  remember: ["session", "folder"],
  labels: ["Cancel", "Run", "Again (unconfined)", "Always"],
};

const labelsOf = ({ buttons }: Pick<Question, "buttons">): string[] =>
  buttons.map(({ label }) => label);

test("a command to approve is shown whole, with its folder, reasons and what a yes covers", () => {
  const found = approvalQuestion(REQUEST);
  assert.equal(found.code, "make<U+202E>");
  assert.equal(
    found.notes,
    "in /home/me/a b\n\n- it may change something\n- it is long\n\nNo undo." +
      "\n\nRemembered, a yes covers: make; ls",
  );
  assert.deepEqual(labelsOf(found), [
    "Reject",
    "Accept",
    "In this session (unconfined)",
    "From now on in this folder",
  ]);
});

test("a call of a tool server is shown whole, and says what a yes covers", () => {
  const covers = "each call of look, as s describes it now";
  const text = 'look {"text": "a"}';
  const found = approvalQuestion({ ...REQUEST, kind: "tool", text, covers, undo: "" });
  assert.equal(found.title, "Call this tool?");
  assert.equal(found.code, text);
  assert.equal(
    found.notes,
    `- it may change something\n- it is long\n\nRemembered, a yes covers: ${covers}`,
  );
});

test("a destructive command has two buttons, whatever may be remembered", () => {
  const found = approvalQuestion({ ...REQUEST, risk: "destructive" });
  assert.deepEqual(labelsOf(found), ["Cancel", "Run"]);
  assert.ok(found.isDangerous);
});

test("a change is shown by its lines, and a new file is said to be one", () => {
  const diff = { uri: "file:///a.py", before: "a", after: "b", lines: ["-a", "+b\u200b"] };
  const found = approvalQuestion({ ...REQUEST, kind: "edit", text: "a.py", diff });
  assert.equal(found.title, "Change a.py?");
  assert.equal(found.code, "");
  assert.deepEqual(found.lines, ["-a", "+b<U+200B>"]);
  const made = { ...REQUEST, kind: "edit" as const, text: "a.py", diff: { ...diff, before: "" } };
  assert.equal(approvalQuestion(made).title, "Create a.py?");
});

interface Page {
  log: HTMLElement;
  views: QuestionViews;
  posted: FromWebview[];
  asked: (change?: Partial<Question>) => Question;
}

function page(rows: string): Page {
  document.body.innerHTML = `<main>${rows}</main><div class="composer"><textarea></textarea></div>`;
  const log = document.querySelector("main");
  assert.ok(log);
  const posted: FromWebview[] = [];
  const views = new QuestionViews(log, (message) => posted.push(message));
  log.after(views.element);
  const asked = (change: Partial<Question> = {}): Question => ({
    id: "q1",
    session: "s",
    row: "c1",
    ...approvalQuestion(REQUEST),
    ...change,
  });
  return { log, views, posted, asked };
}

const CARD = '<section class="card" data-command="c1"></section>';

const questionIn = (place: Element | null): Element | null =>
  place?.querySelector("[data-question]") ?? null;

test("a question is in the row that waits, also when that is made again", () => {
  const { log, views, asked } = page(CARD);
  assert.equal(views.show([asked()], "s"), "aish asks: Run this command?");
  assert.ok(questionIn(log.querySelector(".card")));
  assert.ok(views.element.hidden);
  log.innerHTML = CARD;
  views.place();
  assert.ok(questionIn(log.querySelector(".card")));
  assert.equal(views.show([asked()], "s"), "");
  log.innerHTML = '<details class="tool" data-call="c1"></details>';
  views.place();
  assert.ok(log.querySelector(".tool + [data-question]"));
});

test("what a question says is paragraphs, with its code set apart", () => {
  const { views, asked } = page("");
  const notes = "It runs one.\n\n    a  b\n    c\n\n`:undo` takes it back: <b>.";
  views.show([asked({ row: "", code: "", notes })], "s");
  const [first, second] = views.element.querySelectorAll(".question-note");
  assert.equal(first?.textContent, "It runs one.");
  assert.equal(second?.innerHTML, "<code>:undo</code> takes it back: &lt;b&gt;.");
  assert.equal(views.element.querySelector("pre")?.textContent, "a  b\nc");
});

test("a question without its row is above the box, and goes to the row once that comes", () => {
  const { log, views, asked } = page("");
  views.show([asked()], "s");
  assert.ok(questionIn(views.element));
  assert.ok(!views.element.hidden);
  log.innerHTML = CARD;
  views.place();
  assert.ok(questionIn(log));
  assert.ok(views.element.hidden);
});

test("what could lose something is above the box, where Enter and Escape lose nothing", () => {
  const { views, posted, asked } = page(CARD);
  views.show([asked({ ...approvalQuestion({ ...REQUEST, risk: "destructive" }) })], "s");
  const dialog = questionIn(views.element);
  assert.equal(dialog?.getAttribute("role"), "alertdialog");
  assert.equal(document.activeElement?.textContent, "Cancel");
  assert.ok(!dialog.closest("[hidden]"));
  dialog.dispatchEvent(new window.KeyboardEvent("keydown", { key: "Escape" }));
  assert.deepEqual(posted, [{ kind: "answer", id: "q1", button: 0 }]);
});

test("a dialog does not take the focus from who is typing", () => {
  const { views, asked } = page("");
  const box = document.querySelector("textarea");
  assert.ok(box);
  box.value = "and then";
  box.focus();
  views.show([asked({ isDangerous: true })], "s");
  assert.equal(document.activeElement, box);
});

test("each button answers with its number", () => {
  const { views, posted, asked } = page("");
  views.show([asked({ lines: ["+a"] })], "s");
  for (const one of views.element.querySelectorAll("button")) one.click();
  assert.deepEqual(posted, [
    { kind: "answer", id: "q1", button: 1 },
    { kind: "answer", id: "q1", button: 0 },
    { kind: "answer", id: "q1", button: 2 },
    { kind: "answer", id: "q1", button: 3 },
    { kind: "openDiff", id: "q1" },
  ]);
});

test("an answered question is gone, and the focus that it had is in the box", () => {
  const { views, asked } = page("");
  views.show([asked({ isDangerous: true })], "s");
  views.show([], "s");
  assert.ok(!questionIn(document.body));
  assert.equal(document.activeElement?.tagName, "TEXTAREA");
});

test("a question of another chat is not shown, and one of no chat in each", () => {
  const { views, asked } = page("");
  views.show([asked({ session: "other" }), asked({ id: "q2", session: "", row: "" })], "s");
  assert.deepEqual(
    [...document.querySelectorAll<HTMLElement>("[data-question]")].map(
      ({ dataset }) => dataset["question"],
    ),
    ["q2"],
  );
});

test("a goal's strip has its steps and stops it, until it has ended", () => {
  const stopped: string[] = [];
  const strip = new GoalStrip((key) => stopped.push(key));
  const made = exchange("e1", "Tidy up.", "running");
  strip.show(made);
  assert.match(strip.element.textContent, /Goal: Tidy up\. starting/);
  const step: StepEvent = {
    kind: "step",
    number: 1,
    goal: "Tidy up.",
    status: "failed",
    plan: "look",
    commandIds: [],
    callIds: [],
    exitCode: 2,
  };
  fold(made, step);
  fold(made, { ...step, number: 2, status: "running", exitCode: null });
  strip.show(made);
  assert.match(strip.element.textContent, /Step 2: running/);
  assert.deepEqual(
    [...strip.element.querySelectorAll("li")].map((one) => one.textContent),
    ["look failed (exit 2)", "look running"],
  );
  strip.element.querySelector("button")?.click();
  assert.deepEqual(stopped, ["e1"]);
  strip.show(undefined);
  assert.ok(strip.element.hidden);
});
