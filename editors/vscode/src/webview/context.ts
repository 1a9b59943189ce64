/** The context page: where the tokens of the next request go, as a picture and a table. */
import type { CostReport } from "../protocol";
import type { ContextShown } from "../views/context";
import "./chat.css";
import { dollars } from "../text";
import { button, h } from "./dom";

declare function acquireVsCodeApi(): { postMessage: (message: { kind: string }) => void };

const vscode = acquireVsCodeApi();
const main = h("main", { class: "context" }, h("p", {}, "Counting …"));
document.body.append(main);
window.addEventListener("message", ({ data }: MessageEvent<ContextShown>) => show(data));
vscode.postMessage({ kind: "ready" });

const NAMES: Record<string, string> = {
  system: "System prompt",
  memory: "Memory",
  project: "Project",
  summary: "Summary of what was said before",
  instructions: "Instruction files",
  tools: "Tools",
  messages: "Messages",
  reasoning: "Reasoning",
};

function show({ context, cost, model }: ContextShown): void {
  const counted = Object.entries(context.breakdown) as [string, number][];
  const parts = counted.filter(([, tokens]) => tokens > 0);
  const summary = `${context.total.toLocaleString()} of ${context.tokenBudget.toLocaleString()} tokens (${context.percent}%)`;
  const last = context.accuracy
    ? `Of the last request ${context.accuracy.estimated.toLocaleString()} were estimated, and ${context.accuracy.actual.toLocaleString()} counted by the server (${context.accuracy.errorPercent}% off).`
    : "";
  main.replaceChildren(
    h("h1", {}, `Context of the next request to ${model}`),
    h("p", { class: "total" }, `${summary}, ${countedHow(context)}`),
    picture(parts, context.free, context.tokenBudget),
    breakdown(parts, context.free, context.tokenBudget),
    h(
      "p",
      { class: "note" },
      `The model's window holds ${context.contextWindow.toLocaleString()} tokens; ${context.outputReserve.toLocaleString()} are kept for the reply. ${last}`,
    ),
    h(
      "div",
      { class: "buttons" },
      button("Summarize what was said", () => vscode.postMessage({ kind: "compact" })),
    ),
    h("h2", {}, "Cost of this chat"),
    costs(cost),
  );
}

/** Return who has counted, in words. */
function countedHow({ basis, newSince, tokenizer }: ContextShown["context"]): string {
  if (basis === "actual") {
    const isNew = newSince ? `, except ${newSince.toLocaleString()} new tokens` : "";
    return `counted by the model's server${isNew}`;
  }
  return tokenizer === "endpoint" ? "counted with the model's own tokenizer" : "estimated";
}

/** Return the bar: a stretch for each part, as long as its share. */
function picture(parts: [string, number][], free: number, budget: number): SVGElement {
  const make = <Name extends keyof SVGElementTagNameMap>(
    name: Name,
    attributes: Record<string, string | number>,
  ): SVGElementTagNameMap[Name] => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
    return made;
  };
  const svg = make("svg", {
    class: "bar",
    viewBox: "0 0 1000 40",
    preserveAspectRatio: "none",
    role: "img",
  });
  svg.setAttribute(
    "aria-label",
    parts.map(([name, tokens]) => `${NAMES[name] ?? name}: ${tokens} tokens`).join(", "),
  );
  let x = 0;
  for (const [name, tokens] of [...parts, ["free", free] as [string, number]]) {
    const width = budget > 0 ? (1000 * tokens) / budget : 0;
    svg.append(
      make("rect", { class: `part ${name}`, x, y: 0, width: Math.max(0, width), height: 40 }),
    );
    x += width;
  }
  return svg;
}

function breakdown(parts: [string, number][], free: number, budget: number): HTMLElement {
  const row = (name: string, label: string, tokens: number): HTMLElement =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("span", { class: `swatch ${name}` }), label),
      h("td", {}, tokens.toLocaleString()),
      h("td", {}, budget > 0 ? `${((100 * tokens) / budget).toFixed(1)}%` : ""),
    );
  return h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { scope: "col" }, "Part"),
        h("th", { scope: "col" }, "Tokens"),
        h("th", { scope: "col" }, "Share"),
      ),
    ),
    h(
      "tbody",
      {},
      ...parts.map(([name, tokens]) => row(name, NAMES[name] ?? name, tokens)),
      row("free", "Free", free),
    ),
  );
}

interface Slot {
  input: number;
  output: number;
  calls: number;
  cost: number | null;
  local: boolean;
}

function costs(cost: CostReport): HTMLElement {
  const models = Object.entries(cost.models as Record<string, Record<string, Slot>>);
  if (!models.length) return h("p", {}, "Nothing was asked yet.");
  const rows = models.flatMap(([name, categories]) =>
    Object.entries(categories).map(([category, slot]) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, category === "main" ? name : `${name} (${category})`),
        h("td", {}, slot.calls.toLocaleString()),
        h("td", {}, slot.input.toLocaleString()),
        h("td", {}, slot.output.toLocaleString()),
        h("td", {}, slot.local ? "local" : dollars(slot.cost) || "not known"),
      ),
    ),
  );
  const head = ["Model", "Calls", "Tokens in", "Tokens out", "Cost"];
  return h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...head.map((label) => h("th", { scope: "col" }, label)))),
    h("tbody", {}, ...rows),
  );
}
