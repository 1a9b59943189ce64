/** The status bar: the model, how full its window is, what it has cost. */
import * as vscode from "vscode";
import type { Status } from "./chat/messages";
import { dollars, percent, short } from "./text";

export class StatusBar implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem(
    "aish",
    vscode.StatusBarAlignment.Right,
    90,
  );

  constructor() {
    this.item.name = "aish";
    this.item.command = "aish.showContext";
    this.say("$(comment-discussion) aish", "aish: the model, its context and the cost");
  }

  dispose(): void {
    this.item.dispose();
  }

  /** Show a text, and what a hover says. */
  say(text: string, hover: string): void {
    this.item.text = text;
    this.item.tooltip = hover;
    this.item.accessibilityInformation = { label: hover };
    this.item.show();
  }

  show({ model, total, budget, cost }: Status): void {
    const full = percent(total, budget);
    const spent = dollars(cost);
    this.say(
      `$(comment-discussion) ${model} ${full}%${spent ? ` ${spent}` : ""}`,
      `aish: ${model}, ${short(total)} of ${short(budget)} tokens of context (${full}%)${spent ? `, ${spent}` : ""}. Press for the context page.`,
    );
  }
}
