/** The language client: how the server is started, asked, and started again. */
import { type ChildProcess, spawn } from "node:child_process";
import * as vscode from "vscode";
import {
  CloseAction,
  type CancellationToken,
  ErrorAction,
  LanguageClient,
  type LanguageClientOptions,
  ProgressType,
  LSPErrorCodes,
  ResponseError,
  RevealOutputChannelOn,
  State,
  WorkDoneProgress,
  MessageType,
  type ShowMessageParams,
} from "vscode-languageclient/node";
import { lacksModel } from "../chat/model";
import type { MessageRequest } from "../chat/questions";
import type {
  ApprovalRequest,
  Approved,
  ServerCommands,
  Event,
  LastInTerminal,
  SavedFiles,
  SaveRequest,
  Status,
} from "../protocol";
import { inVsCode, unlinked } from "../text";
import { explicitSettings } from "./settings";

/** The oldest server that this extension speaks to. */
export const OLDEST = "0.1.0";

/** Ends of the server within a minute after which it is not started again by itself. */
const MOST_ENDS = 4;

/** ServerCommands that work goes on behind for a while: their events come to a token. */
type Streaming = {
  [Name in keyof ServerCommands]: "partialResultToken" extends keyof ServerCommands[Name]["params"]
    ? Name
    : never;
}[keyof ServerCommands];

/** What the client needs from the rest of the extension. */
export interface Parts {
  approve: (request: ApprovalRequest, taken: CancellationToken) => Promise<Approved>;
  /** Ask what `window/showMessageRequest` asks. */
  choose: (request: MessageRequest, taken: CancellationToken) => Promise<{ title: string } | null>;
  /** The server has ended, and waits for no answer. */
  ended: () => void;
  terminal: () => Promise<LastInTerminal | null>;
  /** What the server finds in its environment besides VS Code's own: the keys that are kept. */
  keys: () => Promise<Record<string, string>>;
  /** What a command of the palette or a menu is about. */
  place: (command: string) => Record<string, unknown>;
  /** Carry out a command of a code action or a lens; undefined: the server does. */
  intercept: (command: string, argument: Record<string, unknown>) => Promise<unknown> | undefined;
}

const EVENTS = new ProgressType<Event>();

/** Save documents that have changes; return those that have none then. */
async function saved(request: SaveRequest): Promise<SavedFiles> {
  const uris: string[] = [];
  for (const uri of request.uris) {
    const named = vscode.Uri.parse(uri).toString();
    const document = vscode.workspace.textDocuments.find((one) => one.uri.toString() === named);
    if (document && (!document.isDirty || (await document.save()))) uris.push(uri);
  }
  return { saved: uris };
}

/** A client that shows nothing by itself: what there is to say is said once, by the extension. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

/** A server that runs, or is being started. */
export class Server implements vscode.Disposable {
  private readonly client: LanguageClient;
  private process: ChildProcess | undefined;
  /** How to give up what waits for an answer: nobody else does once the server has ended. */
  private readonly waiting = new Set<(error: Error) => void>();
  private readonly ends: number[] = [];
  private number = 0;
  private isLeaving = false;
  private readonly ended = new vscode.EventEmitter<void>();
  private readonly restarted = new vscode.EventEmitter<void>();
  private readonly statusChanged = new vscode.EventEmitter<Status>();
  private readonly gaveUp = new vscode.EventEmitter<string>();

  /** The server has ended, and is about to be started again. */
  readonly onEnded = this.ended.event;
  /** The server was started again: it knows no session yet. */
  readonly onRestarted = this.restarted.event;
  readonly onStatus = this.statusChanged.event;
  /** It ended too often, or could not be started; with a message. */
  readonly onGaveUp = this.gaveUp.event;

  constructor(
    command: readonly string[],
    private readonly log: vscode.LogOutputChannel,
    private readonly parts: Parts,
  ) {
    const [program = "", ...args] = command;
    const options: LanguageClientOptions = {
      documentSelector: [{ scheme: "file" }],
      outputChannel: log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationOptions: {
        aish: { status: true, approve: true, files: true, terminal: true },
      },
      initializationFailedHandler: () => false,
      middleware: {
        executeCommand: (name, given, next) => {
          const argument = argumentOf(given) ?? parts.place(name);
          return parts.intercept(name, argument) ?? this.told(next(name, [argument]));
        },
        workspace: { configuration: (params) => explicitSettings(params) },
      },
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => this.closed(),
      },
    };
    this.client = new QuietClient("aish", "aish", () => this.spawned(program, args), options);
    this.client.onRequest("aish/approve", parts.approve);
    this.client.onRequest("window/showMessageRequest", parts.choose);
    this.client.onNotification("window/showMessage", showMessage);
    this.client.onRequest("aish/terminal", parts.terminal);
    // Files that change on the disk (`aish/changed`) are read again by VS Code itself.
    this.client.onRequest("aish/save", saved);
    this.client.onNotification("aish/status", (status: Status) => this.statusChanged.fire(status));
    let hasRun = false;
    this.client.onDidChangeState(({ newState }) => {
      if (newState !== State.Running) return;
      if (hasRun) this.restarted.fire();
      hasRun = true;
    });
  }

  private async spawned(program: string, args: string[]): Promise<ChildProcess> {
    const env = { ...process.env, ...(await this.parts.keys()) };
    return await new Promise((resolve, reject) => {
      const child = spawn(program, args, { stdio: "pipe", windowsHide: true, env });
      this.process = child;
      child.once("spawn", () => resolve(child));
      child.once("error", reject);
      child.once("exit", () => this.giveUp());
    });
  }

  private giveUp(): void {
    for (const reject of this.waiting) reject(new ServerEnded());
    this.waiting.clear();
    this.parts.ended();
  }

  /** Start it; rejects where it cannot be started. */
  async start(): Promise<void> {
    try {
      await this.untilEnded(this.client.start());
    } catch (error) {
      const code = await exitCode(this.process);
      const name = this.process?.spawnfile ?? "";
      throw typeof code === "number"
        ? new Error(`${name} ended at its start, with exit code ${code}.`)
        : error;
    }
  }

  /** Wait for something of the server's, but no longer than it lives. */
  private async untilEnded<Result>(work: Promise<Result>): Promise<Result> {
    return await new Promise((resolve, reject) => {
      this.waiting.add(reject);
      void work.then(resolve, reject).finally(() => this.waiting.delete(reject));
    });
  }

  get version(): string {
    return this.client.initializeResult?.serverInfo?.version ?? "0";
  }

  get isRunning(): boolean {
    return this.client.state === State.Running;
  }

  async dispose(): Promise<void> {
    this.isLeaving = true;
    try {
      await this.client.dispose(3000);
    } catch (error) {
      this.log.debug(`the server did not end by itself: ${String(error)}`);
    }
    this.process?.kill();
    this.giveUp();
  }

  /**
   * Return the result of a command; rejects with an error whose message a user can act on.
   *
   * `onProgress` gets how far it is, in words.
   */
  async execute<Name extends keyof ServerCommands>(
    command: Name,
    argument: ServerCommands[Name]["params"],
    cancelled?: CancellationToken,
    onProgress?: (message: string) => void,
  ): Promise<ServerCommands[Name]["result"]> {
    const workDoneToken = `aish ${++this.number}`;
    const told =
      onProgress &&
      this.client.onProgress(WorkDoneProgress.type, workDoneToken, (value) => {
        if (value.kind !== "end" && value.message) onProgress(value.message);
      });
    const given = { command, arguments: [argument] };
    const params = onProgress ? { ...given, workDoneToken } : given;
    const method = "workspace/executeCommand";
    const answer: Promise<ServerCommands[Name]["result"]> = cancelled
      ? this.client.sendRequest(method, params, cancelled)
      : this.client.sendRequest(method, params);
    try {
      return await this.untilEnded(answer);
    } catch (error) {
      if (!isCancelled(error) && !cancelled?.isCancellationRequested) {
        this.log.warn(`${command}: ${kindOf(error) || "failed"}: ${messageOf(error)}`);
      }
      throw error;
    } finally {
      told?.dispose();
    }
  }

  /** Return the result of a command whose events go to `onEvent` as they come. */
  async stream<Name extends Streaming, Result>(
    command: Name,
    argument: ServerCommands[Name]["params"],
    onEvent: (event: Event) => void,
    cancelled?: CancellationToken,
  ): Promise<Result> {
    const partialResultToken = `aish ${++this.number}`;
    const listening = this.client.onProgress(EVENTS, partialResultToken, onEvent);
    try {
      const found = { ...argument, partialResultToken };
      return (await this.execute(command, found, cancelled)) as unknown as Result;
    } finally {
      listening.dispose();
    }
  }

  /** Show in the server's own words what it refuses. */
  private async told(work: unknown): Promise<unknown> {
    try {
      return await work;
    } catch (error) {
      void warn(error);
      return undefined;
    }
  }

  private async closed(): Promise<{ action: CloseAction; handled: boolean }> {
    this.giveUp();
    if (this.isLeaving) return { action: CloseAction.DoNotRestart, handled: true };
    const now = Date.now();
    while (this.ends.length && now - (this.ends[0] ?? 0) > 60_000) this.ends.shift();
    this.ends.push(now);
    if (this.ends.length > MOST_ENDS) {
      const times = this.ends.length;
      this.ends.length = 0;
      this.gaveUp.fire(`The server ended ${times} times in a minute. The log says more.`);
      return { action: CloseAction.DoNotRestart, handled: true };
    }
    this.log.warn("the server ended and is started again");
    this.ended.fire();
    await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** (this.ends.length - 1)));
    return { action: CloseAction.Restart, handled: true };
  }
}

/** Show what the server tells, in which a model's words may stand: with no links. */
function showMessage({ type, message }: ShowMessageParams): void {
  const told = unlinked(message);
  if (type === MessageType.Error) void vscode.window.showErrorMessage(told);
  else if (type === MessageType.Warning) void vscode.window.showWarningMessage(told);
  else void vscode.window.showInformationMessage(told);
}

/** Return with what a process has ended, which may be known only after its pipes have failed. */
async function exitCode(process?: ChildProcess): Promise<number | null | undefined> {
  if (process?.exitCode === null && process.signalCode === null) {
    const second = new Promise((resolve) => setTimeout(resolve, 1000));
    await Promise.race([new Promise((resolve) => process.once("exit", resolve)), second]);
  }
  return process?.exitCode;
}

/** Return what a lens or a code action gives a command; nothing if the palette or a menu runs it. */
function argumentOf([argument]: readonly unknown[]): Record<string, unknown> | undefined {
  if (typeof argument !== "object" || argument === null) return undefined;
  // A menu gives the event of the key or the mouse.
  const isOurs = !(argument instanceof vscode.Uri) && !("browserEvent" in argument);
  return isOurs ? (argument as Record<string, unknown>) : undefined;
}

/** The server has ended, and what was asked of it gets no answer. */
export class ServerEnded extends Error {
  constructor() {
    super("The server ended while this was answered. What came is kept; ask again.");
  }
}

/** It could not be started, and the user was told why. */
export class NotStarted extends Error {}

/** Tell the user of an error; one that a model would mend offers to connect one. */
export async function warn(error: unknown): Promise<void> {
  if (error instanceof NotStarted || isCancelled(error)) return;
  const connect = "Connect a Model…";
  const told = unlinked(`aish: ${messageOf(error)}`);
  const buttons = lacksModel(kindOf(error)) ? [connect] : [];
  const answer = await vscode.window.showWarningMessage(told, ...buttons);
  if (answer) await vscode.commands.executeCommand("aish.connectModel");
}

/** Register commands; where one fails, the user is told of it, and VS Code has nothing to add. */
export function register(
  commands: Record<string, (argument: never) => unknown>,
): vscode.Disposable[] {
  return Object.entries(commands).map(([name, work]) =>
    vscode.commands.registerCommand(name, async (argument: never) => {
      try {
        await work(argument);
      } catch (error) {
        void warn(error);
      }
    }),
  );
}

/** Return whether a request has failed because the user has cancelled it. */
export function isCancelled(error: unknown): boolean {
  return error instanceof ResponseError && error.code === LSPErrorCodes.RequestCancelled;
}

/** Return what an error says to the user. */
export function messageOf(error: unknown): string {
  if (error instanceof Error) return inVsCode(error.message);
  return String(error);
}

/** Return the kind of an error of the server: `busy`, `notFound`, ...; empty for any other. */
export function kindOf(error: unknown): string {
  if (!(error instanceof ResponseError)) return "";
  const data = error.data as { kind?: unknown } | undefined;
  return typeof data?.kind === "string" ? data.kind : "";
}
