/** What the links of a reply lead to: pages in the browser, and files of the workspace. */
import * as vscode from "vscode";
import { findFile, type Folders } from "./files";

/** Open a page, or a file that the extension itself has named. */
export async function follow(href: string): Promise<void> {
  const uri = vscode.Uri.parse(href, true);
  // A text stays as it is: as a URI, VS Code would open it with its %23 and %26 decoded.
  const text = href as unknown as vscode.Uri;
  if (["http", "https", "mailto"].includes(uri.scheme)) await vscode.env.openExternal(text);
  else if (uri.scheme === "file") await vscode.window.showTextDocument(uri);
}

/** Return where the files of a chat are looked for: in its folder, and never outside of all. */
export function foldersOf(folder: string | undefined): Folders {
  if (!folder) return { own: "", all: [] };
  const all = (vscode.workspace.workspaceFolders ?? []).map(({ uri }) => uri.fsPath);
  return { own: vscode.Uri.parse(folder).fsPath, all };
}

/** Open a file that a reply names, at the place that it names. */
export async function openFile(target: string, folders: Folders): Promise<void> {
  const place = await findFile(target, folders);
  if (!place) throw new Error(`${target} is not a file in this workspace, or no longer exists.`);
  const at = new vscode.Position(Math.max(0, place.line - 1), Math.max(0, place.column - 1));
  const options = place.line ? { selection: new vscode.Range(at, at) } : {};
  await vscode.commands.executeCommand("vscode.open", vscode.Uri.file(place.path), options);
}
