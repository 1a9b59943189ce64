/** What the extension and the webview of the chat send each other. */
import type { Event, ModelInfo } from "../protocol";
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

export interface Proposal {
  label: string;
  insert: string;
  detail: string;
  start: number;
}

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
  | { kind: "problem"; message: string; action: string };

export type FromWebview =
  | { kind: "ready" }
  | { kind: "send"; session: string; text: string }
  | { kind: "stop"; session: string; key: string }
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
  | { kind: "attach" }
  | { kind: "mentionTerminal" }
  | { kind: "action"; action: string };
