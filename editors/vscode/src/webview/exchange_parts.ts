/** The parts of a reply that are no text: calls of tools, steps of a goal, notices. */
import type { Part } from "../chat/model";
import type { StepEvent, ToolEvent } from "../protocol";
import { inVsCode, visible } from "../text";
import { h } from "./dom";
import { icon, type IconName } from "./icons";
import { markdown } from "./markdown";
import { diff } from "./questions";

/** Return a part of a reply that is no text. */
export function otherPart(part: Part): HTMLElement {
  switch (part.kind) {
    case "tool":
      return toolPart(part.call);
    case "step":
      return stepPart(part.step);
    case "notice":
      return noticePart(part.level, part.message);
    default:
      return h("div");
  }
}

function noticePart(level: string, message: string): HTMLElement {
  // The foot of the reply has a button for that.
  const said = message.replace(" `:model add` connects one.", "");
  return h("div", { class: `notice ${level}`, role: "note" }, markdown(inVsCode(said)));
}

const MARKS: Record<ToolEvent["status"] | StepEvent["status"], IconName> = {
  pending: "waiting",
  planned: "waiting",
  running: "waiting",
  done: "done",
  failed: "failed",
  denied: "denied",
  stopped: "stop",
};

/** Return the attributes of a scrolling part that the keyboard reaches. */
function region(label: string): Record<string, string> {
  return { tabindex: "0", role: "region", "aria-label": label };
}

/** What the result of a change begins with that its title says already. */
const SAID = /^(?:Changed|Made) .*?(?:removed|lines?\))\.\s*/;

function toolPart(call: ToolEvent): HTMLElement {
  const title = [icon(MARKS[call.status]), ` ${visible(call.title)}`];
  const text = visible((call.result ?? "").slice(0, 20_000));
  const known = { class: `tool ${call.status}`, "data-call": call.callId };
  // A change says what was asked for; its title links the file, which a summary may not.
  return call.diff
    ? h(
        "div",
        known,
        h("div", { class: "title" }, ...title),
        diff(visible(call.diff).split("\n")),
        h("div", { class: "note" }, text.replace(SAID, "")),
      )
    : h(
        "details",
        known,
        h("summary", {}, ...title),
        h("pre", { class: "growing", ...region("Arguments") }, visible(call.arguments)),
        text && h("pre", { class: "growing result", ...region("Result") }, text),
      );
}

function stepPart(step: StepEvent): HTMLElement {
  const exit = step.exitCode === null ? "" : ` (exit ${step.exitCode})`;
  const label = ` Step ${step.number}: ${step.status}${exit}`;
  return h(
    "div",
    { class: `step ${step.status}` },
    h("strong", {}, icon(MARKS[step.status]), label),
    step.plan ? h("span", { class: "note" }, ` ${visible(step.plan)}`) : null,
  );
}
