/** The settings that the server is told: those that somebody has set, and no default of ours. */
import * as vscode from "vscode";
import type { ConfigurationParams } from "vscode-languageclient/node";
import { nested } from "./nested";

interface Manifest {
  contributes: { configuration: { properties: Record<string, unknown> }[] };
}

/** Return what `workspace/configuration` asks for. */
export function explicitSettings(params: ConfigurationParams): unknown[] {
  return params.items.map(({ scopeUri, section }) => {
    if (section !== "aish") return null;
    return nested(keys(), vscode.workspace.getConfiguration("aish", scope(scopeUri)));
  });
}

function scope(uri: string | undefined): vscode.Uri | null {
  return uri ? vscode.Uri.parse(uri) : null;
}

/** Return the names of the server's settings, without `aish.`: all but those of the extension. */
function keys(): string[] {
  const extension = vscode.extensions.getExtension("aish-lsp.aish");
  const manifest = extension?.packageJSON as Manifest | undefined;
  const sections = manifest?.contributes.configuration ?? [];
  return sections
    .flatMap(({ properties }) => Object.keys(properties))
    .map((key) => key.slice("aish.".length))
    .filter((key) => !/^(chat|server)\./.test(key));
}
