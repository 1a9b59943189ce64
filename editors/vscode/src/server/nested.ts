/** Settings with a dot in their names, as the tables that the server knows. */

interface Inspected {
  globalValue?: unknown;
  workspaceValue?: unknown;
  workspaceFolderValue?: unknown;
}

type Table = { [key: string]: unknown };

/** Return the values that are set, `a.maxTurns` as `max_turns` in `a`: no default of VS Code's. */
export function nested(
  names: readonly string[],
  settings: { inspect: (key: string) => Inspected | undefined; get: (key: string) => unknown },
): Table {
  const found: Table = {};
  for (const name of names) {
    const set = settings.inspect(name);
    const values = [set?.globalValue, set?.workspaceValue, set?.workspaceFolderValue];
    if (values.every((value) => value === undefined)) continue;
    const path = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`).split(".");
    const last = path.pop() ?? "";
    let table = found;
    for (const part of path) table = (table[part] ??= {}) as Table;
    table[last] = settings.get(name);
  }
  return found;
}
