import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';
import {
  args, cached, cell, demo, demoKey, demoModel, died, door, gone, image, key, makeKey, output, pieces, prompt, refused, rejection,
  release, requests, retried, running, slowBy, statuses, text, url,
} from './stand.mjs';

const me = 'anthropic-node';
const client = new Anthropic({ baseURL: url, apiKey: key });
const once = client.withOptions({ maxRetries: 0 });
const tools = [{ name: 'weather', input_schema: { type: 'object', properties: { city: { type: 'string' } } } }];
const body = (how, mark, more = {}) => ({ model: `${me}/${how}`, max_tokens: 100, messages: [{ role: 'user', content: mark }], ...more });
const ask = (how, mark, more = {}, options = {}, who = client) => who.messages.create(body(how, mark, more), options);
const usage = (u) => [u.input_tokens, u.cache_read_input_tokens, u.output_tokens];
const counted = [prompt - cached, cached, output];

/** Takes a stream to its end: its pieces and the message it makes. */
async function read(how, mark, more = {}) {
  const stream = client.messages.stream(body(how, mark, more));
  const got = [];
  stream.on('text', (piece) => got.push(piece));
  return { pieces: got, message: await stream.finalMessage() };
}

cell(me, 'demo', async () => {
  const there = client.withOptions({ baseURL: demo, apiKey: demoKey });
  const want = { model: demoModel, max_tokens: 24, messages: [{ role: 'user', content: 'demo' }] };
  const full = await there.messages.create(want);
  assert.equal(full.content[0].text.split(' ').length, full.usage.output_tokens);
  const got = await there.messages.stream(want).finalMessage();
  assert.deepEqual([got.content[0].text, got.usage.output_tokens], [full.content[0].text, full.usage.output_tokens]);
});
cell(me, 'chat', async () => {
  const got = await ask('plain', 'cell chat');
  assert.deepEqual([got.content[0].text, got.stop_reason, usage(got.usage)], [text, 'end_turn', counted]);
  const { header } = (await requests(`${me}/plain`, 'cell chat'))[0];
  assert.equal(got._request_id, header['X-Request-Id'][0]);
  assert.match(header['Anthropic-Version'][0], /^\d{4}-\d\d-\d\d$/);
  assert.equal(header['X-Api-Key'], undefined);
});
cell(me, 'stream', async () => {
  const got = await read('plain', 'cell stream');
  assert.deepEqual([got.pieces, got.message.stop_reason, usage(got.message.usage)], [pieces, 'end_turn', counted]);
});
cell(me, 'framing', async () => {
  const got = await read('framing', 'cell framing');
  assert.deepEqual([got.pieces, usage(got.message.usage)], [pieces, counted]);
});
cell(me, 'slow', async () => {
  const begin = performance.now();
  assert.deepEqual((await read('slow', 'cell slow')).pieces, pieces);
  assert.ok(performance.now() - begin >= slowBy);
});
cell(me, 'tools', async () => {
  const got = await ask('plain', 'cell tools', { tools });
  const call = got.content[0];
  assert.deepEqual([got.stop_reason, call.id, call.name, call.input], ['tool_use', 'toolu_1', 'weather', args]);
  const again = await client.messages.create(body('plain', '', { tools, messages: [
    { role: 'user', content: 'cell tools' }, { role: 'assistant', content: got.content },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: '12 °C' }] }] }));
  assert.equal(again.content[0].text, text);
});
cell(me, 'tools-stream', async () => {
  const { message } = await read('framing', 'cell tools', { tools });
  assert.deepEqual([message.stop_reason, message.content[0].name, message.content[0].input], ['tool_use', 'weather', args]);
});
cell(me, 'vision', async () => {
  const source = { type: 'base64', media_type: 'image/png', data: image };
  const got = await client.messages.create(body('plain', '', { messages: [
    { role: 'user', content: [{ type: 'text', text: 'cell vision' }, { type: 'image', source }] }] }));
  assert.equal(got.content[0].text, text);
  assert.ok((await requests(`${me}/plain`, 'cell vision'))[0].body.includes(image));
});
cell(me, 'count-tokens', async () => {
  const got = await client.messages.countTokens({ model: `${me}/plain`, messages: [{ role: 'user', content: 'cell count' }] });
  assert.equal(got.input_tokens, prompt);
});
cell(me, 'models', async () => {
  const got = await client.models.retrieve(`${me}/plain`);
  assert.deepEqual([got.id, got.type], [`${me}/plain`, 'model']);
  const ids = [];
  for await (const m of client.models.list({ limit: 20 })) ids.push(m.id); // over several pages
  assert.ok(ids.includes(`${me}/plain`));
});
cell(me, 'errors', async () => {
  const kinds = {
    s400: [Anthropic.BadRequestError, 'invalid_request_error'], s401: [Anthropic.AuthenticationError, 'authentication_error'],
    s403: [Anthropic.PermissionDeniedError, 'permission_error'], s404: [Anthropic.NotFoundError, 'not_found_error'],
    s413: [Anthropic.APIError, 'request_too_large'], s422: [Anthropic.UnprocessableEntityError, 'invalid_request_error'],
    s429: [Anthropic.RateLimitError, 'rate_limit_error'], s500: [Anthropic.InternalServerError, 'api_error'],
    s529: [Anthropic.InternalServerError, 'overloaded_error'], html502: [Anthropic.InternalServerError, 'api_error'],
  };
  for (const [how, [kind, name]] of Object.entries(kinds)) {
    const e = await rejection(ask(how, 'cell errors', {}, {}, once));
    assert.ok(e instanceof kind, `${how}: ${e.constructor.name}`);
    assert.deepEqual([e.status, e.error.type, e.error.error.type], [Number(how.slice(-3)), 'error', name]);
    if (how !== 'html502') assert.match(e.error.error.message, /scripted failure/);
    const seen = await requests(`${me}/${how}`);
    assert.deepEqual([seen.length, e.requestID, e.error.request_id], [1, seen[0].header['X-Request-Id'][0], e.requestID]);
  }
});
cell(me, 'no-retry', async () => {
  const begin = performance.now();
  const e = await rejection(ask('no-such', 'x'));
  assert.equal(e.constructor, Anthropic.NotFoundError);
  assert.deepEqual([e.error.error.type, e.headers.get('x-should-retry')], ['not_found_error', 'false']);
  assert.ok(performance.now() - begin < 5000);
});
for (const [how, wait] of [['limited', 1], ['loading', 1], ['closing', 0]]) {
  cell(me, `retry-${how}`, async () => {
    assert.equal((await ask(how, 'cell retry')).content[0].text, text);
    await retried(`${me}/${how}`, wait);
  });
}
/** A stream that breaks off: its text and its error. */
async function broken(how, onPiece = async () => {}) {
  let got = '';
  const e = await rejection((async () => {
    for await (const event of await ask(how, `cell ${how}`, { stream: true })) {
      if (event.type !== 'content_block_delta') continue;
      got += event.delta.text;
      await onPiece();
    }
  })());
  assert.ok(e instanceof Anthropic.APIError);
  assert.equal((await requests(`${me}/${how}`)).length, 1);
  return [got, e.error];
}
for (const how of ['cut', 'short']) {
  cell(me, how, async () => {
    const [got, error] = await broken(how);
    assert.deepEqual([got, error.type, error.error.type], [pieces.slice(0, 2).join(''), 'error', 'api_error']);
  });
}
cell(me, 'errorevent', async () => {
  const [got, error] = await broken('errorevent');
  assert.deepEqual([got, error.error], [pieces.slice(0, 2).join(''), { type: 'overloaded_error', message: died }]);
});
cell(me, 'reset', async () => {
  const [got] = await broken('reset', () => release(`${me}/reset`));
  assert.ok(got && text.startsWith(got));
});
cell(me, 'abort', async () => {
  const stream = await ask('endless', 'cell abort', { stream: true });
  let n = 0;
  for await (const _ of stream) if (++n === 6) {
    assert.equal(await running(`${me}/endless`), 1);
    stream.controller.abort();
  }
  await gone(`${me}/endless`);
});
cell(me, 'timeout', async () => {
  const e = await rejection(ask('hang', 'cell timeout', {}, { timeout: 1000 }, once));
  assert.equal(e.constructor, Anthropic.APIConnectionTimeoutError);
  await gone(`${me}/hang`);
});

const throughDoor = (name, more = {}, who = client) => who.withOptions({ baseURL: `${door}/${me}-${name}`, ...more });

cell(me, 'wrong-key', async () => {
  for (const [name, wrong, says] of [['other', demoKey, /not known here/], ['cut', key.slice(0, -3), /cannot be one of this server/]]) {
    const e = await rejection(ask('plain', 'x', {}, {}, throughDoor(name, { apiKey: wrong })));
    assert.deepEqual([e.constructor, e.status, e.error.error.type], [Anthropic.AuthenticationError, 401, 'authentication_error']);
    assert.match(e.error.error.message, says);
    assert.ok(!JSON.stringify(e).includes(wrong));
    assert.deepEqual(await statuses(`${me}-${name}`), [401]);
  }
});
cell(me, 'key-header', async () => {
  for (const [name, how, want] of [
    ['own', { apiKey: key }, [undefined, [`Bearer ${key}`]]], ['x', { apiKey: null, defaultHeaders: { 'x-api-key': key } }, [[key], undefined]],
  ]) {
    const who = new Anthropic({ baseURL: `${door}/${me}-${name}`, ...how });
    assert.equal((await ask('plain', 'cell key-header', {}, {}, who)).content[0].text, text);
    const { header } = (await requests(`door/${me}-${name}`))[0];
    assert.deepEqual([header['X-Api-Key'], header.Authorization], want);
  }
  for (const seen of await requests(`${me}/plain`, 'cell key-header')) assert.ok(!JSON.stringify(seen.header).includes(key));
});
cell(me, 'not-allowed', async () => {
  const mine = client.withOptions({ apiKey: await makeKey({ models: [`${me}/plain`] }) });
  assert.equal((await ask('plain', 'cell not-allowed', {}, {}, mine)).content[0].text, text);
  const said = [];
  for (const how of ['slow', 'no-such']) {
    const e = await rejection(ask(how, 'cell not-allowed', {}, {}, mine));
    assert.equal(e.constructor, Anthropic.NotFoundError);
    said.push(e.error.error.message.replaceAll(how, 'HOW'));
  }
  assert.equal(said[0], said[1]);
  assert.deepEqual(await requests(`${me}/slow`, 'cell not-allowed'), []);
  const ids = [];
  for await (const m of mine.models.list()) ids.push(m.id);
  assert.deepEqual(ids, [`${me}/plain`]);
});
cell(me, 'rate-headers', async () => {
  const mine = once.withOptions({ apiKey: await makeKey({ limits: { requests_per_minute: 2, tokens_per_minute: 100000 } }) });
  for (const left of ['1', '0']) {
    const { data, response: { headers } } = await mine.messages.create(body('plain', 'cell rate')).withResponse();
    assert.equal(data.content[0].text, text);
    const rate = (name) => headers.get(`anthropic-ratelimit-${name}`);
    assert.deepEqual([rate('requests-limit'), rate('requests-remaining'), rate('tokens-limit')], ['2', left, '100000']);
    assert.ok(Number(rate('tokens-remaining')) > 0 && Number(rate('tokens-remaining')) < 100000);
    assert.ok(Date.parse(rate('requests-reset')) > Date.now());
  }
  const e = await rejection(ask('plain', 'cell rate', {}, {}, mine));
  assert.deepEqual([e.constructor, e.error.error.type], [Anthropic.RateLimitError, 'rate_limit_error']);
  assert.equal(e.headers.get('anthropic-ratelimit-requests-remaining'), '0');
  assert.ok(Number(e.headers.get('retry-after')) >= 1 && Number(e.headers.get('retry-after-ms')) <= 61000);
});
cell(me, 'retry-rate', async () => {
  const mine = client.withOptions({ apiKey: await makeKey({ limits: { concurrency: 1 } }) });
  const held = await ask('endless', 'cell retry-rate', { stream: true }, {}, mine);
  await held[Symbol.asyncIterator]().next();
  const [got] = await Promise.all([
    ask('plain', 'cell retry-rate', {}, {}, throughDoor('rate', {}, mine)), refused(`${me}-rate`).then(() => held.controller.abort()),
  ]);
  assert.equal(got.content[0].text, text);
  await retried(`door/${me}-rate`, 1);
});
cell(me, 'no-retry-budget', async () => {
  const mine = throughDoor('budget', { apiKey: await makeKey({ budget: `0.00000${output}/total` }) });
  assert.equal((await ask('plain', 'cell budget', { max_tokens: output }, {}, mine)).content[0].text, text);
  const e = await rejection(ask('plain', 'cell budget', { max_tokens: output + 1 }, {}, mine));
  assert.equal(e.constructor, Anthropic.RateLimitError);
  assert.match(e.error.error.message, /budget/);
  assert.deepEqual(['x-should-retry', 'retry-after', 'retry-after-ms'].map((name) => e.headers.get(name)), ['false', null, null]);
  assert.deepEqual(await statuses(`${me}-budget`), [200, 429]);
});
