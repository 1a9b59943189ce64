/** What the server asks the user, until it is answered: in the chat, once, wherever it is seen. */
import * as vscode from "vscode";
import type { ApprovalRequest, Approved } from "../protocol";
import { approvalQuestion, YES } from "../question";
import { visible } from "../text";
import { DiffEditor } from "./diff_editor";
import type { Question } from "./messages";

/** The request `window/showMessageRequest`. */
export interface MessageRequest {
  type: number;
  message: string;
  actions?: { title: string }[] | undefined;
}

/** What the questions need from the chat. */
export interface Places {
  /** Return where a command or a tool call waits: its row, in its conversation. */
  find: (request: ApprovalRequest) => { session: string; row: string } | undefined;
  /** The questions that wait are others now. */
  changed: (questions: Question[]) => void;
}

interface Waiting {
  question: Question;
  request: ApprovalRequest | undefined;
  answer: (button: number) => void;
}

/** The questions that wait for an answer. They outlive the webview that shows them. */
export class Questions implements vscode.Disposable {
  private readonly waiting = new Map<string, Waiting>();
  private readonly diffs = new DiffEditor((id, isYes) => this.answer(id, isYes ? YES : 0));
  private number = 0;

  constructor(private readonly places: Places) {}

  dispose(): void {
    this.withdraw();
    this.diffs.dispose();
  }

  get all(): Question[] {
    return [...this.waiting.values()].map(({ question }) => question);
  }

  /** Ask for an approval; one that the server takes back is refused. */
  async approve(request: ApprovalRequest, taken: vscode.CancellationToken): Promise<Approved> {
    const place = this.places.find(request) ?? { session: "", row: "" };
    const question = { ...approvalQuestion(request), ...place, id: `q${++this.number}` };
    const button = await this.ask(question, taken, request);
    if (button < YES) return { approved: false, remember: null };
    return { approved: true, remember: request.remember[button - YES - 1] ?? null };
  }

  /** Ask what `window/showMessageRequest` asks; return the action that was chosen. */
  async choose(
    { message, actions = [] }: MessageRequest,
    taken: vscode.CancellationToken,
  ): Promise<{ title: string } | null> {
    const [title = "", ...rest] = message.split("\n");
    const question: Question = {
      id: `q${++this.number}`,
      session: "",
      row: "",
      title: visible(title),
      code: "",
      lines: [],
      notes: visible(rest.join("\n").trim()),
      buttons: actions.map((action) => ({ label: action.title, title: "" })),
      isDangerous: false,
    };
    return actions[await this.ask(question, taken)] ?? null;
  }

  /** Answer a question, unless that has been done. */
  answer(id: string, button: number): void {
    this.waiting.get(id)?.answer(button);
  }

  /** Take back those of a chat's rows, or all of them: what asked has ended. */
  withdraw(session?: string): void {
    for (const { question } of [...this.waiting.values()]) {
      if (session === undefined || (question.row && question.session === session)) {
        this.answer(question.id, -1);
      }
    }
  }

  /** Show the change that a question is about in the diff editor. */
  async showDiff(id: string): Promise<void> {
    const diff = this.waiting.get(id)?.request?.diff;
    if (diff) await this.diffs.show(id, diff);
  }

  private async ask(
    question: Question,
    taken: vscode.CancellationToken,
    request?: ApprovalRequest,
  ): Promise<number> {
    const { id } = question;
    const cancelled = taken.onCancellationRequested(() => this.answer(id, -1));
    try {
      return await new Promise<number>((answer) => {
        this.waiting.set(id, { question, request, answer });
        this.places.changed(this.all);
      });
    } finally {
      cancelled.dispose();
      this.waiting.delete(id);
      this.places.changed(this.all);
      await this.diffs.close(id);
    }
  }
}
