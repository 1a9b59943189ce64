/** Suggested commands as blocks of code, for a chat that gives those buttons of its own. */

import { visible } from "./text";

const SUGGESTION = "CMD: ";
const FENCE = /^ {0,3}(`{3,}|~{3,})/;

/** Makes a block of each `CMD: ` line of a reply that comes in pieces. */
export class Fences {
  private line = "";
  /** How much of the line is shown; 0 while it may be a command. */
  private shown = 0;
  private fence = "";

  /** Return what a piece adds to what is shown; a line that may be a command waits for its end. */
  take(delta: string): string {
    const lines = delta.split("\n");
    let shown = this.more(lines[0] ?? "");
    for (const line of lines.slice(1)) shown += this.ended() + this.more(line);
    return shown;
  }

  /** Return what is left once the reply has ended. */
  end(): string {
    return this.isCommand() ? this.block() : this.rest();
  }

  private more(text: string): string {
    this.line += text;
    const start = this.line.slice(0, SUGGESTION.length);
    return !this.fence && SUGGESTION.startsWith(start) ? "" : this.rest();
  }

  private rest(): string {
    const rest = this.line.slice(this.shown);
    this.shown = this.line.length;
    return rest;
  }

  private isCommand(): boolean {
    return !this.fence && this.line.startsWith(SUGGESTION);
  }

  private ended(): string {
    const ending = this.isCommand() ? this.block() : `${this.rest()}\n`;
    const [, mark = ""] = FENCE.exec(this.line) ?? [];
    if (!this.fence) this.fence = mark;
    else if (mark.startsWith(this.fence)) this.fence = "";
    this.line = "";
    this.shown = 0;
    return ending;
  }

  private block(): string {
    const command = this.line.slice(SUGGESTION.length).trim();
    const longest = Math.max(2, ...(command.match(/`+/g) ?? []).map(({ length }) => length));
    const fence = "`".repeat(longest + 1);
    return `\n${fence}sh\n${visible(command)}\n${fence}\n`;
  }
}
