// What the suites share: the addresses that the command stand gives, the
// scripted engine's answers and books, and the cells of the matrix.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

const setting = (name) => process.env[name] ?? assert.fail(`${name} is not set; run .ci/clients/run`);

export const url = setting('LLMGW_URL');
export const key = setting('LLMGW_KEY');
export const demo = setting('LLMGW_DEMO');
export const demoModel = setting('LLMGW_DEMO_MODEL');
export const demoKey = setting('LLMGW_DEMO_KEY');
const engine = setting('LLMGW_ENGINE');
const admin = setting('LLMGW_ADMIN');
export const door = setting('LLMGW_DOOR');
const results = `${setting('LLMGW_RESULTS')}/node.jsonl`;

export const pieces = ['Grüße', ' aus', ' 東京', ' 🌍', ' "ok\\', '\n.'];
export const text = pieces.join('');
export const [prompt, cached, output] = [11, 3, 6];
export const total = prompt + output;
export const args = { city: 'Zürich', days: 3 };
export const slowBy = 600;
export const died = 'scripted: the engine died';
export const image =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=';

/** Runs one cell of the matrix and writes down what became of it. */
export function cell(client, name, f) {
  test(`${client}/${name}`, { timeout: 30_000 }, async () => {
    const begin = performance.now();
    let outcome = 'fail';
    try {
      await f();
      outcome = 'pass';
    } finally {
      const ms = Math.round(performance.now() - begin);
      fs.appendFileSync(results, JSON.stringify({ client, cell: name, outcome, ms }) + '\n');
    }
  });
}

const control = async (verb, name) => (await fetch(`${engine}/-/${verb}/${name}`)).json();

/** The requests of CLIENT/BEHAVIOUR whose body holds mark. */
export async function requests(name, mark = '') {
  return (await control('seen', name)).requests.filter((r) => r.body.includes(mark));
}

export const running = async (name) => (await control('seen', name)).running;

export const release = (name) => control('release', name);

/** Waits until the client's leave has reached the engine. */
export async function gone(name) {
  const deadline = performance.now() + 5000;
  for (;;) {
    const seen = await control('seen', name);
    if (seen.requests.length > 0 && seen.running === 0) return;
    assert.ok(performance.now() < deadline, `the engine still runs ${seen.running} of ${name} 5 s after the client left`);
    await pause(10);
  }
}

/** Makes a key as a program does that has no client: by JSON to the admin listener. */
export async function makeKey(want) {
  const answer = await fetch(`${admin}/llmgw.api.v1.KeyService/CreateKey`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(want),
  });
  const { secret, message } = await answer.json();
  return secret ?? assert.fail(message);
}

/** Waits until the server has refused a request that came through the door. */
export async function refused(name) {
  const deadline = performance.now() + 5000;
  while (!(await requests(`door/${name}`)).some((r) => r.status === 429)) {
    assert.ok(performance.now() < deadline, `no 429 for ${name} in 5 s`);
    await pause(10);
  }
}

export const statuses = async (name) => (await requests(`door/${name}`)).map((r) => r.status);

/**
 * The engine, or the door, saw two requests, the second after Retry-After (seconds) was over.
 * It is the client's first retry: one that came too early would have been
 * refused by the gateway in between. tries is what a client without a header for
 * that has counted itself.
 */
export async function retried(name, wait, tries) {
  const seen = await requests(name);
  assert.equal(seen.length, 2);
  const gap = seen[1].at_ms - seen[0].at_ms;
  assert.ok(gap >= wait * 1000 - 10, `came back after ${gap} ms`); // a timer may be early
  if (tries === undefined) assert.deepEqual(seen[1].header['X-Stainless-Retry-Count'], ['1']);
  else assert.equal(tries, 2);
}

/**
 * A client was told to come again while its model was loaded, and came again by itself when it
 * was told to, until it was served. The first request waited for a second.
 */
export async function woken(client) {
  const seen = await requests(`door/${client}-asleep`);
  assert.ok(seen.length >= 2);
  assert.deepEqual([seen[0].status, seen.at(-1).status], [503, 200]);
  const gap = seen[1].at_ms - seen[0].at_ms;
  assert.ok(gap >= 1990, `came back after ${gap} ms`);
  assert.deepEqual(seen[1].header['X-Stainless-Retry-Count'], ['1']);
}

/** Awaits a rejection and returns its error. */
export async function rejection(promise) {
  return promise.then(
    () => assert.fail('did not fail'),
    (e) => e,
  );
}
