/** Suggested commands as blocks of code, for a chat that gives those buttons of its own. */

import type { CommandInfo } from "./protocol";
import { visible } from "./text";

const SUGGESTION = "CMD: ";
const FENCE = /^ {0,3}(`{3,}|~{3,})/;

/**
 * Makes a block of each suggestion of a reply that comes in pieces.
 *
 * A `CMD: ` line waits, with what follows it, until the server says where its command ends.
 */
export class Fences {
  private line = "";
  /** How much of the line is shown; 0 while it may be a command. */
  private shown = 0;
  private fence = "";
  /** The number of the first line that is not shown, from 0. */
  private number = 0;
  /** The lines from a suggestion on that waits. */
  private waiting: string[] = [];
  /** What the server has found, by its first line. */
  private readonly found = new Map<number, CommandInfo>();

  /** Return what a piece adds to what is shown. */
  take(delta: string): string {
    const lines = delta.split("\n");
    let shown = this.more(lines[0] ?? "");
    for (const line of lines.slice(1)) shown += this.ended() + this.more(line);
    return shown;
  }

  /** Return what is shown now that the server has found a command. */
  suggest(command: CommandInfo): string {
    this.found.set(command.line, command);
    return this.released();
  }

  /** Return what is left once the reply has ended. */
  end(): string {
    let shown = "";
    while (this.waits) shown += this.released(1) || this.block(1);
    return shown + this.rest();
  }

  /** Whether something waits; a last line without an end does so only here. */
  private get waits(): boolean {
    return this.waiting.length > 0 || this.isCommand();
  }

  private more(text: string): string {
    this.line += text;
    const start = this.line.slice(0, SUGGESTION.length);
    const waits = this.waiting.length || (!this.fence && SUGGESTION.startsWith(start));
    return waits ? "" : this.rest();
  }

  private rest(): string {
    const rest = this.line.slice(this.shown);
    this.shown = this.line.length;
    return rest;
  }

  private isCommand(): boolean {
    return !this.fence && this.line.startsWith(SUGGESTION) && this.line !== SUGGESTION;
  }

  private ended(): string {
    const { waits } = this;
    const ending = waits ? "" : `${this.rest()}\n`;
    if (waits) this.waiting.push(this.line);
    else {
      this.number += 1;
      const [, mark = ""] = FENCE.exec(this.line) ?? [];
      if (!this.fence) this.fence = mark;
      else if (mark.startsWith(this.fence)) this.fence = "";
    }
    this.line = "";
    this.shown = 0;
    return ending + this.released();
  }

  /**
   * Return what waited for the end of a command that is known by now; `open` is 1 where the line
   * that is not complete belongs to it.
   */
  private released(open = 0): string {
    if (this.waiting.length + open === 0) return "";
    const command = this.found.get(this.number);
    if (command) {
      const count = command.endLine - this.number + 1;
      return count > this.waiting.length + open ? "" : this.block(count, command.text);
    }
    // The server has passed it by.
    return [...this.found.keys()].some((line) => line > this.number) ? this.block(1) : "";
  }

  /** Return a block in the place of some lines that wait, and what follows them. */
  private block(count: number, text?: string): string {
    const lines = [...this.waiting, this.line];
    const command = (text ?? lines[0]?.slice(SUGGESTION.length) ?? "").trim();
    const longest = Math.max(2, ...(command.match(/`+/g) ?? []).map(({ length }) => length));
    const fence = "`".repeat(longest + 1);
    this.number += count;
    this.waiting = [];
    this.line = "";
    return `\n${fence}sh\n${visible(command)}\n${fence}\n${this.take(lines.slice(count).join("\n"))}`;
  }
}
