/**
 * What a chat shows: exchanges, made from the server's events by `fold`.
 *
 * The extension keeps them, the webview has a copy; both fold the same events the same way.
 */
import type {
  CommandInfo,
  Event,
  HistoryMessage,
  RunReport,
  SentAlong,
  StepEvent,
  ToolEvent,
  Usage,
} from "../protocol";

/** What a command printed, and how it ended. */
export interface Run {
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

function addText(found: Exchange, delta: string): void {
  const last = found.parts.at(-1);
  if (last?.kind === "text" && last.firstLine + breaks(last.text) >= found.linesBefore) {
    last.text += delta;
    return;
  }
  found.parts.push({ kind: "text", text: delta, firstLine: lineOf(found) });
}

/** Return the line of the replies that a new part begins on. */
function lineOf(found: Exchange): number {
  const last = found.parts.findLast((part) => part.kind === "text");
  return Math.max(found.linesBefore, last ? last.firstLine + breaks(last.text) : 0);
}

/** Return how many lines there are so far: where the next reply begins. */
function linesOf(found: Exchange): number {
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

/** Return whether the risk of a command is known: it was suggested, and waits. */
export function isJudged(found: Exchange, command: CommandInfo): boolean {
  return !command.id.startsWith("past ") && !RUN_LINE.test(found.prompt);
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

/** Return what was said in a session before: the exchanges of its log, the oldest first. */
export function fromHistory(
  messages: readonly HistoryMessage[],
  waiting: readonly CommandInfo[],
): Exchange[] {
  const exchanges: Exchange[] = [];
  for (const message of messages) {
    const last = exchanges.at(-1);
    if (message.role === "user" || !last) {
      resolveRuns(exchanges, message);
      const made = exchange(
        `n${message.n}`,
        message.role === "user" ? message.content : "",
        "ended",
      );
      made.turnId = message.turnId ?? null;
      made.isPast = !message.inForce;
      made.attached = message.attached as unknown as SentAlong[];
      exchanges.push(made);
      if (message.role === "user") continue;
    }
    addReply(exchanges.at(-1) as Exchange, message, waiting);
  }
  return exchanges;
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

/** What the result of a change begins with that was made: its title says as much. */
export const CHANGED = /^(?:Changed|Made) .*?(?:removed|lines?\))\.\s*/;

/** Return whether a reply changed files by a call that can be undone. */
export function hasChanged({ turnId, isGoal, parts }: Exchange): boolean {
  const isChange = (part: Part): boolean =>
    part.kind === "tool" && part.call.status === "done" && CHANGED.test(part.call.result ?? "");
  return turnId !== null && !isGoal && parts.some(isChange);
}

type PastCall = { id: string; name: string; arguments: string; title: string };

function addReply(found: Exchange, message: HistoryMessage, waiting: readonly CommandInfo[]): void {
  if (message.role === "tool") {
    const part = found.parts.find(
      (one) => one.kind === "tool" && one.call.callId === message.toolCallId,
    );
    if (part?.kind !== "tool") return;
    // The log has no status: a change that was not made says so in its result.
    const isMade = part.call.diff === null || CHANGED.test(message.content);
    part.call = { ...part.call, status: isMade ? "done" : "denied", result: message.content };
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

/** Return the lines that an edit takes out and puts in; null for any other call. */
function proposedDiff(call: Pick<ToolEvent, "name" | "arguments">): string | null {
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
function unjudged(id: string, text: string, line: number): CommandInfo {
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
