/** What the extension and the webview of the chat send each other. */
import type { ChatCompletion, Event } from "../protocol";
import type { Exchange, Run } from "./model";

/** A conversation as a tab of the chat. */
export interface Tab {
  session: string;
  title: string;
  folder: string;
  isBusy: boolean;
}

export interface Status {
  model: string;
  total: number;
  budget: number;
  cost: number | null;
}

/** A completion: the server's, or something of the editor that a question can go along with. */
export type Proposal = Omit<ChatCompletion, "kind"> & {
  kind: ChatCompletion["kind"] | "terminal" | "selection" | "problems";
};

/** A question that waits for the user's answer. All of its texts can be shown as they are. */
export interface Question {
  id: string;
  /** The session that waits; empty if that is not known. */
  session: string;
  /** The id of the command or the tool call that waits; empty if none does. */
  row: string;
  title: string;
  /** What would run. */
  code: string;
  /** What would change, line by line. */
  lines: string[];
  /** Paragraphs; one that is indented is code. */
  notes: string;
  /** The first one does nothing, and the second is a plain yes. */
  buttons: { label: string; title: string }[];
  /** It could lose something. */
  isDangerous: boolean;
}

export type ToWebview =
  | { kind: "chat"; tabs: Tab[]; active: string; exchanges: Exchange[]; sendWith: string }
  | { kind: "tabs"; tabs: Tab[] }
  | { kind: "exchange"; session: string; exchange: Exchange }
  | { kind: "events"; session: string; key: string; events: Event[] }
  | { kind: "run"; session: string; key: string; commandId: string; run: Run }
  | { kind: "dropped"; session: string; key: string; commandId: string }
  /** Which of the names that were asked for are files. */
  | { kind: "files"; session: string; key: string; found: string[] }
  | { kind: "status"; status: Status | null }
  | { kind: "proposals"; number: number; items: Proposal[] }
  | { kind: "questions"; questions: Question[] }
  | { kind: "insert"; text: string; replaces: boolean }
  | { kind: "focus" }
  /** What was typed on another page of the chat. */
  | { kind: "draft"; session: string; text: string }
  /** A chat goes on in another session. */
  | { kind: "renamed"; from: string; to: string }
  | { kind: "problem"; message: string; action: string };

export type FromWebview =
  | { kind: "ready" }
  | { kind: "focused" }
  | { kind: "draft"; session: string; text: string }
  | { kind: "send"; session: string; text: string }
  /** Without a key: what goes on now; what waits behind it stays. */
  | { kind: "stop"; session: string; key?: string }
  | { kind: "retry"; session: string; key: string; choosesModel?: boolean }
  | { kind: "edit"; session: string; key: string; text: string }
  | { kind: "run"; session: string; key: string; commandId: string; edited: string | null }
  | { kind: "terminal"; session: string; key: string; commandId: string }
  | { kind: "copy"; text: string }
  | { kind: "dismiss"; session: string; key: string; commandId: string }
  | { kind: "undo"; session: string; key: string }
  | { kind: "replace"; session: string; key: string; block: number }
  | { kind: "say"; session: string; text: string }
  | { kind: "answer"; id: string; button: number }
  | { kind: "openDiff"; id: string }
  | { kind: "show"; session: string }
  | { kind: "close"; session: string }
  | { kind: "new" }
  | { kind: "search" }
  | { kind: "context" }
  | { kind: "model" }
  | { kind: "complete"; number: number; prefix: string }
  | { kind: "link"; href: string }
  | { kind: "findFiles"; session: string; key: string; targets: string[] }
  | { kind: "openFile"; session: string; target: string }
  | { kind: "dropFiles"; uris: string[] }
  | { kind: "mentionTerminal" }
  | { kind: "action"; action: string };

/** What the chat itself carries out. */
export type FromChat = Exclude<FromWebview, { kind: "focused" | "draft" }>;
