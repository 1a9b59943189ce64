/** The context page: where the tokens of the next request go, and what was spent. */
import * as vscode from "vscode";
import { page } from "../chat/surfaces";
import type { ContextReport, CostReport } from "../protocol";
import { type Server, warn } from "../server/client";

/** What the page is sent. */
export interface ContextShown {
  context: ContextReport;
  cost: CostReport;
  model: string;
}

export class ContextPage implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;

  constructor(
    private readonly extensionUri: vscode.Uri,
    private readonly server: () => Promise<Server>,
    private readonly place: () => { workspace?: string; session?: string },
  ) {}

  dispose(): void {
    this.panel?.dispose();
  }

  async show(): Promise<void> {
    if (this.panel) this.panel.reveal();
    else this.open();
    await this.refresh();
  }

  private open(): void {
    const dist = vscode.Uri.joinPath(this.extensionUri, "dist");
    const { Active } = vscode.ViewColumn;
    const panel = vscode.window.createWebviewPanel("aish.context", "aish: context", Active, {
      enableScripts: true,
      localResourceRoots: [dist],
    });
    this.panel = panel;
    panel.webview.onDidReceiveMessage((message: { kind: string }) => {
      if (message.kind === "ready") void this.refresh();
      if (message.kind === "compact") this.compact().catch(warn);
    });
    panel.onDidDispose(() => (this.panel = undefined));
    panel.webview.html = page(panel.webview, dist, "context", "aish: context", "editor");
  }

  /** Show it again if it is open. */
  async refresh(): Promise<void> {
    const { panel } = this;
    if (!panel) return;
    const server = await this.server();
    const place = this.place();
    const [context, cost, status] = await Promise.all([
      server.execute("aish.context.show", place),
      server.execute("aish.cost.show", { ...place, detail: true }),
      server.execute("aish.status", place),
    ]);
    const shown: ContextShown = { context, cost, model: status.model };
    await panel.webview.postMessage(shown);
  }

  private async compact(): Promise<void> {
    const options = {
      location: vscode.ProgressLocation.Notification,
      title: "aish",
      cancellable: true,
    };
    await vscode.window.withProgress(options, async (progress, token) => {
      const tell = (message: string): void => progress.report({ message });
      tell("summarizing what was said");
      const server = await this.server();
      // Without a handler the server would show its own progress, too.
      await server.execute("aish.context.compact", this.place(), token, tell);
    });
    await this.refresh();
  }
}
