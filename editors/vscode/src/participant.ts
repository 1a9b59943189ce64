/** `@aish` in VS Code's own chat, where that is there. The view of our own does without it. */
import * as vscode from "vscode";
import { currentFolder } from "./chat/conversations";
import { lacksModel } from "./chat/model";
import { Fences } from "./fences";
import type { AskResult } from "./protocol";
import { kindOf, messageOf, type Server } from "./server/client";
import { isolated } from "./text";

export function registerParticipant(
  context: vscode.ExtensionContext,
  server: () => Promise<Server>,
): vscode.Disposable {
  const api = (vscode as { chat?: { createChatParticipant?: unknown } }).chat;
  if (!api?.createChatParticipant) return new vscode.Disposable(() => undefined);
  const participant = vscode.chat.createChatParticipant(
    "aish.participant",
    async (request, { history }, stream, token) => {
      const metadata: { session?: string } = {};
      try {
        const running = await server();
        const folder = currentFolder();
        const workspace = folder ? { workspace: folder } : {};
        const session = (metadata.session = await sessionOf(running, history, workspace));
        const fences = new Fences();
        const { error } = await running.stream<"aish.ask", AskResult>(
          "aish.ask",
          { prompt: request.prompt, session, ...workspace },
          (event) => {
            if (event.kind === "text") stream.markdown(isolated(fences.take(event.delta)));
            else if (event.kind === "command")
              stream.markdown(isolated(fences.suggest(event.command)));
            else if (event.kind === "notice") stream.progress(event.message);
          },
          token,
        );
        stream.markdown(isolated(fences.end()));
        if (error) tell(stream, String(error["message"]), String(error["kind"]));
      } catch (error) {
        tell(stream, messageOf(error), kindOf(error));
      }
      return { metadata };
    },
  );
  participant.iconPath = vscode.Uri.joinPath(context.extensionUri, "media", "icon.png");
  return participant;
}

/** Return the session of one of VS Code's chats, which a reply names, the last first; else a new one. */
async function sessionOf(
  server: Server,
  history: vscode.ChatContext["history"],
  workspace: { workspace?: string },
): Promise<string> {
  // A reply that was stopped has no result to name it.
  const id = history
    .map((turn): unknown =>
      turn instanceof vscode.ChatResponseTurn ? turn.result.metadata?.["session"] : undefined,
    )
    .findLast((session) => typeof session === "string");
  const place = { show: false, ...workspace };
  if (typeof id === "string") {
    try {
      // The server may have been started anew since.
      return (await server.execute("aish.session.resume", { id, ...place })).id;
    } catch (error) {
      if (!["notFound", "busy"].includes(kindOf(error))) throw error;
    }
  }
  return (await server.execute("aish.session.new", place)).id;
}

/** Say what went wrong, below what came of the reply; where no model answers, offer to connect one. */
function tell(stream: vscode.ChatResponseStream, message: string, kind: string): void {
  stream.markdown(`\n\n${isolated(message)}`);
  if (lacksModel(kind)) stream.button({ command: "aish.connectModel", title: "Connect a Model…" });
}
