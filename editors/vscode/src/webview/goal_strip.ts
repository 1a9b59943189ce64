/** The goal that is being pursued: its steps, and how to stop it, above the box. */
import type { Exchange } from "../chat/model";
import type { StepEvent } from "../protocol";
import { visible } from "../text";
import { button, h } from "./dom";
import { icon } from "./icons";

const STATES: Record<StepEvent["status"], string> = {
  planned: "planned",
  running: "running",
  done: "done",
  failed: "failed",
  denied: "not allowed",
  stopped: "stopped",
};

export class GoalStrip {
  readonly element = h("section", { class: "goal", "aria-label": "Goal", hidden: true });
  private readonly title = h("span", { class: "goal-title" });
  private readonly now = h("span", { class: "note" });
  private readonly steps = h("ol", { class: "goal-steps" });
  private shown = "";
  private key = "";

  constructor(stop: (key: string) => void) {
    const summary = h("summary", {}, this.title, " ", this.now);
    const press = button("Stop", () => stop(this.key), { "aria-label": "Stop the goal" });
    this.element.append(h("details", {}, summary, this.steps), press);
  }

  /** Show the goal that goes on, if one does. */
  show(exchange: Exchange | undefined): void {
    this.element.hidden = !exchange;
    if (!exchange) return;
    this.key = exchange.key;
    const steps = exchange.parts.flatMap((part) => (part.kind === "step" ? [part.step] : []));
    const shown = JSON.stringify([exchange.key, steps]);
    if (shown === this.shown) return;
    this.shown = shown;
    const goal = visible(steps[0]?.goal || exchange.prompt);
    this.title.replaceChildren(icon("chevron"), ` Goal: ${goal}`);
    this.title.title = goal;
    const last = steps.at(-1);
    this.now.textContent = last ? `Step ${last.number}: ${STATES[last.status]}` : "starting";
    this.steps.replaceChildren(...steps.map(stepRow));
  }
}

function stepRow({ number, plan, status, exitCode }: StepEvent): HTMLElement {
  const exit = exitCode ? ` (exit ${exitCode})` : "";
  const what = visible(plan) || `Step ${number}`;
  return h(
    "li",
    { class: status, value: String(number) },
    what,
    h("span", { class: "note" }, ` ${STATES[status]}${exit}`),
  );
}
