/** What the user is asked before a command runs, or a file is changed. */
import { fileURLToPath } from "node:url";
import type { Question } from "./chat/messages";
import type { ApprovalRequest } from "./protocol";
import { visible } from "./text";

/** The number of the button that is a plain yes; those behind it are remembered. */
export const YES = 1;

/** Return what an approval asks: exactly what would run or change, where, and what is risky. */
export function approvalQuestion(
  request: ApprovalRequest,
): Omit<Question, "id" | "session" | "row"> {
  const { diff, kind, risk, text, covers } = request;
  const isDangerous = risk === "destructive";
  const name = visible(text);
  const made = diff?.before ? `Change ${name}?` : `Create ${name}?`;
  const call = kind === "tool" ? "Call this tool?" : "";
  const run = isDangerous ? "This could lose something. Run it?" : "Run this command?";
  const notes = [
    kind === "command" ? `in ${visible(folderOf(request.cwd))}` : "",
    request.reasons.map((reason) => `- ${visible(reason)}`).join("\n"),
    visible(request.undo),
    covers && covers !== text ? `Remembered, a yes covers: ${visible(covers)}` : "",
  ];
  return {
    title: kind === "edit" ? made : call || run,
    code: kind === "edit" ? "" : name,
    lines: (diff?.lines ?? []).map(visible),
    notes: notes.filter(Boolean).join("\n\n"),
    buttons: buttonsOf(request, isDangerous),
    isDangerous,
  };
}

function buttonsOf(request: ApprovalRequest, isDangerous: boolean): Question["buttons"] {
  if (isDangerous) {
    return [
      { label: "Cancel", title: "" },
      { label: "Run", title: "" },
    ];
  }
  const labels = { session: "In this session", folder: "From now on in this folder" };
  const remembered = request.remember.map((scope, at) => {
    const title = request.labels[at + YES + 1] ?? "";
    const unconfined = title.endsWith("(unconfined)") ? " (unconfined)" : "";
    return { label: labels[scope] + unconfined, title };
  });
  return [{ label: "Reject", title: "" }, { label: "Accept", title: "" }, ...remembered];
}

function folderOf(uri: string): string {
  return uri.startsWith("file:") ? fileURLToPath(uri) : uri;
}
