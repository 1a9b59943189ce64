/** What the model may call, as a tree: with what each costs of the context. */
import * as vscode from "vscode";
import type { ToolInfo, ToolServerInfo } from "../protocol";
import { register, type Server } from "../server/client";
import { short, unlinked, visible } from "../text";

type Node = { server: ToolServerInfo; tool?: ToolInfo };

export class ToolTree implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  private servers: ToolServerInfo[] = [];
  private readonly changed = new vscode.EventEmitter<undefined>();
  readonly onDidChangeTreeData = this.changed.event;
  private readonly disposables: vscode.Disposable[];

  constructor(
    private readonly server: () => Promise<Server>,
    private readonly place: () => { workspace?: string; session?: string },
  ) {
    this.disposables = [
      vscode.window.createTreeView("aish.toolsView", { treeDataProvider: this }),
      ...register({
        "aish.tools.refreshView": () => this.refresh(),
        "aish.tools.switchItem": (node: Node) => this.toggle(node),
        "aish.tools.connectItem": (node: Node) => this.connect(node),
        "aish.tools.disconnectItem": (node: Node) =>
          this.ask((server) => server.execute("aish.tools.disconnect", nameOf(node, this.place()))),
        "aish.tools.allowItem": (node: Node) => this.allow(node),
        "aish.tools.revokeItem": (node: Node) =>
          this.ask((server) => server.execute("aish.tools.revoke", nameOf(node, this.place()))),
      }),
    ];
  }

  dispose(): void {
    for (const disposable of this.disposables) disposable.dispose();
  }

  async refresh(): Promise<void> {
    await this.ask((server) => server.execute("aish.tools.list", this.place()));
  }

  private async ask(
    work: (server: Server) => Promise<{ servers: ToolServerInfo[] }>,
  ): Promise<void> {
    const { servers } = await work(await this.server());
    this.servers = servers;
    this.changed.fire(undefined);
  }

  getChildren(node?: Node): Node[] {
    if (!node) return this.servers.map((server) => ({ server }));
    return node.tool ? [] : node.server.tools.map((tool) => ({ server: node.server, tool }));
  }

  getTreeItem({ server, tool }: Node): vscode.TreeItem {
    return tool ? this.toolItem(server, tool) : this.serverItem(server);
  }

  private serverItem(server: ToolServerInfo): vscode.TreeItem {
    const { Expanded } = vscode.TreeItemCollapsibleState;
    const made = new vscode.TreeItem(visible(server.name), Expanded);
    // One that VS Code has not seen in this state is expanded: what it offers is there only now.
    made.id = `${server.name} ${server.state}`;
    const tokens = server.tools.reduce((sum, tool) => sum + (tool.on ? tool.tokens : 0), 0);
    made.description = server.on ? `${server.state}, ${short(tokens)} tokens` : "off";
    if (server.error) made.tooltip = visible(server.error);
    made.iconPath = new vscode.ThemeIcon(server.error ? "warning" : "tools");
    made.contextValue = server.state === "ready" ? "aish.server.on" : "aish.server.off";
    return made;
  }

  private toolItem(server: ToolServerInfo, tool: ToolInfo): vscode.TreeItem {
    const made = new vscode.TreeItem(visible(tool.name));
    const isOn = server.on && tool.on;
    const asks = tool.allowed ? "" : ", asks";
    made.description = isOn ? `${tool.tokens} tokens${asks}` : "off";
    made.tooltip = visible(tool.description);
    made.iconPath = new vscode.ThemeIcon(isOn ? "symbol-method" : "circle-slash");
    made.contextValue = tool.allowed ? "aish.tool.allowed" : "aish.tool.asks";
    return made;
  }

  private async toggle(node: Node): Promise<void> {
    const on = !(node.tool ?? node.server).on;
    await this.ask((server) =>
      server.execute("aish.tools.switch", { ...nameOf(node, this.place()), on }),
    );
  }

  private async connect(node: Node): Promise<void> {
    const options = {
      location: vscode.ProgressLocation.Window,
      title: unlinked(`aish: connecting ${visible(node.server.name)}`),
    };
    await vscode.window.withProgress(options, () =>
      this.ask((server) => server.execute("aish.tools.connect", nameOf(node, this.place()))),
    );
  }

  private async allow(node: Node): Promise<void> {
    const scopes = [
      { label: "Once", scope: "once" as const },
      { label: "In this chat", scope: "session" as const },
      { label: "Always in this folder", scope: "always" as const },
    ];
    const placeHolder = `How long may ${visible(node.tool?.name ?? node.server.name)} be called without a question?`;
    const chosen = await vscode.window.showQuickPick(scopes, { placeHolder });
    if (!chosen) return;
    const { scope } = chosen;
    await this.ask((server) =>
      server.execute("aish.tools.allow", { ...nameOf(node, this.place()), scope }),
    );
  }
}

function nameOf(
  node: Node,
  place: { workspace?: string; session?: string },
): { server: string; tool?: string; workspace?: string; session?: string } {
  return { ...place, server: node.server.name, ...(node.tool ? { tool: node.tool.name } : {}) };
}
