/** What was said in a session before: the exchanges of its log. */
import type { CommandInfo, EndedStep, HistoryMessage, SentAlong, StepEvent } from "../protocol";
import {
  addText,
  type Exchange,
  exchange,
  hasChanged,
  lineOf,
  linesOf,
  newRun,
  proposedDiff,
  type Run,
  unjudged,
} from "./model";

/** How the message begins that begins a goal, and the one that asks for its next step. */
const GOAL = /^\[norris\] goal: (.*)/;
const STEP = /^\[norris\] step \d/;

/** Return the exchanges, the oldest first; the steps of a goal are one. */
export function fromHistory(
  messages: readonly HistoryMessage[],
  waiting: readonly CommandInfo[],
): Exchange[] {
  const exchanges: Exchange[] = [];
  let made: Exchange | undefined;
  for (const message of messages) {
    if (message.role === "user") {
      resolveRuns(exchanges, message);
      if (made?.isGoal && STEP.test(message.content)) {
        made.linesBefore = linesOf(made);
        continue;
      }
      made = asked(message);
      exchanges.push(made);
    } else {
      if (!made) exchanges.push((made = asked({ ...message, content: "" })));
      addReply(made, message, waiting);
      if (message.step) made.parts.push({ kind: "step", step: stepOf(message.step, made) });
    }
  }
  return exchanges;
}

function asked({ n, content, turnId, inForce, attached }: HistoryMessage): Exchange {
  const goal = GOAL.exec(content)?.[1];
  return {
    ...exchange(`n${n}`, goal ?? content, "ended"),
    turnId: turnId ?? null,
    isGoal: goal !== undefined,
    isPast: !inForce,
    attached: attached as unknown as SentAlong[],
  };
}

/** Show the output that a question carried: under its command, or as the line that ran it. */
function resolveRuns(exchanges: Exchange[], message: HistoryMessage): void {
  const carried = message.exec as { command: string; exit: number; output: string }[];
  const suggested = [...exchanges].reverse();
  for (const [index, { command, exit, output }] of carried.entries()) {
    const run: Run = { ...newRun(), state: "ended", output, exitCode: exit };
    const isNew = ({ text, id }: CommandInfo, { runs }: Exchange): boolean =>
      text === command && !(id in runs);
    const found = suggested.find((one) => one.commands.some((known) => isNew(known, one)));
    const known = found?.commands.find((one) => isNew(one, found));
    if (found && known) {
      found.runs[known.id] = run;
      continue;
    }
    const line = exchange(`n${message.n} ${index}`, `:run ${command}`, "ended");
    const made = unjudged(`past ${line.key}`, command, -1);
    line.commands.push(made);
    line.runs[made.id] = run;
    exchanges.push(line);
  }
}

function stepOf({ number, status, exitCode }: EndedStep, { prompt }: Exchange): StepEvent {
  const ended = { status: oneOf(["done", "failed", "denied", "stopped"], status), exitCode };
  return { kind: "step", number, goal: prompt, plan: "", commandIds: [], callIds: [], ...ended };
}

/** Return what a log says if it is one of what it may say, else "failed": it may be any text. */
function oneOf<Known extends string>(known: readonly Known[], text: string): Known | "failed" {
  return known.find((one) => one === text) ?? "failed";
}

type PastCall = { id: string; name: string; arguments: string; title: string };

function addReply(found: Exchange, message: HistoryMessage, waiting: readonly CommandInfo[]): void {
  if (message.role === "tool") {
    const part = found.parts.find(
      (one) => one.kind === "tool" && one.call.callId === message.toolCallId,
    );
    if (part?.kind !== "tool") return;
    const status = oneOf(["done", "failed", "denied"], message.status ?? "done");
    part.call = { ...part.call, status, result: message.content };
    found.canUndo = hasChanged(found);
    return;
  }
  found.model = message.model ?? found.model;
  found.finishReason = message.finish ?? null;
  const first = lineOf(found);
  if (message.content) addText(found, message.content);
  for (const call of message.toolCalls as PastCall[]) {
    const [server, name] = call.name.includes("__")
      ? call.name.split("__", 2)
      : ["aish", call.name];
    found.parts.push({
      kind: "tool",
      call: {
        kind: "tool",
        callId: call.id,
        server: server ?? "",
        name: name ?? "",
        arguments: call.arguments,
        status: "denied",
        title: call.title,
        result: null,
        diff: proposedDiff(call),
      },
    });
  }
  const lines = message.content.split("\n");
  for (const past of message.commands as ({ id: string; text: string } | CommandInfo)[]) {
    // It is one of very many, or holds a secret, which only a command that waits still has.
    const known = "risk" in past ? past : waiting.find((one) => one.id === past.id);
    if (known) {
      const { line, endLine } = known;
      found.commands.push({ ...known, line: first + line, endLine: first + endLine });
      continue;
    }
    const at = lines.indexOf(`CMD: ${past.text}`);
    const line = first + (at < 0 ? lines.length : at);
    found.commands.push(unjudged(`past ${past.id}`, past.text, line));
  }
}
