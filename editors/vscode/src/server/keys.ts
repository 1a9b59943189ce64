/**
 * The keys of model providers: in VS Code's SecretStorage, and from there in the environment that the
 * server is started with. They are in no file of ours, and in no message.
 */
import type { Event, SecretStorage } from "vscode";

const NAME = "aish.keys";

/** Milliseconds after which a storage that waits for its user is taken for a locked one. */
const PATIENCE = 10_000;

export class Keys {
  /** What could not be kept: it holds until the window is closed. */
  private readonly passing = new Map<string, string>();
  /** It has been waited for once in vain, and still does not answer. */
  private isSilent = false;

  constructor(
    private readonly secrets: SecretStorage,
    private readonly warn: (message: string) => void,
    private readonly patience = PATIENCE,
  ) {}

  /** Keys were changed, here or in another window. */
  onChange(changed: () => void): ReturnType<Event<unknown>> {
    return this.secrets.onDidChange(({ key }) => key === NAME && changed());
  }

  /** Return all keys, by the variables that hold them. */
  async all(): Promise<Record<string, string>> {
    return { ...(await this.stored()), ...Object.fromEntries(this.passing) };
  }

  /** Keep a key, or remove it without one; return whether it will be there after a restart. */
  async keep(variable: string, key?: string): Promise<boolean> {
    this.passing.delete(variable);
    try {
      const others = Object.entries(await this.read()).filter(([name]) => name !== variable);
      const kept = key ? [...others, [variable, key] as const] : others;
      await this.answered(this.secrets.store(NAME, JSON.stringify(Object.fromEntries(kept))));
      return true;
    } catch (error) {
      this.warn(`The key for ${variable} cannot be kept: ${String(error)}`);
      if (key) this.passing.set(variable, key);
      return false;
    }
  }

  /** Remove keys, and return those that may still be kept. */
  async forget(variables: readonly string[]): Promise<string[]> {
    const left: string[] = [];
    for (const variable of variables) if (!(await this.keep(variable))) left.push(variable);
    return left;
  }

  private async stored(): Promise<Record<string, string>> {
    try {
      return await this.read();
    } catch (error) {
      this.warn(`The keys cannot be read: ${String(error)}`);
      return {};
    }
  }

  private async read(): Promise<Record<string, string>> {
    const text = await this.answered(this.secrets.get(NAME));
    const kept = keysOf(text ?? "{}");
    // It is of no use to anybody: the next key that is kept takes its place.
    if (!kept) this.warn("What VS Code keeps for aish are no keys, and is left aside.");
    return kept ?? {};
  }

  /** Wait for the storage, but not for ever: the server is not started meanwhile. */
  private async answered<Result>(work: PromiseLike<Result>): Promise<Result> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const giveUp = (): void => {
        this.isSilent = true;
        reject(new Error("the storage does not answer"));
      };
      timer = setTimeout(giveUp, this.isSilent ? 0 : this.patience);
    });
    const answer = Promise.resolve(work).finally(() => (this.isSilent = false));
    return await Promise.race([answer, late]).finally(() => clearTimeout(timer));
  }
}

/** Return the keys in what the storage has; undefined if it is something else. */
function keysOf(text: string): Record<string, string> | undefined {
  try {
    const found: unknown = JSON.parse(text);
    const isMap = typeof found === "object" && found !== null && !Array.isArray(found);
    const isKeys = isMap && Object.values(found).every((key) => typeof key === "string");
    return isKeys ? (found as Record<string, string>) : undefined;
  } catch {
    return undefined;
  }
}

/** Return the key in what was pasted: without white space, quotes, and the name of its variable. */
export function keyIn(text: string): string {
  const value = text.trim().replace(/^(?:export\s+)?[A-Z][A-Z0-9_]*\s*=\s*/, "");
  return value.replace(/^(["'])(.*)\1$/, "$2").trim();
}

/** Return why a text is not a key; empty if it may be one. */
export function notAKey(text: string): string {
  const key = keyIn(text);
  if (!key) return "Paste the key here.";
  return /^[\x21-\x7e]+$/.test(key) ? "" : "This is not a key: it has spaces or other characters.";
}
