/** What the user is told by notifications: what a chat that is out of sight asks, and that it has ended. */
import * as vscode from "vscode";
import { unlinked } from "../text";
import type { Conversation } from "./conversation";
import type { Question } from "./messages";

/** Milliseconds of work after which its end is told. */
const LONG = 10_000;

const SHOW = "Show";

export interface Places {
  /** Whether a chat is in sight, in a window that need not be in front; without a name, any. */
  isVisible: (session: string) => boolean;
  show: (session: string, folder?: string) => Promise<void>;
}

export class Notifications {
  private readonly busySince = new Map<Conversation, number>();
  /** The questions that it has told of. */
  private readonly told = new Set<string>();

  constructor(private readonly places: Places) {}

  /** Tell that what was long at work has ended. */
  follow(conversation: Conversation): void {
    const since = this.busySince.get(conversation) ?? Date.now();
    if (conversation.isBusy) {
      this.busySince.set(conversation, since);
      return;
    }
    this.busySince.delete(conversation);
    const { exchanges, folder, session, title } = conversation;
    const wanted = vscode.workspace.getConfiguration("aish").get<boolean>("chat.notify", true);
    const isSeen = vscode.window.state.focused && this.places.isVisible(session);
    if (!wanted || isSeen || Date.now() - since <= LONG) return;
    const last = exchanges.at(-1);
    const how = last?.error || last?.finishReason === "error" ? "failed" : "has ended";
    const what = last?.isGoal ? "The goal" : "The reply";
    this.offer(`aish: ${what} ${how}: ${title}`, session, folder);
  }

  /** Tell of the questions that are out of sight, each once; the answer is given in the chat. */
  tellQuestions(questions: readonly Question[]): void {
    for (const { id, session, title } of questions) {
      if (this.told.has(id) || this.places.isVisible(session)) continue;
      this.told.add(id);
      this.offer(`aish asks: ${title}`, session);
    }
  }

  private offer(message: string, session: string, folder?: string): void {
    void vscode.window.showInformationMessage(unlinked(message), SHOW).then(async (answer) => {
      if (answer === SHOW) await this.places.show(session, folder);
    });
  }
}
