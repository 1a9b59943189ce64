/** The commands of the palette, the menus and the keys. */
import * as vscode from "vscode";
import { mentionOf, mentionOfEditor } from "./chat/mentions";
import type { ChatView } from "./chat/view";
import { connectModel, type ConnectParts, editModels, forgetKeys } from "./connect";
import { register } from "./server/client";
import { unlinked, visible } from "./text";
import type { ChatList } from "./views/chats";
import type { ContextPage } from "./views/context";

interface Parts extends ConnectParts {
  chat: ChatView;
  chats: ChatList;
  page: ContextPage;
  showLog: () => void;
}

export function registerCommands(parts: Parts): vscode.Disposable[] {
  const { chat, chats, page } = parts;
  const commands: Record<string, (argument?: unknown) => unknown> = {
    "aish.openChat": () => chat.reveal(),
    "aish.newChat": async () => {
      await chat.reveal();
      // While those of the last time are being opened, one more would come on top of them.
      await chat.conversations.open();
      await chat.conversations.begin();
    },
    "aish.searchChats": () => chats.show(),
    "aish.openInEditor": () => chat.openInEditor(),
    "aish.moveChat": () =>
      vscode.commands.executeCommand("workbench.action.moveFocusedView", "aish.chatView"),
    "aish.showMemory": () => focus("aish.memoryView"),
    "aish.showTools": () => focus("aish.toolsView"),
    "aish.stop": () => chat.stop(),
    "aish.askSelection": () => askSelection(chat),
    "aish.attachSelection": async () => {
      const editor = vscode.window.activeTextEditor;
      if (!editor) return;
      await chat.reveal();
      chat.insert(mentionOfEditor(editor));
    },
    "aish.attachFile": async (file) => {
      if (!(file instanceof vscode.Uri)) return;
      await chat.reveal();
      chat.insert(mentionOf(file.toString()));
    },
    "aish.startGoal": () => startGoal(chat),
    "aish.pickModel": () => pickModel(parts),
    "aish.connectModel": () => connectModel(parts),
    "aish.editModels": () => editModels(parts),
    "aish.forgetKeys": () => forgetKeys(parts),
    "aish.showContext": () => page.show(),
    "aish.restartServer": () => parts.restart(),
    "aish.showLog": () => parts.showLog(),
    "aish.manageTrust": () => vscode.commands.executeCommand("workbench.trust.manage"),
    "aish.openSettings": () =>
      vscode.commands.executeCommand("workbench.action.openSettings", "@ext:aish-lsp.aish"),
  };
  return register(commands);
}

function focus(view: string): Thenable<unknown> {
  return vscode.commands.executeCommand(`${view}.focus`);
}

/** Ask about what is selected, without going to the chat first. */
async function askSelection(chat: ChatView): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (!editor) return;
  const { document, selection } = editor;
  const question = await vscode.window.showInputBox({
    prompt: selection.isEmpty ? "Ask about this line" : "Ask about the selection",
    placeHolder: "What does this do?",
  });
  if (!question?.trim()) return;
  const problems = vscode.languages
    .getDiagnostics(document.uri)
    .filter(({ range, source }) => source !== "aish" && range.intersection(selection));
  await chat.reveal();
  await chat.say(question, undefined, {
    uri: document.uri.toString(),
    range: plain(selection),
    diagnostics: problems.slice(0, 20).map(({ range, message, severity, source }) => ({
      range: plain(range),
      message,
      severity: severity + 1,
      source: source ?? null,
    })),
  });
}

function plain({ start, end }: vscode.Range): unknown {
  const of = ({ line, character }: vscode.Position): object => ({ line, character });
  return { start: of(start), end: of(end) };
}

async function startGoal(chat: ChatView): Promise<void> {
  const goal = await vscode.window.showInputBox({
    prompt: "What should be reached? aish goes on step by step until it is, within its limits.",
    placeHolder: "make the tests pass",
  });
  if (!goal?.trim()) return;
  const ways = [
    { label: "Ask before anything is changed", allowCaution: false },
    {
      label: "Run what may change something, confined to the folder",
      description: "one undo takes all of it back",
      allowCaution: true,
    },
  ];
  const way = await vscode.window.showQuickPick(ways, { placeHolder: goal });
  if (!way) return;
  await chat.reveal();
  await chat.pursue(goal, way.allowCaution);
}

async function pickModel(parts: Parts): Promise<void> {
  const { chat, server } = parts;
  const running = await server();
  const { active, models } = await running.execute("aish.model.list", chat.conversations.place);
  const add = { label: "$(plug) Connect a model…", name: "" };
  const items = models.map(({ name, model, endpoint, source }) => {
    const shown = unlinked(visible(name));
    return {
      label: name === active ? `$(check) ${shown}` : shown,
      description: model === name ? "" : unlinked(visible(model)),
      detail: [endpoint, source].filter(Boolean).join(" · "),
      name,
    };
  });
  const chosen = await vscode.window.showQuickPick([...items, add], {
    placeHolder: "The model that answers in this chat",
    matchOnDescription: true,
  });
  if (!chosen) return;
  if (!chosen.name) {
    await connectModel(parts);
    return;
  }
  await running.execute("aish.model.use", { name: chosen.name, ...chat.conversations.place });
  await chat.refreshStatus();
}
