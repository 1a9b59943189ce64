/** Connecting a model: what there is, its key, a test question. */
import * as vscode from "vscode";
import type { Connectable, ConnectableModel, Connected } from "./protocol";
import { keyIn, notAKey, type Keys } from "./server/keys";
import { isCancelled, messageOf, NotStarted, type Server } from "./server/client";
import { unlinked, visible } from "./text";

type Place = { workspace?: string; session?: string };

export interface ConnectParts {
  server: () => Promise<Server>;
  keys: Keys;
  /** Start the server again, with the keys that are kept now. */
  restart: () => Promise<void>;
  /** Whether the server is one that the extension has installed; else it is the user's. */
  isOwnServer: () => boolean;
  /** Install such a server with llama.cpp, and start it again; return false if the user does not want that. */
  addEngine: () => Promise<boolean>;
  place: () => Place;
  /** Another model may answer now. */
  connected: () => Promise<void>;
}

/** How a model is connected: one that was found, what the user types, or what small ones lack. */
type Way = ConnectableModel | Connectable | "again" | "address" | "file" | "config";
type Row = vscode.QuickPickItem & { way?: Way };
/** The parameters of `aish.model.connect`. */
interface Wanted {
  choice: string;
  apiKeyEnv?: string;
  model?: string;
  default?: boolean;
}

const TITLE = "Connect a Model";

/** What the extra `local` fetches: llama.cpp, and the client of the hub that has the models. */
const ENGINE_SIZE = "about 40 MB";

/** Have the user choose a model, give what it needs, and see it answer. */
export async function connectModel(parts: ConnectParts, isSmall = false): Promise<void> {
  const way = await chosen(parts, isSmall);
  if (!way) return;
  try {
    if (way === "again") await connectModel(parts, isSmall);
    else if (way === "config") await vscode.commands.executeCommand("aish.editModels");
    else if (way === "address") await connectAddress(parts);
    else if (way === "file") await connectFile(parts);
    else if ("smallCommand" in way) await getEngine(parts, way);
    else await connectFound(parts, way);
  } catch (error) {
    if (error instanceof NotStarted || isCancelled(error)) return;
    const again = "Connect Another";
    const told = unlinked(`aish: ${visible(messageOf(error))}`);
    if (await vscode.window.showWarningMessage(told, again)) await connectModel(parts);
  }
}

/** Show what can be connected; it may take a second to find that. */
async function chosen({ server, place }: ConnectParts, isSmall: boolean): Promise<Way | undefined> {
  const pick = vscode.window.createQuickPick<Row>();
  pick.title = TITLE;
  pick.placeholder = "Looking for model servers on this machine…";
  pick.matchOnDescription = pick.matchOnDetail = pick.ignoreFocusOut = true;
  pick.busy = true;
  const answer = new Promise<Way | undefined>((resolve) => {
    pick.onDidAccept(() => {
      const [row] = pick.selectedItems;
      if (row?.way) resolve(row.way);
    });
    pick.onDidHide(() => resolve(undefined));
  });
  pick.show();
  try {
    const found = await (await server()).execute("aish.model.find", place());
    pick.items = isSmall && found.small.length ? found.small.map(smallRow) : rows(found);
    pick.placeholder = "Which model should answer?";
    pick.busy = false;
    return await answer;
  } finally {
    pick.dispose();
  }
}

function rows(all: Connectable): Row[] {
  const { found, providers, small, smallProblem } = all;
  const separator = (label: string): Row => ({ label, kind: vscode.QuickPickItemKind.Separator });
  const again = {
    label: "$(refresh) Look again",
    detail: "once llama.cpp, Ollama or LM Studio runs on this machine",
    way: "again" as const,
  };
  return [
    separator(found.length ? "found" : "no model server was found here"),
    ...found.map((one) => row(one, one.sendsTo ? "cloud" : "server", one.detail)),
    ...(found.length ? [] : [again]),
    separator("with a key that you paste"),
    ...providers.map((one) => row(one, "key", "")),
    separator("on this machine, without a key"),
    ...small.map(smallRow),
    ...(smallProblem ? [{ label: "$(cloud-download) A small model…", way: all }] : []),
    { label: "$(file-binary) A model in a GGUF file…", way: "file" as const },
    separator("elsewhere"),
    { label: "$(globe) A server at an address…", way: "address" as const },
    { label: "$(edit) Edit config.toml", way: "config" as const },
  ];
}

function smallRow(one: ConnectableModel): Row {
  return row(one, "cloud-download", `to download: ${one.detail}`);
}

function row(one: ConnectableModel, icon: string, detail: string): Row {
  const more = one.models.length > 1 ? ` and ${one.models.length - 1} more` : "";
  const where = one.sendsTo ? `your questions would be sent to ${one.sendsTo}` : "";
  const known = one.configured ? `configured as ${one.configured}` : "";
  return {
    label: `$(${icon}) ${unlinked(visible(one.label))}${more}`,
    // Providers take a line each: there are many of them.
    description: icon === "key" ? `${one.detail} · ${where}` : "",
    detail:
      icon === "key"
        ? ""
        : unlinked([detail, where, known].filter(Boolean).map(visible).join(" · ")),
    way: one,
  };
}

async function connectFound(parts: ConnectParts, found: ConnectableModel): Promise<void> {
  const { choice, label, keyVariable, sendsTo, keys: page } = found;
  // One whose key is in the environment has no page that says where to get it.
  const key = page ? { variable: keyVariable, name: label, page, sendsTo } : undefined;
  await connect(parts, { choice }, key);
}

async function connectAddress(parts: ConnectParts): Promise<void> {
  const choice = await vscode.window.showInputBox({
    title: TITLE,
    prompt: "The address of a server that speaks OpenAI's, Ollama's or llama.cpp's protocol",
    placeHolder: "127.0.0.1:8080, or https://models.example.com/v1",
    ignoreFocusOut: true,
    validateInput: (text) => (/\s/.test(text.trim()) ? "An address has no spaces." : undefined),
  });
  if (choice?.trim()) await connect(parts, { choice: choice.trim() });
}

async function connectFile(parts: ConnectParts): Promise<void> {
  const filters = { "Models (GGUF)": ["gguf"] };
  const [file] = (await vscode.window.showOpenDialog({ title: TITLE, filters })) ?? [];
  if (file) await connect(parts, { choice: file.fsPath });
}

interface WantedKey {
  variable: string;
  name: string;
  page: string;
  sendsTo: string;
}

/** Connect until it answers, or the user gives up; a key that did not help is not kept. */
async function connect(parts: ConnectParts, wanted: Wanted, key?: WantedKey): Promise<void> {
  const before = await parts.keys.all();
  let variable = "";
  let result: Connected | undefined;
  try {
    if (key) {
      variable = await takeKey(parts, key);
      if (!variable) return;
      await parts.restart();
    }
    for (;;) {
      result = await attempt(parts, wanted);
      if (result.models.length) {
        const model = await chooseModel(result.models);
        if (!model || !(await chooseScope(parts, wanted))) return;
        wanted.model = model;
      } else if (result.keyVariable) {
        const { keyVariable, problem } = result;
        const asked = key ?? { name: wanted.choice, page: "", sendsTo: "", variable: "" };
        const kept = await takeKey(parts, { ...asked, variable: keyVariable }, problem);
        if (!kept) return;
        variable = wanted.apiKeyEnv = kept;
        await parts.restart();
      } else break;
    }
  } finally {
    const isRefused = !result || result.keyVariable || !result.name;
    if (variable && isRefused) {
      // The server has it in its environment, where another one may have answered before.
      await parts.keys.keep(variable, before[variable]);
      await parts.restart();
    }
    await parts.connected();
  }
  await tellEnd(parts, result);
}

async function attempt({ server, place }: ConnectParts, wanted: Wanted): Promise<Connected> {
  const options = {
    location: vscode.ProgressLocation.Notification,
    title: "aish: connecting the model, and asking it to say hello",
    cancellable: true,
  };
  return await vscode.window.withProgress(options, async (progress, token) => {
    const running = await server();
    const tell = (message: string): void => progress.report({ message: unlinked(message) });
    return await running.execute("aish.model.connect", { ...wanted, ...place() }, token, tell);
  });
}

/** Have the user paste a key and keep it; return its variable, empty for no key. */
async function takeKey(parts: ConnectParts, key: WantedKey, problem = ""): Promise<string> {
  const { variable, name, page, sendsTo } = key;
  const text = await pasted({
    prompt: [
      problem || `Paste the key for ${name}.`,
      sendsTo && `Your questions, with the file names and output in them, are sent to ${sendsTo}.`,
    ]
      .filter(Boolean)
      .join(" "),
    page,
  });
  if (text === undefined) return "";
  if (!(await parts.keys.keep(variable, keyIn(text)))) {
    void vscode.window.showWarningMessage(
      "aish: VS Code's secret storage is locked or missing: the key is used until you close this window.",
    );
  }
  return variable;
}

/** Return what the user pastes into a box that does not show it; a button opens a page with keys. */
async function pasted({
  prompt,
  page,
}: {
  prompt: string;
  page: string;
}): Promise<string | undefined> {
  const box = vscode.window.createInputBox();
  box.title = TITLE;
  box.prompt = unlinked(prompt);
  box.placeholder = "The key: it is not shown";
  box.password = box.ignoreFocusOut = true;
  const open = { iconPath: new vscode.ThemeIcon("link-external"), tooltip: `Get a key at ${page}` };
  if (page) box.buttons = [open];
  try {
    return await new Promise((resolve) => {
      box.onDidTriggerButton(() => void vscode.env.openExternal(vscode.Uri.parse(page)));
      box.onDidChangeValue(() => (box.validationMessage = undefined));
      box.onDidAccept(() => {
        const problem = notAKey(box.value);
        if (problem) box.validationMessage = problem;
        else resolve(box.value);
      });
      box.onDidHide(() => resolve(undefined));
      box.show();
    });
  } finally {
    box.dispose();
  }
}

async function chooseModel(models: readonly string[]): Promise<string | undefined> {
  const other = { label: "$(edit) Another name…", name: "" };
  const known = models.map((name) => ({ label: unlinked(visible(name)), name }));
  const placeHolder = "Which of its models should answer?";
  const options = { title: TITLE, placeHolder, ignoreFocusOut: true };
  const answer = await vscode.window.showQuickPick([...known, other], options);
  if (answer !== other) return answer?.name;
  const prompt = "The model's name, as its server knows it";
  return (await vscode.window.showInputBox({ title: TITLE, prompt, ignoreFocusOut: true }))?.trim();
}

/** Ask whether new chats use it too, where another model is configured; return false for no answer. */
async function chooseScope({ server, place }: ConnectParts, wanted: Wanted): Promise<boolean> {
  const { models } = await (await server()).execute("aish.model.list", place());
  if (!models.some(({ source }) => source === "configured")) return true;
  const items = [
    { label: "In this chat and in new ones", isDefault: true },
    { label: "In this chat only", isDefault: false },
  ];
  const options = { title: TITLE, placeHolder: "Where should it answer?", ignoreFocusOut: true };
  const answer = await vscode.window.showQuickPick(items, options);
  if (answer) wanted.default = answer.isDefault;
  return answer !== undefined;
}

async function tellEnd(parts: ConnectParts, { name, reply, problem }: Connected): Promise<void> {
  if (!problem) {
    const open = "Open the Chat";
    const told = unlinked(`aish: ${visible(name)} answers: “${visible(reply).slice(0, 200)}”`);
    const answer = await vscode.window.showInformationMessage(told, open);
    if (answer) await vscode.commands.executeCommand("aish.openChat");
    return;
  }
  const [other, edit] = ["Connect Another", "Edit config.toml"];
  const told = name ? `${visible(name)} is in config.toml, but does not answer: ` : "";
  const buttons = name ? [other, edit] : [other];
  const answer = await vscode.window.showWarningMessage(
    unlinked(`aish: ${told}${visible(problem)}`),
    ...buttons,
  );
  if (answer === other) await connectModel(parts);
  if (answer === edit) await vscode.commands.executeCommand("aish.editModels");
}

/** Get what small models lack, or say what that is; then have the user choose one. */
async function getEngine(parts: ConnectParts, lacking: Connectable): Promise<void> {
  const { smallCommand, smallProblem } = lacking;
  if (!smallCommand) {
    void vscode.window.showWarningMessage(unlinked(`aish: ${smallProblem}`));
    return;
  }
  const [copy, site] = ["Copy the Command", "Open Ollama's Website"];
  if (!parts.isOwnServer()) {
    const answer = await vscode.window.showInformationMessage(
      `aish: A small model needs llama.cpp, or Ollama. The server here is one that you have installed: this command adds llama.cpp to it: ${smallCommand} Then choose a small model again.`,
      ...[copy, site],
    );
    if (answer === copy) await vscode.env.clipboard.writeText(smallCommand);
    if (answer === site) await vscode.env.openExternal(vscode.Uri.parse(OLLAMA));
    return;
  }
  if (await parts.addEngine()) await connectModel(parts, true);
}

/** Ask whether llama.cpp may be fetched: at first, and again for a new version of the extension. */
export async function agreesToEngine(host: string): Promise<boolean> {
  const get = "Get llama.cpp";
  const detail = `It is added to the server that this extension has installed: ${ENGINE_SIZE} are fetched from ${host}.`;
  const told = "A small model needs llama.cpp.";
  return (await vscode.window.showInformationMessage(told, { modal: true, detail }, get)) === get;
}

const OLLAMA = "https://ollama.com/download";

/** Open config.toml; where there is none yet, one that says what goes into it. */
export async function editModels({ server }: Pick<ConnectParts, "server">): Promise<void> {
  const { config } = await (await server()).execute("aish.about", {});
  const file = vscode.Uri.file(config);
  try {
    await vscode.workspace.fs.stat(file);
  } catch {
    await vscode.workspace.fs.writeFile(file, new TextEncoder().encode(EXAMPLE));
  }
  await vscode.window.showTextDocument(file);
}

const EXAMPLE = `\
# aish: the models, and whatever else the documentation names under "configuration". An example:
#
# default_model = "mine"
#
# [models.mine]
# endpoint = "http://127.0.0.1:8080"
# model = "the name that the server has for it"
`;

/** Have the user choose keys that are forgotten; the server is started without them. */
export async function forgetKeys({ keys, restart }: ConnectParts): Promise<void> {
  const names = Object.keys(await keys.all());
  if (!names.length) {
    void vscode.window.showInformationMessage("aish: VS Code keeps no keys for aish.");
    return;
  }
  const placeHolder = "Which keys should be forgotten?";
  const chosenNames = await vscode.window.showQuickPick(names, { canPickMany: true, placeHolder });
  if (!chosenNames?.length) return;
  const left = await keys.forget(chosenNames);
  if (left.length) {
    void vscode.window.showWarningMessage(
      `aish: VS Code's secret storage is locked or missing, and may still have the keys in ${left.join(", ")}. Forget them again once it is unlocked.`,
    );
  }
  await restart();
}
