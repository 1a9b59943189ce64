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
  const sessions = new Map<string, string>();
  const participant = vscode.chat.createChatParticipant(
    "aish.participant",
    async (request, { history }, stream, token) => {
      try {
        const running = await server();
        const folder = currentFolder();
        const workspace = folder ? { workspace: folder } : {};
        // Each of VS Code's chats has a session: its first question names it from then on.
        const first = history.find((turn) => turn instanceof vscode.ChatRequestTurn);
        const key = first ? first.prompt : request.prompt;
        const known = first && sessions.get(key);
        const session =
          known ?? (await running.execute("aish.session.new", { show: false, ...workspace })).id;
        sessions.set(key, session);
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
    },
  );
  participant.iconPath = vscode.Uri.joinPath(context.extensionUri, "media", "icon.png");
  return participant;
}

/** Say what went wrong, below what came of the reply; where no model answers, offer to connect one. */
function tell(stream: vscode.ChatResponseStream, message: string, kind: string): void {
  stream.markdown(`\n\n${isolated(message)}`);
  if (lacksModel(kind)) stream.button({ command: "aish.connectModel", title: "Connect a Model…" });
}
