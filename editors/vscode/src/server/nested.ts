/** Settings with a dot in their names, as the tables that the server knows. */

interface Inspected {
  globalValue?: unknown;
  workspaceValue?: unknown;
  workspaceFolderValue?: unknown;
}

/** Return the values that are set, `a.b` as `b` in `a`. */
export function nested(
  names: readonly string[],
  settings: { inspect: (key: string) => Inspected | undefined; get: (key: string) => unknown },
): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const name of names) {
    const set = settings.inspect(name);
    const values = [set?.globalValue, set?.workspaceValue, set?.workspaceFolderValue];
    if (values.every((value) => value === undefined)) continue;
    const [table = "", key] = name.split(".");
    const value = settings.get(name);
    if (key === undefined) found[table] = value;
    else found[table] = { ...(found[table] as object | undefined), [key]: value };
  }
  return found;
}
