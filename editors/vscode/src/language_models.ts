/** Our models for VS Code's own chat and for other extensions, where VS Code takes them (1.104). */
import * as vscode from "vscode";
import { messageOf, type Server } from "./server/client";

/** What VS Code has of this by now; it need not be there. */
interface Information {
  id: string;
  name: string;
  family: string;
  version: string;
  detail: string;
  maxInputTokens: number;
  maxOutputTokens: number;
  capabilities: Record<string, never>;
}
interface Message {
  role: vscode.LanguageModelChatMessageRole;
  content: readonly unknown[];
}
interface Provider {
  provideLanguageModelChatInformation: () => Promise<Information[]>;
  provideLanguageModelChatResponse: (
    model: Information,
    messages: readonly Message[],
    options: unknown,
    progress: vscode.Progress<object>,
    token: vscode.CancellationToken,
  ) => Promise<void>;
  provideTokenCount: (model: Information, text: string | Message) => Promise<number>;
}
type TextPart = new (value: string) => object;
interface Newer {
  lm?: {
    registerLanguageModelChatProvider?: (vendor: string, given: Provider) => vscode.Disposable;
  };
  LanguageModelTextPart?: TextPart;
}

/** Offer them; does nothing in a VS Code that takes none. */
export function registerLanguageModels(
  server: () => Promise<Server>,
  place: () => { workspace?: string; session?: string },
): vscode.Disposable {
  const { lm, LanguageModelTextPart } = vscode as unknown as Newer;
  if (!lm?.registerLanguageModelChatProvider || !LanguageModelTextPart) {
    return new vscode.Disposable(() => undefined);
  }
  return lm.registerLanguageModelChatProvider("aish", {
    provideLanguageModelChatInformation: async () => {
      if (!vscode.workspace.isTrusted) return [];
      return await listed(await server(), place());
    },
    provideLanguageModelChatResponse: async ({ id }, messages, _options, progress, token) => {
      const sent = messages
        .map(({ role, content }) => ({ role: roleOf(role), content: textOf(content) }))
        .filter(({ content }) => content);
      try {
        await (
          await server()
        ).stream<"aish.model.complete", unknown>(
          "aish.model.complete",
          { model: id, messages: sent, ...place() },
          (event) => {
            if (event.kind === "text") progress.report(new LanguageModelTextPart(event.delta));
          },
          token,
        );
      } catch (error) {
        // Another extension shows it: plain words, and no error of a protocol.
        throw new Error(messageOf(error));
      }
    },
    provideTokenCount: async ({ id }, text) => {
      const texts = [typeof text === "string" ? text : textOf(text.content)];
      const argument = { model: id, texts, ...place() };
      const { tokens } = await (await server()).execute("aish.model.count", argument);
      return tokens[0] ?? 0;
    },
  });
}

async function listed(
  server: Server,
  where: { workspace?: string; session?: string },
): Promise<Information[]> {
  const { models } = await server.execute("aish.model.list", where);
  // Those behind a key that was merely found ask first: they are not offered to others.
  const ready = models.filter(({ source }) => source !== "offered");
  return await Promise.all(
    ready.map(async ({ name, provider, model }) => {
      const limits = await server.execute("aish.model.count", { model: name, texts: [], ...where });
      return {
        id: name,
        name,
        family: model || name,
        version: provider,
        detail: "aish",
        maxInputTokens: limits.input,
        maxOutputTokens: limits.output,
        capabilities: {},
      };
    }),
  );
}

function roleOf(role: vscode.LanguageModelChatMessageRole): "user" | "assistant" {
  return role === vscode.LanguageModelChatMessageRole.Assistant ? "assistant" : "user";
}

/** Return the text of a message; what else is in it our models cannot be given. */
function textOf(content: readonly unknown[]): string {
  return content
    .map((part) => (part as { value?: unknown }).value)
    .filter((value) => typeof value === "string")
    .join("");
}
