/** The pages that show the chat: the view in a side bar, and editor tabs. */
import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import type { FromChat, FromWebview, ToWebview } from "./messages";

/** A page; it is ready from when its script runs until it is hidden. */
export class Surface {
  isReady = false;

  constructor(readonly host: vscode.WebviewView | vscode.WebviewPanel) {}

  send(message: ToWebview): void {
    if (this.isReady) void this.host.webview.postMessage(message);
  }
}

export class Surfaces
  implements vscode.WebviewViewProvider, vscode.WebviewPanelSerializer, vscode.Disposable
{
  static readonly view = "aish.chatView";
  static readonly panel = "aish.chat";

  private readonly all = new Set<Surface>();
  /** The one that the user turned to last; the side bar's where there is none. */
  private latest: Surface | undefined;
  /** What the next one that is ready is sent. */
  private waiting: ToWebview[] = [];
  private badge: vscode.ViewBadge | undefined;
  /** What is typed but not sent, by its session: one page goes on where another was left. */
  private readonly drafts = new Map<string, string>();
  private readonly registered: vscode.Disposable[];

  constructor(
    private readonly extensionUri: vscode.Uri,
    private readonly face: {
      show: (surface: Surface) => void;
      take: (message: FromChat, from: Surface) => void;
      visibilityChanged: () => void;
    },
  ) {
    this.registered = [
      vscode.window.registerWebviewViewProvider(Surfaces.view, this),
      vscode.window.registerWebviewPanelSerializer(Surfaces.panel, this),
    ];
  }

  dispose(): void {
    for (const one of this.registered) one.dispose();
    for (const { host } of this.all) if ("reveal" in host) host.dispose();
  }

  get isVisible(): boolean {
    return [...this.all].some(({ host }) => host.visible);
  }

  /** Show a number on the view's icon. */
  setBadge(badge: vscode.ViewBadge | undefined): void {
    this.badge = badge;
    for (const { host } of this.all) if ("badge" in host) host.badge = badge;
  }

  /** Send what all of them show. */
  send(message: ToWebview): void {
    for (const surface of this.all) surface.send(message);
  }

  /** Take what was typed for a session to the one that takes its place. */
  rename(from: string, to: string): void {
    this.drafts.set(to, this.drafts.get(from) ?? "");
    this.drafts.delete(from);
    this.send({ kind: "renamed", from, to });
  }

  /** Send what belongs where the user is, now or once there is a page. */
  sendToLatest(message: ToWebview): void {
    if (this.latest?.isReady) this.latest.send(message);
    else this.waiting.push(message);
  }

  /** Show the page that was used last, with the caret in its box. */
  async reveal(): Promise<void> {
    const host = this.latest?.host;
    if (host && "reveal" in host) host.reveal();
    else await vscode.commands.executeCommand(`${Surfaces.view}.focus`);
    this.sendToLatest({ kind: "focus" });
  }

  openInEditor(): void {
    const { Active } = vscode.ViewColumn;
    const options = { enableFindWidget: true };
    this.addPanel(vscode.window.createWebviewPanel(Surfaces.panel, "aish", Active, options));
    this.sendToLatest({ kind: "focus" });
  }

  // What VS Code calls

  resolveWebviewView(view: vscode.WebviewView): void {
    const surface = this.add(view, "side bar");
    view.badge = this.badge;
    view.onDidChangeVisibility(() => this.followVisibility(surface));
  }

  deserializeWebviewPanel(panel: vscode.WebviewPanel): Promise<void> {
    this.addPanel(panel);
    return Promise.resolve();
  }

  private addPanel(panel: vscode.WebviewPanel): void {
    panel.iconPath = vscode.Uri.joinPath(this.extensionUri, "media", "aish.svg");
    const surface = this.add(panel, "editor");
    panel.onDidChangeViewState(() => this.followVisibility(surface));
  }

  private add(host: vscode.WebviewView | vscode.WebviewPanel, place: string): Surface {
    const surface = new Surface(host);
    this.all.add(surface);
    this.latest = surface;
    const { webview } = host;
    const dist = vscode.Uri.joinPath(this.extensionUri, "dist");
    webview.options = { enableScripts: true, enableCommandUris: false, localResourceRoots: [dist] };
    webview.onDidReceiveMessage((message: FromWebview) => this.take(message, surface));
    host.onDidDispose(() => {
      surface.isReady = false;
      this.all.delete(surface);
      if (this.latest === surface) this.latest = [...this.all].at(-1);
      this.face.visibilityChanged();
    });
    webview.html = page(webview, dist, "chat", "aish: chat", place);
    return surface;
  }

  /** What is hidden is gone: its script runs anew, and says so, when it is seen again. */
  private followVisibility(surface: Surface): void {
    if (!surface.host.visible) surface.isReady = false;
    this.face.visibilityChanged();
  }

  private take(message: FromWebview, from: Surface): void {
    switch (message.kind) {
      case "ready":
        from.isReady = true;
        for (const [session, text] of this.drafts) from.send({ kind: "draft", session, text });
        this.face.show(from);
        for (const one of this.waiting.splice(0)) from.send(one);
        this.face.take(message, from);
        break;
      case "focused":
        this.latest = from;
        break;
      case "draft":
        this.drafts.set(message.session, message.text);
        for (const other of this.all) if (other !== from) other.send(message);
        break;
      default:
        this.face.take(message, from);
    }
  }
}

/** Return a webview's page: one script and one style of ours, and nothing from anywhere else. */
export function page(
  webview: vscode.Webview,
  dist: vscode.Uri,
  name: string,
  title: string,
  place: string,
): string {
  const nonce = randomBytes(18).toString("base64url");
  const script = webview.asWebviewUri(vscode.Uri.joinPath(dist, `${name}.js`)).toString();
  const style = webview.asWebviewUri(vscode.Uri.joinPath(dist, "chat.css")).toString();
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src ${webview.cspSource}`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="stylesheet" href="${style}">
</head>
<body data-page="${name}" data-place="${place}"><script nonce="${nonce}" src="${script}"></script></body>
</html>`;
}
