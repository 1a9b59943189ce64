/** The files of the workspace that a reply names. */
import { realpath, stat } from "node:fs/promises";
import { isAbsolute, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { type Place, placesOf } from "../file_names";

/** Names that are looked for, and as many at once: others read files too. */
const MOST = 20_000;
const AT_ONCE = 1000;

/** Where a name is looked for, and the folders that nothing is opened outside of. */
export interface Folders {
  own: string;
  all: readonly string[];
}

/** Return which of some targets are files. */
export async function existing(targets: readonly string[], folders: Folders): Promise<string[]> {
  const roots = await rootsOf(folders);
  const found: string[] = [];
  for (let at = 0; at < Math.min(targets.length, MOST); at += AT_ONCE) {
    const some = targets.slice(at, at + AT_ONCE);
    const places = await Promise.all(some.map((target) => find(target, folders.own, roots)));
    found.push(...some.filter((_, number) => places[number]));
  }
  return found;
}

/** Return the file that a target names, links followed; undefined if no folder has it. */
export async function findFile(target: string, folders: Folders): Promise<Place | undefined> {
  return await find(target, folders.own, await rootsOf(folders));
}

async function rootsOf({ all }: Folders): Promise<string[]> {
  const real = await Promise.all(all.map((root) => realpath(root).catch(() => undefined)));
  return [...all, ...real.filter((root) => root !== undefined)];
}

async function find(
  target: string,
  own: string,
  roots: readonly string[],
): Promise<Place | undefined> {
  const isAddress = target.startsWith("file://");
  // A module's version, as bundlers write it, is no part of its name.
  for (const place of placesOf(isAddress ? target.replace(/\?[^:]*/, "") : target)) {
    try {
      const named = isAddress ? fileURLToPath(place.path) : resolve(own, place.path);
      // A look at a name outside may be felt there: Windows connects to the server of a share.
      if (!roots.some((root) => isWithin(named, root))) continue;
      const path = await realpath(named);
      const isInside = roots.some((root) => isWithin(path, root));
      if (isInside && (await stat(path)).isFile()) return { ...place, path };
    } catch {
      // There is no such file, or there can be none of that name.
    }
  }
  return undefined;
}

function isWithin(path: string, root: string): boolean {
  const way = relative(root, path);
  return way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}
