/** A document for what is made of elements: imported before anything that needs one. */
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html><body></body>", { pretendToBeVisual: true });
for (const name of [
  "window",
  "document",
  "Node",
  "Text",
  "NodeFilter",
  "Element",
  "Event",
  "HTMLElement",
  "HTMLTextAreaElement",
]) {
  const value: unknown = name === "window" ? window : window[name];
  Object.defineProperty(globalThis, name, { value, configurable: true });
}
// jsdom lays nothing out, so there is nothing to scroll.
window.Element.prototype.scrollIntoView = () => undefined;
