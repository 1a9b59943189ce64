/** What of the editor a question can name. */
import * as vscode from "vscode";
import type { Proposal } from "./messages";

/** Problems that are put into a question at most. */
const MOST_PROBLEMS = 20;

/** Return how a file is named in a question. */
export function mentionOf(address: string): string {
  const uri = vscode.Uri.parse(address);
  // What is dropped in a remote window is named as the window sees it; this runs where the file is.
  const local = uri.scheme === "vscode-remote" ? vscode.Uri.file(uri.path) : uri;
  const name = vscode.workspace.asRelativePath(local, false);
  return `@${/^[\w./-]+$/.test(name) ? name : JSON.stringify(name)} `;
}

/** Return how the lines that are selected in an editor are named in a question. */
export function mentionOfEditor(editor: vscode.TextEditor): string {
  const { document, selection } = editor;
  const name = mentionOf(document.uri.toString()).trimEnd();
  if (selection.isEmpty) return `${name} `;
  const last = selection.end.character === 0 ? selection.end.line : selection.end.line + 1;
  return `${name}:${selection.start.line + 1}-${Math.max(last, selection.start.line + 1)} `;
}

/** Return what of the editor can be named where `@` was typed, at the end of a line. */
export function editorProposals(prefix: string): Proposal[] {
  const typed = /(?:^|\s)(@\w*)$/.exec(prefix)?.[1];
  if (!typed) return [];
  const start = prefix.length - typed.length;
  // Where the chat is an editor tab itself, no text editor is the active one.
  const { activeTextEditor, visibleTextEditors } = vscode.window;
  const file = [activeTextEditor, ...visibleTextEditors].find(
    (editor) => editor?.document.uri.scheme === "file",
  );
  const found: (Omit<Proposal, "start"> | undefined)[] = [
    file && {
      kind: file.selection.isEmpty ? "file" : "selection",
      label: file.selection.isEmpty ? "This file" : "Selection",
      insert: mentionOfEditor(file),
      detail: mentionOfEditor(file).trim(),
    },
    {
      kind: "terminal",
      label: "Terminal",
      insert: "@terminal ",
      detail: "what it last ran, with its output",
    },
    problemsOf(file?.document.uri),
  ];
  return found
    .filter((one) => one !== undefined)
    .filter(({ label }) => label.toLowerCase().startsWith(typed.slice(1).toLowerCase()))
    .map((one) => ({ ...one, start }));
}

/** Return the problems of a file, else of all, as text: what is sent can be read and changed. */
function problemsOf(uri: vscode.Uri | undefined): Omit<Proposal, "start"> | undefined {
  const own: [vscode.Uri, vscode.Diagnostic[]][] = uri
    ? [[uri, vscode.languages.getDiagnostics(uri)]]
    : [];
  const all = own.some(([, found]) => found.length) ? own : vscode.languages.getDiagnostics();
  const lines = all.flatMap(([file, problems]) =>
    problems
      .filter(({ severity }) => severity <= vscode.DiagnosticSeverity.Warning)
      .map(({ range, message }) => {
        const name = vscode.workspace.asRelativePath(file, false);
        return `${name}:${range.start.line + 1}: ${message.replaceAll("\n", " ")}`;
      }),
  );
  if (!lines.length) return undefined;
  const detail = lines.length === 1 ? "1 problem" : `${lines.length} problems`;
  const insert = `${lines.slice(0, MOST_PROBLEMS).join("\n")}\n`;
  return { kind: "problems", label: "Problems", insert, detail };
}
