/** aish in VS Code: what there is, put together. */
import * as path from "node:path";
import * as vscode from "vscode";
import type { Status } from "./chat/messages";
import { ChatView, ELSEWHERE } from "./chat/view";
import { registerCommands } from "./commands";
import { agreesToEngine } from "./connect";
import { registerLanguageModels } from "./language_models";
import { registerParticipant } from "./participant";
import { Keys } from "./server/keys";
import { addEngine, CannotInstall, isOwn, locate, type Wanted } from "./server/locate";
import { messageOf, NotStarted, OLDEST, Server } from "./server/client";
import { shim } from "./server/shim";
import { StatusBar } from "./status_bar";
import { unlinked } from "./text";
import { TerminalReader } from "./terminal";
import { isOlder } from "./version";
import { ChatList } from "./views/chats";
import { ContextPage } from "./views/context";
import { MemoryTree } from "./views/memory";
import { ToolTree } from "./views/tools";

/** Milliseconds after which a server that starts is said not to answer. */
const LATE = 20_000;

let extension: Extension | undefined;

export function activate(context: vscode.ExtensionContext): void {
  extension = new Extension(context);
  context.subscriptions.push(extension);
  // Nothing that can be seen waits for the server.
  if (vscode.workspace.isTrusted) void extension.begin();
}

export async function deactivate(): Promise<void> {
  await extension?.stop();
}

/** All of it; one for each window. */
class Extension implements vscode.Disposable {
  private readonly log = vscode.window.createOutputChannel("aish", { log: true });
  private readonly keys: Keys;
  /** Another window has changed them since the server was started. */
  private hasOldKeys = false;
  private readonly terminal = new TerminalReader();
  private readonly bar = new StatusBar();
  private readonly chat: ChatView;
  private readonly memory: MemoryTree;
  private readonly tools: ToolTree;
  private readonly page: ContextPage;
  private readonly disposables: vscode.Disposable[];
  private running: Promise<Server> | undefined;
  /** Ends the start that goes on, which may be installing the server. */
  private starting = new AbortController();
  /** What runs, or is being started. */
  private current: Server | undefined;
  /** What it was started with. */
  private command: string[] = [];

  constructor(private readonly context: vscode.ExtensionContext) {
    const server = (): Promise<Server> => this.server();
    this.keys = new Keys(context.secrets, (message) => this.log.warn(message));
    this.logVersions();
    this.chat = new ChatView(context, server, this.terminal);
    const place = (): { workspace?: string; session?: string } => this.chat.conversations.place;
    this.memory = new MemoryTree(server, place);
    this.tools = new ToolTree(server, place);
    this.page = new ContextPage(context.extensionUri, server, place);
    this.disposables = [
      this.log,
      this.terminal,
      this.bar,
      this.chat,
      this.memory,
      this.tools,
      this.page,
      this.chat.onStatus((status) => status && this.bar.show(status)),
      this.chat.onStatus((status) => void this.noteModel(status)),
      // In the window in which they change, what changes them starts the server again.
      this.keys.onChange(() => {
        this.hasOldKeys = !vscode.window.state.focused;
        this.takeKeys();
      }),
      this.chat.onTurnEnded(() => this.takeKeys()),
      this.chat.onTurnEnded(() => this.refresh()),
      vscode.workspace.onDidGrantWorkspaceTrust(() => void this.begin()),
      vscode.workspace.onDidChangeWorkspaceFolders(() => {
        const leaving = this.chat.conversations.leaveFolders();
        leaving.catch((error: unknown) => this.log.error(messageOf(error)));
      }),
      registerParticipant(context, server),
      registerLanguageModels(server, place),
      ...registerCommands({
        chat: this.chat,
        chats: new ChatList(server, this.chat),
        page: this.page,
        server,
        restart: () => this.restart(),
        isOwnServer: () => isOwn(this.command, this.context.globalStorageUri.fsPath),
        addEngine: () => this.addEngine(),
        keys: this.keys,
        place,
        connected: () => this.chat.refreshStatus(),
        showLog: () => this.log.show(),
      }),
    ];
    if (!vscode.workspace.isTrusted) this.showUntrusted();
  }

  dispose(): void {
    for (const disposable of this.disposables) disposable.dispose();
  }

  private showUntrusted(): void {
    this.bar.say("$(shield) aish", "aish does nothing in a folder that you do not trust");
    this.chat.tell(
      "aish runs commands: it does nothing in a folder that you do not trust.",
      "manageTrust",
    );
  }

  /** Start the server, and show what there is. */
  async begin(): Promise<void> {
    try {
      await this.server();
    } catch (error) {
      this.log.error(messageOf(error));
    }
  }

  /** Return the server, which is started where it does not run. */
  private async server(): Promise<Server> {
    if (!vscode.workspace.isTrusted) throw new Error("This folder is not trusted.");
    if (!this.running) {
      const starting = this.started();
      this.running = starting;
      starting.catch(() => {
        // Another one may be on its way by now.
        if (this.running === starting) this.running = undefined;
      });
    }
    return await this.running;
  }

  private async started(usePath = true): Promise<Server> {
    this.bar.say("$(sync~spin) aish", "aish: the server starts");
    const starting = (this.starting = new AbortController());
    let server: Server | undefined;
    try {
      const command = await this.installing(usePath, locate, starting);
      starting.signal.throwIfAborted();
      this.command = command;
      this.log.info(`starting ${command.join(" ")}`);
      server = this.current = this.made(command);
      const late = setTimeout(() => this.tellLate(), LATE);
      await server.start().finally(() => clearTimeout(late));
      await this.offerInTerminals(command);
      starting.signal.throwIfAborted();
      if (isOlder(server.version, OLDEST)) {
        const { version } = server;
        await server.dispose();
        starting.signal.throwIfAborted();
        if (usePath && !this.setCommand.length) return await this.started(false);
        throw new CannotInstall(
          `aish-lsp ${version} is too old for this extension.`,
          "pipx upgrade aish-lsp",
        );
      }
    } catch (error) {
      await server?.dispose();
      // Who has stopped it knows.
      if (this.starting === starting) this.failed(error);
      throw new NotStarted(messageOf(error));
    }
    void this.logServer(server);
    this.chat.tell("");
    this.bar.say("$(comment-discussion) aish", "aish: ready");
    setTimeout(() => this.refresh());
    return server;
  }

  /** Have the terminals find the command that the server is started with. */
  private async offerInTerminals(command: string[]): Promise<void> {
    const variables = this.context.environmentVariableCollection;
    variables.description = "Finds `aish-lsp`, the server that the extension runs.";
    try {
      const folder = await shim(this.context.globalStorageUri.fsPath, command);
      // A shell's profile may set the PATH anew: VS Code's script for the shell then adds it again.
      const options = { applyAtProcessCreation: true, applyAtShellIntegration: true };
      variables.prepend("PATH", `${folder}${path.delimiter}`, options);
    } catch (error) {
      this.log.warn(`the terminals do not find aish-lsp: ${messageOf(error)}`);
    }
  }

  private get setCommand(): string[] {
    return vscode.workspace.getConfiguration("aish").get<string[]>("server.command", []);
  }

  /** Install the extension's own server with llama.cpp if the user agrees, and start that. */
  private async addEngine(): Promise<boolean> {
    const isAdded = await this.installing(true, addEngine);
    if (isAdded) await this.restart();
    return isAdded;
  }

  /** Do what may install the server, and show how far it is. */
  private async installing<Result>(
    usePath: boolean,
    work: (wanted: Wanted) => Promise<Result>,
    stopping = new AbortController(),
  ): Promise<Result> {
    const options = {
      location: vscode.ProgressLocation.Notification,
      title: "aish",
      cancellable: true,
    };
    const wanted = {
      command: this.setCommand,
      python: vscode.workspace.getConfiguration("aish").get("server.python", ""),
      wheels: vscode.Uri.joinPath(this.context.extensionUri, "wheel").fsPath,
      storage: this.context.globalStorageUri.fsPath,
      usePath,
      agreed: agreesToEngine,
    };
    // Only an installation takes so long that its progress is worth a notification.
    let told: vscode.Progress<{ message?: string }> | undefined;
    let end: () => void = () => undefined;
    const report = (message: string): void => {
      this.log.info(message);
      if (told) told.report({ message });
      else {
        void vscode.window.withProgress(options, async (progress, token) => {
          told = progress;
          progress.report({ message });
          token.onCancellationRequested(() => stopping.abort());
          await new Promise<void>((resolve) => (end = resolve));
        });
      }
    };
    try {
      return await work({ ...wanted, report, signal: stopping.signal });
    } finally {
      end();
    }
  }

  private made(command: string[]): Server {
    const server = new Server(command, this.log, {
      approve: (request, taken) => this.chat.questions.approve(request, taken),
      choose: (request, taken) => this.chat.choose(request, taken),
      ended: () => this.chat.questions.withdraw(),
      keys: () => this.keys.all(),
      place: (command) => this.placeOf(command),
      terminal: () => this.terminal.read(),
      intercept: (name, argument) => this.intercept(name, argument),
    });
    server.onEnded(() => this.chat.conversations.pause());
    server.onRestarted(() => {
      this.chat.conversations.goOn().catch((error: unknown) => this.log.error(messageOf(error)));
    });
    server.onStatus(() => {
      this.chat.refreshStatus().catch(() => undefined);
    });
    server.onGaveUp((message) => {
      this.running = undefined;
      this.chat.conversations.unpause();
      this.failed(new Error(message));
    });
    return server;
  }

  /** Return the chat or its folder; before there is one, the document in sight. */
  private placeOf(command: string): Record<string, unknown> {
    const { active, place } = this.chat.conversations;
    const uri = vscode.window.activeTextEditor?.document.uri;
    if (!active && uri?.scheme === "file") return { uri: uri.toString() };
    const isOfChat = command === "aish.undo" || command === "aish.redo";
    // Without a session, what another chat did would be undone.
    if (isOfChat && active?.isElsewhere) throw new Error(ELSEWHERE);
    if (isOfChat) return place;
    return place.workspace ? { workspace: place.workspace } : {};
  }

  /** Commands of lenses and code actions whose replies and outputs belong into the chat's view. */
  private intercept(name: string, argument: Record<string, unknown>): Promise<unknown> | undefined {
    const { uri, range, diagnostics } = argument as {
      uri?: string;
      range?: unknown;
      diagnostics?: unknown;
    };
    const prompt = typeof argument["prompt"] === "string" ? argument["prompt"] : "";
    switch (name) {
      case "aish.ask":
        return this.asked(prompt, { ...(uri ? { uri } : {}), range, diagnostics });
      case "aish.run":
        return this.chat.run(argument);
      case "aish.chat.open":
        return this.chat.reveal().then(() => this.chat.insert(prompt && `${prompt} `));
      default:
        return undefined;
    }
  }

  private async asked(
    prompt: string,
    about: { uri?: string; range?: unknown; diagnostics?: unknown },
  ): Promise<void> {
    await this.chat.reveal();
    await this.chat.say(prompt, undefined, about);
  }

  /** Say what keeps the server from running, with what can be done. */
  private failed(error: unknown): void {
    const message = messageOf(error);
    this.log.error(message);
    this.bar.say("$(error) aish", `aish: ${message}`);
    this.chat.tell(message, "restartServer");
    const [copy, again, log] = ["Copy the Command", "Try Again", "Show the Log"];
    const command = error instanceof CannotInstall ? error.command : "";
    const told = command
      ? `aish: ${message} This command may help: ${command}`
      : `aish: ${message}`;
    const buttons = [...(command ? [copy] : []), again, log];
    void vscode.window.showErrorMessage(unlinked(told), ...buttons).then(async (answer) => {
      if (answer === copy) await vscode.env.clipboard.writeText(command);
      if (answer === again) await this.restart();
      if (answer === log) this.log.show();
    });
  }

  private refresh(): void {
    const work = [this.memory.refresh(), this.tools.refresh(), this.page.refresh()];
    for (const one of work) one.catch((error: unknown) => this.log.debug(messageOf(error)));
  }

  private async restart(): Promise<void> {
    const { conversations } = this.chat;
    // What is asked meanwhile is sent once the sessions are open again.
    conversations.pause();
    try {
      await this.stop();
      await this.server();
      await conversations.goOn();
    } finally {
      conversations.unpause();
    }
  }

  async stop(): Promise<void> {
    const before = this.current;
    // Another one may begin at once.
    this.starting.abort();
    this.starting = new AbortController();
    this.current = this.running = undefined;
    await before?.dispose();
  }

  private logVersions(): void {
    const { version } = this.context.extension.packageJSON as { version: string };
    const host = vscode.env.remoteName ?? "this machine";
    this.log.info(
      `aish ${version} in ${vscode.env.appName} ${vscode.version}, on ${host} (${process.platform}, Node.js ${process.version})`,
    );
  }

  private async logServer(server: Server): Promise<void> {
    try {
      const { version, python, pythonVersion, config } = await server.execute("aish.about", {});
      this.log.info(`aish-lsp ${version}, Python ${pythonVersion} (${python}), ${config}`);
    } catch {
      // An older one does not tell, and its refusal is logged.
      this.log.info(`aish-lsp ${server.version} runs`);
    }
  }

  /** Have menus and the walkthrough know whether a model is connected. */
  private async noteModel(status: Status | null): Promise<void> {
    const isConnected = status !== null && status.model !== "offline";
    await vscode.commands.executeCommand("setContext", "aish.isConnected", isConnected);
  }

  /** Start the server with the keys that another window has kept, once nothing is going on. */
  private takeKeys(): void {
    if (!this.running || !this.hasOldKeys) return;
    if (this.chat.conversations.all.some((one) => one.isBusy)) return;
    this.hasOldKeys = false;
    this.restart().catch((error: unknown) => this.log.error(messageOf(error)));
  }

  private tellLate(): void {
    this.bar.say("$(warning) aish", "aish: the server does not answer");
    this.chat.tell("The server does not answer. The log says more.", "restartServer");
  }
}
