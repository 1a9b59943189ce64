/** What the user is asked before a command runs. */
import { fileURLToPath } from "node:url";
import type { ApprovalRequest } from "./protocol";
import { visible } from "./text";

/** Lines of a command that a dialog shows; more of them are shown in an editor. */
const MOST_LINES = 20;

/** Return what a dialog says: exactly what would run, where, and what is risky about it. */
export function question(request: ApprovalRequest): {
  title: string;
  detail: string;
  isWhole: boolean;
} {
  const text = visible(request.text);
  const lines = text.split("\n");
  const isWhole = lines.length <= MOST_LINES && text.length <= 2_000;
  const shown = isWhole
    ? text
    : `${lines.slice(0, MOST_LINES).join("\n").slice(0, 2_000)}\n… (all ${lines.length} lines stand in the editor behind this)`;
  const where = `in ${visible(folderOf(request.cwd))}`;
  const why = request.reasons.length
    ? `${request.risk}: ${request.reasons.map(visible).join("; ")}`
    : request.risk;
  const covers =
    request.covers && request.covers !== request.text
      ? `\nRemembered, a yes covers: ${visible(request.covers)}`
      : "";
  const title = request.risk === "destructive" ? "This could lose something. Run it?" : "Run this?";
  return {
    title,
    detail: `${shown}\n\n${where}\n${why}\n\n${visible(request.undo)}${covers}`,
    isWhole,
  };
}

function folderOf(uri: string): string {
  return uri.startsWith("file:") ? fileURLToPath(uri) : uri;
}
