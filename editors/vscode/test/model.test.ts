import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ended,
  type Exchange,
  exchange,
  fold,
  isJudged,
  joined,
  newRun,
  replyText,
  textOf,
} from "../src/chat/model";
import { fromHistory } from "../src/chat/history";
import type { CommandInfo, Event, HistoryMessage, RunReport } from "../src/protocol";

const COMMAND: CommandInfo = {
  id: "c1",
  text: "ls",
  line: 1,
  endLine: 1,
  source: "cmd",
  placeholders: [],
  risk: "safe",
  reasons: [],
};

const EVENTS: Event[] = [
  {
    kind: "start",
    turnId: "t1",
    model: "offline",
    route: { class: "shell", why: "" },
    contextTokens: 1,
    tokenBudget: 2,
  },
  { kind: "reasoning", delta: "So " },
  { kind: "reasoning", delta: "it is." },
  { kind: "text", delta: "Lists" },
  { kind: "text", delta: " them.\nCMD: ls\n" },
  { kind: "command", command: COMMAND },
  {
    kind: "tool",
    callId: "k",
    server: "aish",
    name: "read_file",
    arguments: "{}",
    status: "running",
    title: "Reading a.py",
    result: null,
    diff: null,
  },
  {
    kind: "tool",
    callId: "k",
    server: "aish",
    name: "read_file",
    arguments: "{}",
    status: "done",
    title: "Read a.py (1-2)",
    result: "x",
    diff: null,
  },
  { kind: "text", delta: "More." },
  { kind: "output", commandId: "c1", stream: "stdout", delta: "a\n" },
  { kind: "end", finishReason: "stop", error: null },
];

test("events become parts, each in its place", () => {
  const made = exchange("k", "how?");
  for (const event of EVENTS) fold(made, event);
  const kinds = made.parts.map(({ kind }) => kind);
  assert.deepEqual(kinds, ["reasoning", "text", "tool", "text"]);
  assert.equal(replyText(made), "Lists them.\nCMD: ls\nMore.");
  const last = made.parts.at(-1);
  assert.ok(last?.kind === "text" && last.firstLine === 2);
  assert.equal(made.runs["c1"]?.output, "a\n");
  assert.deepEqual([made.turnId, made.model, made.finishReason], ["t1", "offline", "stop"]);
});

test("events that are joined come to the same", () => {
  const [one, other] = [exchange("k", "how?"), exchange("k", "how?")];
  for (const event of EVENTS) fold(one, structuredClone(event));
  for (const event of joined(EVENTS)) fold(other, event);
  assert.deepEqual(one, other);
  assert.ok(joined(EVENTS).length < EVENTS.length);
});

test("a suggestion that is told again takes the place of the first", () => {
  const made = exchange("k", "how?");
  fold(made, { kind: "command", command: COMMAND });
  fold(made, { kind: "command", command: { ...COMMAND, text: "ls -a" } });
  assert.deepEqual(
    made.commands.map(({ text }) => text),
    ["ls -a"],
  );
});

test("an endless output is cut at its start", () => {
  const made = exchange("k", "how?");
  for (let at = 0; at < 100; at += 1) {
    const delta = `${"x".repeat(9_999)}\n`;
    fold(made, { kind: "output", commandId: "c", stream: "stdout", delta });
  }
  const output = made.runs["c"]?.output ?? "";
  assert.ok(output.length < 600_000);
  assert.match(output, /^\[earlier output is left out here\]\nx/);
});

test("the usage of several calls is added up", () => {
  const made = exchange("k", "how?");
  const usage = { outputTokens: 1, reasoningTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 };
  fold(made, { kind: "usage", inputTokens: 10, cost: null, ...usage });
  fold(made, { kind: "usage", inputTokens: 5, cost: 0.5, ...usage });
  assert.deepEqual([made.usage?.inputTokens, made.usage?.cost], [15, 0.5]);
});

test("each step of a goal has a reply of its own, whose lines count from its start", () => {
  const made = exchange("k", "reach it");
  const start = EVENTS[0] as Event;
  const step = { kind: "step" as const, goal: "reach it", plan: "", callIds: [] };
  const command = (id: string): Event => ({ kind: "command", command: { ...COMMAND, id } });
  const ran = { status: "done" as const, exitCode: 3 };
  for (const event of [
    start,
    { kind: "text" as const, delta: "One.\nCMD: ls" },
    command("a"),
    { kind: "output" as const, commandId: "a", stream: "stdout" as const, delta: "x" },
    { ...step, ...ran, number: 1, commandIds: ["a"] },
    { ...start },
    { kind: "text" as const, delta: "Two.\nCMD: ls\n" },
    command("b"),
  ]) {
    fold(made, event);
  }
  const texts = made.parts.filter((part) => part.kind === "text");
  assert.deepEqual(
    texts.map(({ firstLine }) => firstLine),
    [0, 2],
  );
  assert.deepEqual(
    made.commands.map(({ line }) => line),
    [1, 3],
  );
  assert.deepEqual([made.runs["a"]?.state, made.runs["a"]?.exitCode], ["ended", 3]);
});

/** Return the runs of a step of three commands, of which the `begun` ones were run. */
function runsOfStep(
  begun: string[],
  last: { status: "done" | "failed" | "denied"; exitCode: number | null },
  isRunning = true,
): Exchange["runs"] {
  const made = exchange("k", "reach it");
  const commandIds = ["a", "b", "c"];
  const step = { kind: "step" as const, number: 1, goal: "it", plan: "", commandIds, callIds: [] };
  fold(made, { ...step, status: "planned", exitCode: null });
  if (isRunning) fold(made, { ...step, status: "running", exitCode: null });
  for (const commandId of begun)
    fold(made, { kind: "output", commandId, stream: "stdout", delta: "" });
  fold(made, { ...step, ...last });
  return made.runs;
}

test("a step's exit status is that of its last command that was run", () => {
  const failed = runsOfStep(["a", "b"], { status: "failed", exitCode: 3 });
  assert.deepEqual(Object.keys(failed), ["a", "b"]);
  assert.deepEqual([failed["a"]?.state, failed["a"]?.exitCode], ["ended", null]);
  assert.deepEqual([failed["b"]?.state, failed["b"]?.exitCode], ["ended", 3]);
  const done = runsOfStep(["a", "b", "c"], { status: "done", exitCode: 0 });
  assert.deepEqual([done["a"]?.exitCode, done["c"]?.exitCode], [null, 0]);
});

test("of a step that is denied, the command that was asked about is denied", () => {
  const runs = runsOfStep(["a"], { status: "denied", exitCode: 0 });
  assert.deepEqual(Object.keys(runs), ["a", "b"]);
  assert.deepEqual([runs["a"]?.state, runs["a"]?.exitCode], ["ended", 0]);
  assert.deepEqual([runs["b"]?.state, runs["b"]?.exitCode], ["denied", null]);
  // A call was denied, and no command was asked about.
  assert.deepEqual(runsOfStep([], { status: "denied", exitCode: 1 }, false), {});
});

test("a report says how a command ended", () => {
  const made = exchange("k", "how?");
  fold(made, { kind: "output", commandId: "c", stream: "stdout", delta: "a" });
  const run = made.runs["c"];
  assert.ok(run);
  const report = { exitCode: 2, signal: null, durationMs: 5, outputUri: null, output: "a" };
  ended(run, { ...report, finishReason: "stop" } as RunReport);
  assert.deepEqual([run.state, run.exitCode, run.output], ["ended", 2, "a"]);
  ended(run, { ...report, finishReason: "denied" } as RunReport);
  assert.equal(run.state, "denied");
});

function message(
  role: string,
  content: string,
  more: Partial<HistoryMessage> = {},
): HistoryMessage {
  const none = { exec: [], attached: [], commands: [], toolCalls: [] };
  const empty = {
    ts: null,
    model: null,
    finish: null,
    toolCallId: null,
    status: null,
    turnId: null,
    step: null,
  };
  return { n: 1, role, content, inForce: true, ...none, ...empty, ...more };
}

test("a history is the exchanges that it was", () => {
  const called = { id: "k", name: "git__log", arguments: "{}", title: "Called git log" };
  const found = fromHistory(
    [
      message("user", "how?", { n: 1, turnId: "t1" }),
      message("assistant", "So.\nCMD: ls", { commands: [{ id: "c1", text: "ls" }] }),
      message("user", "and?", {
        n: 3,
        turnId: "t2",
        exec: [{ command: "ls", exit: 1, output: "none" }],
      }),
      message("assistant", "I look.\n\n", { toolCalls: [called] }),
      message("tool", "a log", { toolCallId: "k" }),
      message("assistant", "Done.", { commands: [{ id: "c2", text: "make" }] }),
    ],
    [{ ...COMMAND, id: "c2", text: "make", risk: "caution" }],
  );
  assert.equal(found.length, 2);
  const [first, second] = found as [Exchange, Exchange];
  assert.equal(first.commands[0]?.line, 1);
  assert.equal(second.commands[0]?.line, COMMAND.line + 2);
  const run = first.runs[first.commands[0].id];
  assert.deepEqual([run?.exitCode, run?.output], [1, "none"]);
  assert.deepEqual(
    second.parts.map(({ kind }) => kind),
    ["text", "tool", "text"],
  );
  const tool = second.parts[1];
  assert.ok(tool?.kind === "tool");
  assert.deepEqual(
    [tool.call.server, tool.call.status, tool.call.title, tool.call.result],
    ["git", "done", "Called git log", "a log"],
  );
  assert.equal(second.commands[0].risk, "caution");
});

test("an edit that the user refuses still shows its lines", () => {
  const made = exchange("k", "how?");
  const call = { kind: "tool", callId: "t", server: "aish", name: "edit_file" } as const;
  const more = { title: "Not edited: a.py", result: "denied", diff: null };
  const known = JSON.stringify({ path: "a.py", old: "a\n", new: "b\n" });
  fold(made, { ...call, ...more, arguments: known, status: "denied" });
  const [part] = made.parts;
  assert.equal(part?.kind === "tool" && part.call.diff, "-a\n+b");
});

test("an edit of an earlier session shows its lines, any other call its arguments", () => {
  const call = (name: string, known: object): Record<string, unknown> => ({
    ...{ id: name, name, arguments: JSON.stringify(known), title: name },
  });
  const calls = [
    call("edit_file", { path: "a.py", old: "a\nb\n", new: "c\n" }),
    call("edit_file", { path: "a.py", old: 1 }),
    call("read_file", { path: "a.py", old: "a", new: "b" }),
    { ...call("edit_file", {}), arguments: "{" },
  ];
  const [found] = fromHistory(
    [message("user", "how?", { n: 1 }), message("assistant", "", { toolCalls: calls })],
    [],
  );
  const diffs = found?.parts.map((part) => part.kind === "tool" && part.call.diff);
  assert.deepEqual(diffs, ["-a\n-b\n+c", null, null, null]);
});

test("an edit of an earlier session can be undone if it was made", () => {
  const edit = { id: "t", name: "edit_file", title: "a.py" };
  const known = JSON.stringify({ path: "a.py", old: "a\n", new: "b\n" });
  const found = (status: string): [boolean | undefined, string | undefined] => {
    const [made] = fromHistory(
      [
        message("user", "how?", { n: 1, turnId: "t1" }),
        message("assistant", "", { toolCalls: [{ ...edit, arguments: known }] }),
        message("tool", "whatever it says", { toolCallId: "t", status }),
      ],
      [],
    );
    const [part] = made?.parts ?? [];
    return [made?.canUndo, part?.kind === "tool" ? part.call.status : undefined];
  };
  assert.deepEqual(found("done"), [true, "done"]);
  assert.deepEqual(found("denied"), [false, "denied"]);
  assert.deepEqual(found("failed"), [false, "failed"]);
});

test("a goal of an earlier session is one exchange, by the user's words, with all its steps", () => {
  const step = (id: string): object => ({ commands: [{ id, text: `make ${id}` }] });
  const ran = (id: string): object => ({ exec: [{ command: `make ${id}`, exit: 0, output: id }] });
  const found = fromHistory(
    [
      message("user", "[norris] goal: make it pass\n[aish] Mind the dog.", { n: 1, turnId: "t1" }),
      message("assistant", "First.\nCMD: make a", {
        ...step("a"),
        step: { number: 1, status: "failed", exitCode: 2 },
      }),
      message("user", "[norris] step 2\n[aish] Go on.", { n: 3, turnId: "t2", ...ran("a") }),
      message("assistant", "Then.\nCMD: make b", {
        ...step("b"),
        step: { number: 2, status: '"><b', exitCode: null },
      }),
      message("user", "[norris] step 2 of what?", { n: 5, ...ran("b") }),
      message("assistant", "GOAL: complete"),
      message("user", "and?", { n: 7 }),
      message("user", "[norris] step 9", { n: 8 }),
    ],
    [],
  );
  assert.deepEqual(
    found.map(({ prompt, isGoal, turnId }) => [prompt, isGoal, turnId]),
    [
      ["make it pass", true, "t1"],
      ["and?", false, null],
      ["[norris] step 9", false, null],
    ],
  );
  const [goal] = found as [Exchange];
  assert.deepEqual(
    goal.parts.map((part) =>
      part.kind === "step" ? [part.step.status, part.step.exitCode] : part.kind,
    ),
    ["text", ["failed", 2], "text", ["failed", null], "text"],
  );
  assert.deepEqual(
    goal.commands.map(({ text, line }) => [text, line]),
    [
      ["make a", 1],
      ["make b", 3],
    ],
  );
  assert.deepEqual(
    Object.values(goal.runs).map(({ output }) => output),
    ["a", "b"],
  );
});

test("a command of an earlier session is what it was: its risk, and its place in the replies", () => {
  const past: CommandInfo = {
    ...COMMAND,
    id: "c9",
    text: "rm x",
    risk: "destructive",
    reasons: ["deletes"],
  };
  const fence: CommandInfo = { ...past, id: "c8", source: "fence", line: 0, endLine: 2 };
  const found = fromHistory(
    [
      message("user", "how?", { n: 1 }),
      message("assistant", "So.\nCMD: rm x\n", { commands: [{ ...past }] }),
      message("assistant", "```sh\nrm x\n```", { commands: [{ ...fence }] }),
    ],
    [],
  );
  const [{ commands }] = found as [Exchange];
  assert.deepEqual(commands, [past, { ...fence, line: 2, endLine: 4 }]);
  assert.ok(isJudged(found[0] as Exchange, past));
});

test("nobody has judged what the user has made of a suggestion", () => {
  const edited = { ...newRun(), edited: "rm x" };
  const made: Exchange = { ...exchange("k", "how?"), commands: [COMMAND], runs: { c1: edited } };
  assert.equal(textOf(made, COMMAND), "rm x");
  assert.ok(!isJudged(made, COMMAND));
  made.runs["c1"] = newRun();
  assert.equal(textOf(made, COMMAND), "ls");
  assert.ok(isJudged(made, COMMAND));
});

test("what a line ran is shown again, before the question that carried it", () => {
  const ran = [
    { command: "make", exit: 2, output: "no rule" },
    { command: "ls", exit: 0, output: "a" },
    { command: "make", exit: 0, output: "made" },
  ];
  const found = fromHistory(
    [
      message("user", "first", { n: 1, exec: ran.slice(0, 1) }),
      message("assistant", "So.\nCMD: ls", { commands: [{ id: "c1", text: "ls" }] }),
      message("user", "second", { n: 3, exec: ran.slice(1) }),
    ],
    [],
  );
  const shown = found.map(({ prompt, runs }) => [
    prompt,
    ...Object.values(runs).map(({ exitCode, output }) => `${exitCode} ${output}`),
  ]);
  assert.deepEqual(shown, [
    [":run make", "2 no rule"],
    ["first", "0 a"],
    [":run make", "0 made"],
    ["second"],
  ]);
  assert.equal(new Set(found.map(({ key }) => key)).size, 4);
});
