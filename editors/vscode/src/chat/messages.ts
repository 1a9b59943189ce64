/** What the extension and the webview of the chat send each other. */
import type { ChatCompletion, Event, ModelInfo } from "../protocol";
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

export type ToWebview =
  | { kind: "chat"; tabs: Tab[]; active: string; exchanges: Exchange[]; sendWith: string }
  | { kind: "tabs"; tabs: Tab[] }
  | { kind: "exchange"; session: string; exchange: Exchange }
  | { kind: "events"; session: string; key: string; events: Event[] }
  | { kind: "run"; session: string; key: string; commandId: string; run: Run }
  | { kind: "dropped"; session: string; key: string; commandId: string }
  | { kind: "status"; status: Status | null; models: ModelInfo[] }
  | { kind: "proposals"; number: number; items: Proposal[] }
  | { kind: "insert"; text: string; replaces: boolean }
  | { kind: "focus" }
  | { kind: "problem"; message: string; action: string };

export type FromWebview =
  | { kind: "ready" }
  | { kind: "send"; session: string; text: string }
  /** Without a key: what goes on now; what waits behind it stays. */
  | { kind: "stop"; session: string; key?: string }
  | { kind: "retry"; session: string; key: string }
  | { kind: "edit"; session: string; key: string; text: string }
  | { kind: "run"; session: string; key: string; commandId: string; edited: string | null }
  | { kind: "terminal"; session: string; key: string; commandId: string }
  | { kind: "copy"; text: string }
  | { kind: "dismiss"; session: string; key: string; commandId: string }
  | { kind: "replace"; session: string; key: string; block: number }
  | { kind: "say"; session: string; text: string }
  | { kind: "show"; session: string }
  | { kind: "close"; session: string }
  | { kind: "new" }
  | { kind: "search" }
  | { kind: "context" }
  | { kind: "model" }
  | { kind: "complete"; number: number; prefix: string }
  | { kind: "link"; href: string }
  | { kind: "dropFiles"; uris: string[] }
  | { kind: "mentionTerminal" }
  | { kind: "action"; action: string };
