/** Return whether a version is older than another one; what is no version is. */
export function isOlder(version: string, than: string): boolean {
  const [mine, other] = [numbers(version), numbers(than)];
  for (let at = 0; at < other.length; at += 1) {
    const difference = (mine[at] ?? 0) - (other[at] ?? 0);
    if (difference) return difference < 0;
  }
  return false;
}

function numbers(version: string): number[] {
  return (/^\d+(\.\d+)*/.exec(version)?.[0] ?? "0").split(".").map(Number);
}
