/**
 * What a chat shows: exchanges, made from the server's events by `fold`.
 *
 * The extension keeps them, the webview has a copy; both fold the same events the same way.
 */
import type {
  AskResult,
  CommandInfo,
  Event,
  NorrisResult,
  RunReport,
  SentAlong,
  StepEvent,
  ToolEvent,
  Usage,
} from "../protocol";

/** What a command printed, and how it ended. */
export interface Run {
  /** What the user made of the suggestion, which nobody has judged; empty: it runs as it is. */
  edited: string;
  state: "running" | "ended" | "denied";
  output: string;
  exitCode: number | null;
  signal: string | null;
  durationMs: number;
  /** A file with all of it, where the output is long. */
  outputUri: string | null;
  /** Why it did not run, or what else is to be said of it. */
  note: string;
  /** It runs in the user's terminal. */
  inTerminal: boolean;
  /** It does not run yet: the user is asked about it. */
  isAsking: boolean;
}

export type Part =
  | { kind: "text"; text: string; firstLine: number }
  | { kind: "reasoning"; text: string }
  | { kind: "tool"; call: ToolEvent }
  | { kind: "step"; step: StepEvent }
  | { kind: "notice"; level: string; message: string };

export type State = "waiting" | "running" | "ended";

/** A question, or a line that begins with a colon, with all that came of it. */
export interface Exchange {
  /** What it is called between the extension and the webview. */
  key: string;
  turnId: string | null;
  prompt: string;
  state: State;
  model: string;
  parts: Part[];
  /** What the reply suggests, and what was run without being suggested. */
  commands: CommandInfo[];
  runs: Record<string, Run>;
  attached: SentAlong[];
  finishReason: string | null;
  error: string;
  /** What kind of error it is: `backendRejected`, `busy`, ...; empty for one that is not the server's. */
  errorKind: string;
  usage: Usage | null;
  /** Whether its blocks may take the place of what was selected. */
  replaces: boolean;
  /** Whether a goal is pursued. */
  isGoal: boolean;
  /** It is sent to the model no more. */
  isPast: boolean;
  /** It changed files, and the server knows which change that was. */
  canUndo: boolean;
  /** Lines of the replies before the one that comes: a goal has one in each step. */
  linesBefore: number;
}

export function exchange(key: string, prompt: string, state: State = "waiting"): Exchange {
  return {
    key,
    prompt,
    state,
    turnId: null,
    model: "",
    parts: [],
    commands: [],
    runs: {},
    attached: [],
    finishReason: null,
    error: "",
    errorKind: "",
    usage: null,
    replaces: false,
    isGoal: false,
    isPast: false,
    canUndo: false,
    linesBefore: 0,
  };
}

/** Return whether a kind of error means that no model answers: it is away, or refuses the key or the name. */
export function lacksModel(kind: string): boolean {
  return kind === "backendUnavailable" || kind === "backendRejected";
}

export function newRun(): Run {
  return {
    edited: "",
    state: "running",
    isAsking: false,
    output: "",
    exitCode: null,
    signal: null,
    durationMs: 0,
    outputUri: null,
    note: "",
    inTerminal: false,
  };
}

/** Characters of an output that a chat keeps; the server has all of a longer one in a file. */
const MOST_OUTPUT = 256 * 1024;

/** Add what an event tells to an exchange. */
export function fold(found: Exchange, event: Event): void {
  switch (event.kind) {
    case "start":
      found.state = "running";
      found.turnId ??= event.turnId;
      found.model = event.model;
      found.linesBefore = linesOf(found);
      break;
    case "text":
      addText(found, event.delta);
      break;
    case "reasoning": {
      const last = found.parts.at(-1);
      if (last?.kind === "reasoning") last.text += event.delta;
      else found.parts.push({ kind: "reasoning", text: event.delta });
      break;
    }
    case "command": {
      const { line, endLine } = event.command;
      const [first, last] = [line + found.linesBefore, endLine + found.linesBefore];
      const command = { ...event.command, line: first, endLine: last };
      const at = found.commands.findIndex(({ id }) => id === command.id);
      if (at < 0) found.commands.push(command);
      else found.commands[at] = command;
      break;
    }
    case "tool": {
      const known = found.parts.find(
        (part) => part.kind === "tool" && part.call.callId === event.callId,
      );
      // Of a change that was not made, the server has no lines: the call says what they would be.
      const diff = event.status === "denied" ? proposedDiff(event) : event.diff;
      const call = { ...event, diff };
      if (known?.kind === "tool") known.call = call;
      else found.parts.push({ kind: "tool", call });
      break;
    }
    case "step": {
      found.isGoal = true;
      const known = found.parts.find(
        (part) => part.kind === "step" && part.step.number === event.number,
      );
      const wasRunning = known?.kind === "step" && known.step.status === "running";
      if (known?.kind === "step") known.step = event;
      else found.parts.push({ kind: "step", step: event });
      if (event.status !== "planned" && event.status !== "running") {
        endRuns(found, event, wasRunning);
      }
      break;
    }
    case "output":
      addOutput(found, event.commandId, event.delta);
      break;
    case "notice":
      found.parts.push({ kind: "notice", level: event.level, message: event.message });
      break;
    case "usage":
      found.usage = added(found.usage, event);
      break;
    case "end":
      found.finishReason = event.finishReason;
      break;
  }
}

/** Add a piece of a reply's text, behind what it has. */
export function addText(found: Exchange, delta: string): void {
  const last = found.parts.at(-1);
  if (last?.kind === "text" && last.firstLine + breaks(last.text) >= found.linesBefore) {
    last.text += delta;
    return;
  }
  found.parts.push({ kind: "text", text: delta, firstLine: lineOf(found) });
}

/** Return the line of the replies that a new part begins on. */
export function lineOf(found: Exchange): number {
  const last = found.parts.findLast((part) => part.kind === "text");
  return Math.max(found.linesBefore, last ? last.firstLine + breaks(last.text) : 0);
}

/** Return how many lines there are so far: where the next reply begins. */
export function linesOf(found: Exchange): number {
  return found.parts.some(({ kind }) => kind === "text") ? lineOf(found) + 1 : 0;
}

function breaks(text: string): number {
  return text.split("\n").length - 1;
}

/** Note how the commands of a step ended: they run in order, until one fails or is denied. */
function endRuns(found: Exchange, step: StepEvent, wasRunning: boolean): void {
  // A command has begun if it has an output, which may be empty.
  const begun = step.commandIds.flatMap((id) => found.runs[id] ?? []);
  for (const run of begun) if (run.state === "running") run.state = "ended";
  const last = begun.at(-1);
  if (last) last.exitCode = step.exitCode ?? null;
  // A step that is denied before its commands run was denied one of its calls.
  const denied = step.commandIds[begun.length];
  if (step.status === "denied" && wasRunning && denied !== undefined) {
    found.runs[denied] = { ...newRun(), state: "denied", note: "not run" };
  }
}

/** What a line of the user's begins with that runs the rest of it. */
const RUN_LINE = /^:run\s+/;

/** Return whether a command was suggested by a reply of this session, so that its id names it. */
export function isSuggested({ prompt }: Exchange, { id }: CommandInfo): boolean {
  return !id.startsWith("past ") && !RUN_LINE.test(prompt);
}

/** Return whether the risk of a command is known: it was suggested, and is still what it was. */
export function isJudged(found: Exchange, command: CommandInfo): boolean {
  return isSuggested(found, command) && !found.runs[command.id]?.edited;
}

/** Return what a card shows, copies and runs: what the user has made of it, if anything. */
export function textOf({ runs }: Exchange, { id, text }: CommandInfo): string {
  return runs[id]?.edited || text;
}

function addOutput(found: Exchange, commandId: string, delta: string): void {
  if (RUN_LINE.test(found.prompt) && !found.commands.length) {
    found.commands.push(unjudged(commandId, found.prompt.replace(RUN_LINE, ""), -1));
  }
  const run = (found.runs[commandId] ??= newRun());
  run.output += delta;
  if (run.output.length > 2 * MOST_OUTPUT) {
    const cut = run.output.slice(-MOST_OUTPUT);
    run.output = `[earlier output is left out here]\n${cut.slice(cut.indexOf("\n") + 1)}`;
  }
}

function added(before: Usage | null, event: Usage): Usage {
  const { inputTokens, outputTokens, reasoningTokens, cacheReadTokens, cacheWriteTokens } = event;
  if (!before) {
    const { cost } = event;
    return { inputTokens, outputTokens, reasoningTokens, cacheReadTokens, cacheWriteTokens, cost };
  }
  return {
    inputTokens: before.inputTokens + inputTokens,
    outputTokens: before.outputTokens + outputTokens,
    reasoningTokens: before.reasoningTokens + reasoningTokens,
    cacheReadTokens: before.cacheReadTokens + cacheReadTokens,
    cacheWriteTokens: before.cacheWriteTokens + cacheWriteTokens,
    cost:
      before.cost === null && event.cost === null ? null : (before.cost ?? 0) + (event.cost ?? 0),
  };
}

/** The note on a command that the user has stopped. */
export const STOPPED = "stopped";

/** Take note of how a command ended. */
export function ended(run: Run, report: RunReport): void {
  run.state = report.finishReason === "denied" ? "denied" : "ended";
  run.exitCode = report.exitCode ?? null;
  run.signal = report.signal ?? null;
  run.durationMs = report.durationMs;
  run.outputUri = report.outputUri ?? null;
  if (!run.output) run.output = report.output;
  if (report.finishReason === "timeout") run.note = "stopped: it took too long";
  if (report.finishReason === "cancelled") run.note = STOPPED;
}

/** Take note of what a job returned: a reply, or how a goal was left. */
export function finish(made: Exchange, result: unknown): void {
  if (isReply(result)) {
    made.turnId = result.turnId;
    made.attached = result.attached;
    made.finishReason = result.finishReason;
    made.usage = result.usage ?? made.usage;
    const { message = "", kind = "" } = (result.error ?? {}) as {
      message?: string;
      kind?: string;
    };
    made.error = message;
    made.errorKind = kind;
  } else if (isOutcome(result)) {
    made.finishReason = result.outcome;
    if (result.summary) made.parts.push({ kind: "notice", level: "info", message: result.summary });
  }
}

function isReply(result: unknown): result is AskResult {
  return typeof result === "object" && result !== null && "turnId" in result && "text" in result;
}

function isOutcome(result: unknown): result is NorrisResult {
  return typeof result === "object" && result !== null && "outcome" in result;
}

/** The tools whose changes can be undone. */
const EDITS = new Set(["edit_file", "write_file"]);

/** Return whether a reply changed files by a call that can be undone. */
export function hasChanged({ turnId, isGoal, parts }: Exchange): boolean {
  const isChange = (part: Part): boolean =>
    part.kind === "tool" &&
    part.call.server === "aish" &&
    EDITS.has(part.call.name) &&
    part.call.status === "done";
  return turnId !== null && !isGoal && parts.some(isChange);
}

/** Return the lines that an edit takes out and puts in; null for any other call. */
export function proposedDiff(call: Pick<ToolEvent, "name" | "arguments">): string | null {
  if (call.name !== "edit_file") return null;
  try {
    const { old, new: made } = JSON.parse(call.arguments) as Record<string, unknown>;
    if (typeof old !== "string" || typeof made !== "string") return null;
    return [...marked("-", old), ...marked("+", made)].join("\n");
  } catch {
    return null;
  }
}

function marked(mark: string, text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines.map((line) => `${mark}${line}`);
}

/** Return a command that the server judges only once it is to be run again. */
export function unjudged(id: string, text: string, line: number): CommandInfo {
  const source = "cmd";
  return { id, text, line, endLine: line, source, placeholders: [], risk: "caution", reasons: [] };
}

/** Return the text of a reply: its pieces, joined. */
export function replyText(found: Exchange): string {
  return found.parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
}

/** Join deltas that follow each other: a frame takes one piece of each. */
export function joined(events: readonly Event[]): Event[] {
  const found: Event[] = [];
  for (const event of events) {
    const last = found.at(-1);
    if (event.kind === "text" && last?.kind === "text") last.delta += event.delta;
    else if (event.kind === "reasoning" && last?.kind === "reasoning") last.delta += event.delta;
    else if (
      event.kind === "output" &&
      last?.kind === "output" &&
      last.commandId === event.commandId
    ) {
      last.delta += event.delta;
    } else found.push({ ...event });
  }
  return found;
}
