import assert from "node:assert/strict";
import test from "node:test";
import { keyIn, Keys, notAKey } from "../src/server/keys";

/** A SecretStorage with a value of ours; one that is locked refuses everything. */
function storage(isLocked = false, value = "{}"): ConstructorParameters<typeof Keys>[0] {
  const kept = new Map([["aish.keys", value]]);
  const refuse = (): void => {
    if (isLocked) throw new Error("the keyring is locked");
  };
  return {
    get: async (name: string) => (refuse(), kept.get(name)),
    store: async (name: string, value: string) => (refuse(), void kept.set(name, value)),
    delete: async (name: string) => void kept.delete(name),
    onDidChange: () => ({ dispose: () => undefined }),
  };
}

/** Fail the test: nothing is to be told. */
function unexpected(message: string): never {
  throw new Error(message);
}

test("a key is taken out of what was pasted around it", () => {
  assert.equal(keyIn("sk-abc\n"), "sk-abc");
  assert.equal(keyIn(" export OPENAI_API_KEY='sk-abc' \r\n"), "sk-abc");
  assert.equal(keyIn('"sk-abc"'), "sk-abc");
  assert.equal(keyIn("sk-abc=="), "sk-abc==");
});

test("what cannot be a key is refused, and not shown", () => {
  assert.equal(notAKey("sk-abc\n"), "");
  assert.match(notAKey(" "), /Paste the key/);
  assert.match(notAKey("sk-abc\nsk-def"), /not a key/);
  assert.match(notAKey("sk-ключ"), /not a key/);
});

test("keys are kept and removed by their variables", async () => {
  const secrets = storage();
  assert.ok(await new Keys(secrets, unexpected).keep("A_KEY", "one"));
  const keys = new Keys(secrets, unexpected);
  assert.ok(await keys.keep("B_KEY", "two"));
  assert.deepEqual(await keys.all(), { A_KEY: "one", B_KEY: "two" });
  await keys.keep("A_KEY");
  assert.deepEqual(await keys.all(), { B_KEY: "two" });
});

test("a locked storage is told without the key, which holds until the window is closed", async () => {
  const told: string[] = [];
  const keys = new Keys(storage(true), (message) => told.push(message));
  assert.equal(await keys.keep("A_KEY", "sk-abc"), false);
  assert.deepEqual(await keys.all(), { A_KEY: "sk-abc" });
  assert.match(told[0] ?? "", /A_KEY cannot be kept: .*locked/);
  assert.ok(!told.join().includes("sk-abc"));
  assert.equal(await keys.keep("A_KEY"), false);
  assert.deepEqual(await keys.all(), {});
});

test("a key that cannot be removed is named: it will be there again", async () => {
  const secrets = storage(false, '{"A_KEY": "one", "B_KEY": "two"}');
  const keys = new Keys(secrets, () => undefined);
  assert.deepEqual(await keys.forget(["A_KEY"]), []);
  secrets.store = async () => Promise.reject(new Error("locked"));
  assert.deepEqual(await keys.forget(["B_KEY"]), ["B_KEY"]);
  assert.deepEqual(await keys.all(), { B_KEY: "two" });
});

test("a storage that never answers is a locked one, and holds nothing up", async () => {
  const told: string[] = [];
  const never = async (): Promise<never> => await new Promise(() => undefined);
  const secrets = { ...storage(), get: never, store: never };
  const keys = new Keys(secrets, (message) => told.push(message), 1);
  assert.deepEqual(await keys.all(), {});
  assert.equal(await keys.keep("A_KEY", "sk-abc"), false);
  assert.deepEqual(await keys.all(), { A_KEY: "sk-abc" });
  assert.match(told.join(), /does not answer/);
});

test("a storage that did not answer once is not waited for again until it does", async () => {
  const answers: ((text: string) => void)[] = [];
  const get = async (): Promise<string> => await new Promise((answer) => answers.push(answer));
  const keys = new Keys({ ...storage(), get }, () => undefined, 1);
  assert.deepEqual(await keys.all(), {});
  Object.assign(keys, { patience: 2 ** 30 });
  assert.deepEqual(await keys.all(), {});
  answers[0]?.('{"A_KEY":"one"}');
  await new Promise(setImmediate);
  const late = keys.all();
  answers[2]?.('{"A_KEY":"one"}');
  assert.deepEqual(await late, { A_KEY: "one" });
});

test("what is stored and is no keys is told, and the next key takes its place", async () => {
  for (const value of ["sk-abc", "", "[]", "null", '"{}"', '{"A_KEY": 1}']) {
    const told: string[] = [];
    const keys = new Keys(storage(false, value), (message) => told.push(message));
    assert.deepEqual(await keys.all(), {}, value);
    assert.equal(told.length, 1, value);
    assert.ok(!told.join().includes("abc"));
    assert.ok(await keys.keep("B_KEY", "two"), value);
    assert.deepEqual(await keys.all(), { B_KEY: "two" }, value);
  }
});
