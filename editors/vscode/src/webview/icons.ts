/** The icons of VS Code that the page uses, as drawings: the whole font would be 80 KB. */
import add from "@vscode/codicons/src/icons/add.svg";
import arrowDown from "@vscode/codicons/src/icons/arrow-down.svg";
import done from "@vscode/codicons/src/icons/check.svg";
import chevron from "@vscode/codicons/src/icons/chevron-right.svg";
import denied from "@vscode/codicons/src/icons/circle-slash.svg";
import close from "@vscode/codicons/src/icons/close.svg";
import copy from "@vscode/codicons/src/icons/copy.svg";
import edit from "@vscode/codicons/src/icons/edit.svg";
import waiting from "@vscode/codicons/src/icons/ellipsis.svg";
import failed from "@vscode/codicons/src/icons/error.svg";
import file from "@vscode/codicons/src/icons/file.svg";
import folder from "@vscode/codicons/src/icons/folder.svg";
import refresh from "@vscode/codicons/src/icons/refresh.svg";
import selection from "@vscode/codicons/src/icons/list-selection.svg";
import send from "@vscode/codicons/src/icons/arrow-up.svg";
import stop from "@vscode/codicons/src/icons/stop-circle.svg";
import command from "@vscode/codicons/src/icons/symbol-event.svg";
import terminal from "@vscode/codicons/src/icons/terminal.svg";
import problems from "@vscode/codicons/src/icons/warning.svg";
import { type Attributes, h } from "./dom";

const ICONS = {
  add,
  arrowDown,
  chevron,
  close,
  command,
  copy,
  denied,
  done,
  edit,
  failed,
  file,
  folder,
  problems,
  refresh,
  selection,
  send,
  stop,
  terminal,
  waiting,
};

export type IconName = keyof typeof ICONS;

/** Return an icon; what it means has to be said beside it. */
export function icon(name: IconName): HTMLElement {
  const made = h("span", { class: "icon", "aria-hidden": "true" });
  made.innerHTML = ICONS[name];
  return made;
}

/** Return a button that shows an icon; its label is its tooltip and its name for a screen reader. */
export function iconButton(
  name: IconName,
  label: string,
  onPress: () => void,
  attributes: Attributes = {},
): HTMLButtonElement {
  const { class: more, ...rest } = attributes;
  const shown = { class: ["quiet icon-button", more].filter(Boolean).join(" "), title: label };
  return h(
    "button",
    { type: "button", "aria-label": label, onclick: onPress, ...shown, ...rest },
    icon(name),
  );
}
