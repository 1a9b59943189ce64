/** A little help with elements. */

type Child = Node | string | null | undefined | false;
export type Attributes = Record<string, string | boolean | ((event: Event) => void)>;

/** Return a new element: `on...` are listeners, `true` is an attribute without a value. */
export function h<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false) made.setAttribute(key, value);
  }
  for (const child of children) if (child) made.append(child);
  return made;
}

export function button(
  label: string,
  onPress: () => void,
  attributes: Attributes = {},
): HTMLButtonElement {
  return h("button", { type: "button", onclick: onPress, ...attributes }, label);
}
