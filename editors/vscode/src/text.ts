/** Text from outside, as it can be shown. */

/** Characters that are not seen, or that turn what follows around. */
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|\udb40[\udc00-\udfff]/g;

/** Return a text in which nothing is hidden: what cannot be seen is written as `<U+202E>`. */
export function visible(text: string): string {
  return text.replace(UNSEEN, codeOf);
}

/** Return a text of prose: what may turn other text around is shown, the rest is left as it is. */
export function isolated(text: string): string {
  return text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, codeOf);
}

/**
 * Return a message for a notification or a box of VS Code's, which make links of `[x](command:...)`:
 * a press would run the command, and the words may be a model's.
 */
export function unlinked(message: string): string {
  return message.replaceAll("](", "] (");
}

function codeOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}

/** Return a message of the server's that names a button for what is typed elsewhere. */
export function inVsCode(message: string): string {
  return message.replaceAll("`:model add`", "“Connect a Model…”");
}

/** Return a number of tokens in few characters: `950`, `1.2k`, `34k`. */
export function short(count: number): string {
  if (count < 1000) return String(count);
  const thousands = count / 1000;
  return `${thousands < 10 ? thousands.toFixed(1) : Math.round(thousands)}k`;
}

/** Return dollars for people; nothing for a local model. */
export function dollars(cost: number | null): string {
  if (cost === null) return "";
  return `$${cost < 0.1 ? cost.toFixed(4) : cost.toFixed(2)}`;
}

/** Return how full something is in percent; what does not fit is not sent. */
export function percent(part: number, whole: number): number {
  return whole > 0 ? Math.min(100, Math.round((100 * part) / whole)) : 0;
}
