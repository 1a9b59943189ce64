// Made from `aish-lsp protocol --json` by `./dev docs`. Do not edit.

export type Event = StartEvent | TextEvent | ReasoningEvent | CommandEvent | ToolEvent | OutputEvent | StepEvent | NoticeEvent | UsageEvent | EndEvent;

export interface About {
  version: string;
  python: string;
  pythonVersion: string;
  config: string;
}

export interface AcceptedCandidate {
  kind: "fact" | "pref" | "context";
  content: string;
  tags?: string[];
  scope?: "workspace" | "user";
  duplicateOf?: number | null;
  flags?: string[];
}

export interface AcceptedIds {
  ids: number[];
}

export interface Accuracy {
  estimated: number;
  actual: number;
  errorTokens: number;
  errorPercent: number;
}

export interface Added {
  added: string | null;
  active: string;
  models: ModelInfo[];
}

export interface AllowParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  server: string;
  tool?: string | null;
  scope?: "once" | "session" | "always";
}

export interface ApprovalList {
  approvals: RememberedApproval[];
}

export interface ApprovalParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  id?: string | null;
}

export interface ApprovalRequest {
  id: string;
  callId: string;
  session: string;
  kind: "command" | "edit" | "tool";
  text: string;
  cwd: string;
  risk: string;
  reasons: string[];
  diff: DiffShown | null;
  undo: string;
  covers: string;
  remember: ("session" | "folder")[];
  labels: string[];
}

export interface ApproveParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  commandId: string;
  partialResultToken?: string | number | null;
}

export interface Approved {
  approved: boolean;
  remember: "session" | "folder" | null;
}

export interface AskParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  prompt: string;
  range?: Range | null;
  diagnostics?: Problem[];
  model?: string | null;
  ephemeral?: boolean;
  partialResultToken?: string | number | null;
}

export interface AskResult {
  turnId: string;
  sessionId: string;
  model: string;
  text: string;
  reasoning: string;
  commands: CommandInfo[];
  usage: Usage | null;
  finishReason: "stop" | "length" | "tool" | "refusal" | "repetition" | "cancelled" | "timeout" | "denied" | "error";
  error: Record<string, unknown> | null;
  evictedTurns: number;
  context: ContextReport;
  attached: SentAlong[];
}

export interface Asked {
  key: string;
  value: unknown;
}

export interface Begun {
  turnId: string | null;
}

export interface BegunCommand {
  commandId: string;
}

export interface Breakdown {
  system: number;
  memory: number;
  project: number;
  summary: number;
  instructions: number;
  tools: number;
  messages: number;
  reasoning: number;
}

export interface CancelParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  turnId?: string | null;
}

export interface Cancelled {
  cancelled: number;
}

export interface Candidate {
  kind: "fact" | "pref" | "context";
  content: string;
  duplicateOf: number | null;
  flags: string[];
}

export interface ChangedFiles {
  uris: string[];
}

export interface ChatCompleteParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  prefix: string;
}

export interface ChatCompletion {
  label: string;
  insert: string;
  detail: string;
  start: number;
  kind: "command" | "file" | "folder";
}

export interface ChatCompletions {
  items: ChatCompletion[];
  isIncomplete: boolean;
}

export interface ChatLineDone {
  session: string;
  text: string;
  comes: "reply" | "output" | "candidates" | null;
  result: AskResult | RunReport | NorrisResult | Extracted | null;
}

export interface ChatLineParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  line: string;
  partialResultToken?: string | number | null;
}

export interface ChatParams {
  workspace?: string | null;
  uri?: string | null;
  prompt?: string | null;
}

export interface ChatPlace {
  uri: string;
}

export interface CommandEvent {
  kind: "command";
  command: CommandInfo;
}

export interface CommandInfo {
  id: string;
  text: string;
  line: number;
  endLine: number;
  source: "cmd" | "fence";
  placeholders: string[];
  risk: "safe" | "caution" | "destructive";
  reasons: string[];
}

export interface CommandParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  commandId: string;
}

export interface Commands {
  commands: CommandInfo[];
}

export interface Compaction {
  evictedTurns: number;
  context: ContextReport;
}

export interface CompleteParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  model: string;
  messages: PromptMessage[];
  partialResultToken?: string | number | null;
}

export interface Completion {
  text: string;
  finishReason: "stop" | "length" | "tool" | "refusal" | "repetition" | "cancelled" | "timeout" | "denied" | "error";
  usage: Usage | null;
}

export interface Connectable {
  found: ConnectableModel[];
  providers: ConnectableModel[];
  small: ConnectableModel[];
  smallProblem: string;
  smallCommand: string;
}

export interface ConnectableModel {
  choice: string;
  label: string;
  detail: string;
  models: string[];
  keyVariable: string;
  keys: string;
  sendsTo: string;
  configured: string;
}

export interface Connected {
  name: string;
  reply: string;
  problem: string;
  keyVariable: string;
  models: string[];
}

export interface ContextReport {
  total: number;
  tokenBudget: number;
  contextWindow: number;
  outputReserve: number;
  free: number;
  percent: number;
  basis: "actual" | "estimated";
  breakdown: Breakdown;
  lastCall: LastCall | null;
  newSince: number;
  accuracy: Accuracy | null;
  compactions: number;
  tokenizer: string;
}

export interface ContextShare {
  total: number;
  budget: number;
}

export interface Continued {
  id: string;
  turns: number;
}

export interface Copied {
  text: string;
  copied: boolean;
}

export interface CostParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  detail?: boolean;
  allSessions?: boolean;
}

export interface CostReport {
  models: Record<string, unknown>;
  total: SlotReport;
  warnAtDollars: number | null;
  warnAtTokens: number | null;
  capAtDollars: number | null;
  line: string;
}

export interface CountParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  model: string;
  texts?: string[];
}

export interface Counted {
  tokens: number[];
  input: number;
  output: number;
}

export interface Deleted {
  deleted: number;
}

export interface DiffShown {
  uri: string;
  before: string;
  after: string;
  lines: string[];
}

export interface Edited {
  id: number;
}

export interface EndEvent {
  kind: "end";
  finishReason: "stop" | "length" | "tool" | "refusal" | "repetition" | "cancelled" | "timeout" | "denied" | "error";
  error: Record<string, unknown> | null;
}

export interface EndedStep {
  number: number;
  status: string;
  exitCode: number | null;
}

export interface Extracted {
  candidates: Candidate[];
}

export interface Forgotten {
  forgotten: number;
}

export interface FoundThere {
  uri: string;
  line: number;
  text: string;
}

export interface History {
  turns: HistoryMessage[];
}

export interface HistoryMessage {
  n: number;
  ts: string | null;
  role: string;
  content: string;
  exec: Record<string, unknown>[];
  attached: Record<string, unknown>[];
  model: string | null;
  finish: string | null;
  commands: Record<string, unknown>[];
  toolCalls: Record<string, unknown>[];
  toolCallId: string | null;
  status: string | null;
  inForce: boolean;
  turnId: string | null;
  step: EndedStep | null;
}

export interface Injected {
  injected: number;
  dropped: number;
  characters: number;
}

export interface Items {
  items: Listed[];
}

export interface LastCall {
  input: number;
  output: number;
  reasoning: number;
  cacheRead: number;
  cacheWrite: number;
  at: string;
  model: string;
}

export interface LastInTerminal {
  command: string;
  cwd: string | null;
  exitCode: number | null;
  output: string;
}

export interface Listed {
  id: number;
  ts: string;
  kind: "fact" | "pref" | "context";
  content: string;
  tags: string[];
  source: Record<string, unknown> | null;
  scope: "workspace" | "user";
  injected: boolean;
}

export interface ListedSession {
  id: string;
  name: string | null;
  title: string | null;
  created: string | null;
  updated: string | null;
  questions: number;
  turns: number;
  model: string | null;
  cost: number | null;
  snippet: string | null;
}

export interface LookedUp {
  items: FoundThere[];
}

export interface LookupRequest {
  what: "diagnostics" | "symbols" | "definition";
  uri: string | null;
  query: string;
  position: Position | null;
}

export interface MemoryAccept {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  candidates: AcceptedCandidate[];
}

export interface MemoryAdd {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  kind: "fact" | "pref" | "context";
  content: string;
  tags?: string[];
  scope?: "workspace" | "user";
  force?: boolean;
}

export interface MemoryClear {
  workspace?: string | null;
  uri?: string | null;
  scope?: "workspace" | "user" | null;
  confirmed?: boolean;
}

export interface MemoryEdit {
  workspace?: string | null;
  uri?: string | null;
  id: number;
  content: string;
  scope?: "workspace" | "user" | null;
}

export interface MemoryForget {
  workspace?: string | null;
  uri?: string | null;
  id: number;
  scope?: "workspace" | "user" | null;
}

export interface MemoryList {
  workspace?: string | null;
  uri?: string | null;
  scope?: "workspace" | "user" | null;
  query?: string | null;
}

export interface MemorySummarize {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  partialResultToken?: string | number | null;
}

export interface ModelAdd {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  choice?: string | null;
}

export interface ModelConnect {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  choice: string;
  model?: string | null;
  apiKeyEnv?: string | null;
  default?: boolean;
}

export interface ModelInfo {
  name: string;
  provider: string;
  model: string;
  endpoint: string;
  source: "configured" | "found" | "offered" | "built-in";
}

export interface ModelUse {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  name: string;
}

export interface Models {
  active: string;
  models: ModelInfo[];
}

export interface NorrisParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  goal?: string | null;
  resume?: boolean;
  maxSteps?: number | null;
  allowCaution?: boolean;
  partialResultToken?: string | number | null;
}

export interface NorrisResult {
  outcome: "complete" | "blocked" | "stopped" | "limit" | "error";
  steps: number;
  summary: string;
}

export type Nothing = Record<string, never>;

export interface NoticeEvent {
  kind: "notice";
  level: "info" | "warning" | "error";
  message: string;
}

export interface OutputEvent {
  kind: "output";
  commandId: string;
  stream: "stdout" | "stderr";
  delta: string;
}

export interface Position {
  line: number;
  character: number;
}

export interface Problem {
  range: Range;
  message: string;
  severity?: number | null;
  source?: string | null;
  code?: string | number | null;
  codeDescription?: unknown;
  relatedInformation?: unknown;
  tags?: unknown;
  data?: unknown;
}

export interface ProjectBlock {
  block: string;
  files: number;
  truncated: boolean;
}

export interface ProjectParams {
  workspace?: string | null;
  uri?: string | null;
  depth?: number | null;
  maxChars?: number | null;
}

export interface Prompt {
  messages: RequestMessage[];
  tools: Record<string, unknown>[];
  tokens: number;
}

export interface PromptMessage {
  role: "user" | "assistant";
  content: string;
}

export interface PromptParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  prompt?: string;
}

export interface PutBack {
  restored: string[];
  removed: string[];
  conflicts: string[];
}

export interface Range {
  start: Position;
  end: Position;
}

export interface ReasoningEvent {
  kind: "reasoning";
  delta: string;
}

export interface RedoParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  conflicts?: "ask" | "keep" | "overwrite";
}

export interface Remembered {
  id: number;
}

export interface RememberedApproval {
  id: string;
  what: string;
  scope: "session" | "folder";
  since: string;
}

export interface ReplaceParams {
  workspace?: string | null;
  uri?: string | null;
  turnId: string;
  block?: number;
}

export interface Replaced {
  applied: boolean;
}

export interface RequestMessage {
  role: "system" | "user" | "assistant" | "tool";
  content: string;
  toolCalls: ToolCall[];
  toolCallId: string | null;
  reasoning: StoredReasoning | null;
}

export interface RetryParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  turnId?: string | null;
  model?: string | null;
  partialResultToken?: string | number | null;
}

export interface RevokeParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  server: string;
  tool?: string | null;
}

export interface Route {
  class: string;
  why: string;
}

export interface RunParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  commandId?: string | null;
  text?: string | null;
  edited?: string | null;
  shell?: string;
  cwd?: string | null;
  timeout?: number | null;
  partialResultToken?: string | number | null;
}

export interface RunReport {
  commandId: string;
  text: string;
  exitCode: number | null;
  signal: string | null;
  output: string;
  truncated: boolean;
  durationMs: number;
  finishReason: "stop" | "length" | "tool" | "refusal" | "repetition" | "cancelled" | "timeout" | "denied" | "error";
  outputUri: string | null;
  refused: boolean;
}

export interface SaveRequest {
  uris: string[];
}

export interface Saved {
  id: string;
  name: string;
}

export interface SavedFiles {
  saved: string[];
}

export interface SayParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  text: string;
}

export interface SentAlong {
  kind: string;
  path: string;
  first: number;
  last: number;
  cut: boolean;
}

export interface ServerParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  server: string;
}

export interface SessionDelete {
  workspace?: string | null;
  uri?: string | null;
  id: string;
}

export interface SessionFork {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  turnId: string;
  show?: boolean;
}

export interface SessionHistory {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  id?: string | null;
}

export interface SessionId {
  id: string;
}

export interface SessionInfo {
  id: string;
  name: string | null;
  title: string | null;
  created: string | null;
  updated: string | null;
  questions: number;
  turns: number;
  model: string | null;
  cost: number | null;
}

export interface SessionList {
  workspace?: string | null;
  uri?: string | null;
  query?: string | null;
}

export interface SessionNew {
  workspace?: string | null;
  uri?: string | null;
  show?: boolean;
}

export interface SessionResume {
  workspace?: string | null;
  uri?: string | null;
  id?: string | null;
  show?: boolean;
}

export interface SessionSave {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  name: string;
}

export interface SessionTarget {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
}

export interface Sessions {
  sessions: (SessionInfo | ListedSession)[];
}

export interface SlotReport {
  input: number;
  output: number;
  reasoning: number;
  cacheRead: number;
  cacheWrite: number;
  calls: number;
  cost: number | null;
  local: boolean;
  unpriced: boolean;
}

export interface StartEvent {
  kind: "start";
  turnId: string;
  model: string;
  route: Route;
  contextTokens: number;
  tokenBudget: number;
}

export interface Status {
  model: string;
  busy: boolean;
  context: ContextShare;
  cost: number | null;
  commands: number;
  trusted: boolean;
  servers: number;
}

export interface StepEvent {
  kind: "step";
  number: number;
  goal: string;
  status: "planned" | "running" | "done" | "failed" | "denied" | "stopped";
  plan: string;
  commandIds: string[];
  callIds: string[];
  exitCode: number | null;
}

export interface StoredReasoning {
  text: string;
  provider: string;
  metadata: Record<string, unknown>;
}

export interface SwitchParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  server: string;
  tool?: string | null;
  on: boolean;
}

export interface Target {
  workspace?: string | null;
  uri?: string | null;
}

export type TerminalRequest = Record<string, never>;

export interface TextEvent {
  kind: "text";
  delta: string;
}

export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
  extra: Record<string, unknown>;
}

export interface ToolEvent {
  kind: "tool";
  callId: string;
  server: string;
  name: string;
  arguments: string;
  status: "pending" | "running" | "done" | "failed" | "denied";
  title: string;
  result: string | null;
  diff: string | null;
}

export interface ToolInfo {
  name: string;
  description: string;
  tokens: number;
  on: boolean;
  allowed: boolean;
}

export interface ToolList {
  servers: ToolServerInfo[];
  offered: string[];
}

export interface ToolServerInfo {
  name: string;
  on: boolean;
  state: string;
  granted: boolean;
  tools: ToolInfo[];
  error: string | null;
}

export interface Trust {
  trusted: boolean;
  requests: TrustRequest[];
}

export interface TrustRequest {
  what: "overlay" | "settings";
  name: string;
  asked: Asked[];
  hash: string;
  granted: boolean;
}

export interface UndoParams {
  workspace?: string | null;
  uri?: string | null;
  session?: string | null;
  conflicts?: "ask" | "keep" | "overwrite";
  earlier?: boolean;
  id?: string | null;
}

export interface Usage {
  inputTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  cost: number | null;
}

export interface UsageEvent {
  kind: "usage";
  inputTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  cost: number | null;
}

/** The parameters and the result of each command of the server. */
export interface ServerCommands {
  "aish.ask": { params: AskParams; result: AskResult | Begun };
  "aish.retry": { params: RetryParams; result: AskResult | Begun };
  "aish.cancel": { params: CancelParams; result: Cancelled };
  "aish.prompt.show": { params: PromptParams; result: Prompt };
  "aish.run": { params: RunParams; result: RunReport | BegunCommand };
  "aish.approve": { params: ApproveParams; result: RunReport | Nothing | BegunCommand };
  "aish.commands.list": { params: SessionTarget; result: Commands };
  "aish.commands.dismiss": { params: CommandParams; result: Nothing };
  "aish.norris.start": { params: NorrisParams; result: NorrisResult | Begun };
  "aish.norris.stop": { params: SessionTarget; result: Nothing };
  "aish.norris.say": { params: SayParams; result: Nothing };
  "aish.approvals.list": { params: SessionTarget; result: ApprovalList };
  "aish.approvals.revoke": { params: ApprovalParams; result: ApprovalList };
  "aish.model.list": { params: SessionTarget; result: Models };
  "aish.model.use": { params: ModelUse; result: Models };
  "aish.model.add": { params: ModelAdd; result: Added };
  "aish.model.find": { params: SessionTarget; result: Connectable };
  "aish.model.connect": { params: ModelConnect; result: Connected };
  "aish.memory.add": { params: MemoryAdd; result: Remembered };
  "aish.memory.list": { params: MemoryList; result: Items };
  "aish.memory.forget": { params: MemoryForget; result: Forgotten };
  "aish.memory.edit": { params: MemoryEdit; result: Edited };
  "aish.memory.clear": { params: MemoryClear; result: Forgotten };
  "aish.memory.summarize": { params: MemorySummarize; result: Extracted | Begun };
  "aish.memory.accept": { params: MemoryAccept; result: AcceptedIds };
  "aish.memory.inject": { params: Target; result: Injected };
  "aish.project.show": { params: ProjectParams; result: ProjectBlock };
  "aish.project.refresh": { params: ProjectParams; result: ProjectBlock };
  "aish.project.off": { params: ProjectParams; result: ProjectBlock };
  "aish.project.on": { params: ProjectParams; result: ProjectBlock };
  "aish.context.show": { params: SessionTarget; result: ContextReport };
  "aish.context.reset": { params: SessionTarget; result: Nothing };
  "aish.context.compact": { params: SessionTarget; result: Compaction };
  "aish.status": { params: SessionTarget; result: Status };
  "aish.cost.show": { params: CostParams; result: CostReport };
  "aish.cost.reset": { params: CostParams; result: CostReport };
  "aish.session.list": { params: SessionList; result: Sessions };
  "aish.session.new": { params: SessionNew; result: SessionId };
  "aish.session.resume": { params: SessionResume; result: Continued };
  "aish.session.fork": { params: SessionFork; result: Continued };
  "aish.session.save": { params: SessionSave; result: Saved };
  "aish.session.delete": { params: SessionDelete; result: Deleted };
  "aish.session.history": { params: SessionHistory; result: History };
  "aish.tools.list": { params: SessionTarget; result: ToolList };
  "aish.tools.switch": { params: SwitchParams; result: ToolList };
  "aish.tools.connect": { params: ServerParams; result: ToolList };
  "aish.tools.disconnect": { params: ServerParams; result: ToolList };
  "aish.tools.allow": { params: AllowParams; result: ToolList };
  "aish.tools.revoke": { params: RevokeParams; result: ToolList };
  "aish.trust.show": { params: Target; result: Trust };
  "aish.trust.grant": { params: Target; result: Trust };
  "aish.trust.revoke": { params: Target; result: Trust };
  "aish.undo": { params: UndoParams; result: PutBack };
  "aish.redo": { params: RedoParams; result: PutBack };
  "aish.about": { params: Target; result: About };
  "aish.selection.replace": { params: ReplaceParams; result: Replaced };
  "aish.commands.copy": { params: CommandParams; result: Copied };
  "aish.chat.open": { params: ChatParams; result: ChatPlace };
  "aish.chat.send": { params: ChatParams; result: Begun };
  "aish.chat.line": { params: ChatLineParams; result: ChatLineDone };
  "aish.chat.complete": { params: ChatCompleteParams; result: ChatCompletions };
  "aish.model.complete": { params: CompleteParams; result: Completion };
  "aish.model.count": { params: CountParams; result: Counted };
}
