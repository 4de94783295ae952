import assert from 'node:assert/strict';
import OpenAI, { AzureOpenAI } from 'openai';
import {
  args, cached, cell, demo, demoKey, demoModel, died, door, gone, image, key, makeKey, output, pieces, prompt, refused, rejection,
  release, requests, retried, running, slowBy, statuses, text, total, url, woken,
} from './stand.mjs';

const me = 'openai-node';
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key });
const once = client.withOptions({ maxRetries: 0 });
const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } }];
const ask = (how, mark, more = {}, options = {}, who = client) =>
  who.chat.completions.create({ model: `${me}/${how}`, messages: [{ role: 'user', content: mark }], ...more }, options);

/** Takes a stream to its end: its pieces, the finish reason, its usage and the number of chunks without a choice. */
async function read(stream) {
  const got = { pieces: [], finish: null, usage: null, empty: 0 };
  for await (const chunk of stream) {
    got.usage = chunk.usage ?? got.usage;
    if (chunk.choices.length === 0) got.empty++;
    if (chunk.choices[0]?.delta.content) got.pieces.push(chunk.choices[0].delta.content);
    got.finish = chunk.choices[0]?.finish_reason ?? got.finish;
  }
  return got;
}
const whole = { pieces, finish: 'stop', usage: null, empty: 0 };

cell(me, 'demo', async () => {
  const want = { model: demoModel, messages: [{ role: 'user', content: 'demo' }], max_tokens: 24 };
  const there = client.withOptions({ baseURL: `${demo}/v1`, apiKey: demoKey });
  const full = await there.chat.completions.create(want);
  assert.equal(full.choices[0].message.content.split(' ').length, full.usage.completion_tokens);
  const got = await read(await there.chat.completions.create({ ...want, stream: true, stream_options: { include_usage: true } }));
  assert.equal(got.pieces.join(''), full.choices[0].message.content);
  assert.equal(got.usage.total_tokens, full.usage.total_tokens);
});
cell(me, 'chat', async () => {
  const got = await ask('plain', 'cell chat');
  assert.equal(got.choices[0].message.content, text);
  assert.equal(got.choices[0].finish_reason, 'stop');
  assert.deepEqual([got.usage.prompt_tokens, got.usage.total_tokens, got.usage.prompt_tokens_details.cached_tokens], [prompt, total, cached]);
  assert.equal(got._request_id, (await requests(`${me}/plain`, 'cell chat'))[0].header['X-Request-Id'][0]);
});
cell(me, 'stream', async () => {
  assert.deepEqual(await read(await ask('plain', 'cell stream only', { stream: true })), whole);
  assert.match((await requests(`${me}/plain`, 'cell stream only'))[0].body, /"include_usage":true/);
});
cell(me, 'stream-usage', async () => {
  const got = await read(await ask('plain', 'cell usage', { stream: true, stream_options: { include_usage: true } }));
  assert.deepEqual([got.pieces, got.empty], [pieces, 1]);
  assert.deepEqual([got.usage.prompt_tokens, got.usage.total_tokens, got.usage.prompt_tokens_details.cached_tokens], [prompt, total, cached]);
});
cell(me, 'framing', async () => {
  assert.deepEqual(await read(await ask('framing', 'cell framing', { stream: true })), whole);
  const got = await read(await ask('framing', 'cell framing', { stream: true, stream_options: { include_usage: true } }));
  assert.equal(got.usage.total_tokens, total);
});
cell(me, 'slow', async () => {
  const begin = performance.now();
  assert.deepEqual(await read(await ask('slow', 'cell slow', { stream: true })), whole);
  assert.ok(performance.now() - begin >= slowBy);
});
cell(me, 'tools', async () => {
  const { choices: [{ message, finish_reason }] } = await ask('plain', 'cell tools', { tools });
  const call = message.tool_calls[0];
  assert.deepEqual([finish_reason, call.id, call.function.name, JSON.parse(call.function.arguments)], ['tool_calls', 'call_1', 'weather', args]);
  const again = await client.chat.completions.create({ model: `${me}/plain`, tools, messages: [
    { role: 'user', content: 'cell tools' }, message, { role: 'tool', tool_call_id: call.id, content: '12 °C' }] });
  assert.equal(again.choices[0].message.content, text);
});
cell(me, 'tools-stream', async () => {
  const runner = client.chat.completions.stream({ model: `${me}/framing`, tools, messages: [{ role: 'user', content: 'cell tools' }] });
  const call = (await runner.finalChatCompletion()).choices[0].message.tool_calls[0];
  assert.deepEqual([call.function.name, JSON.parse(call.function.arguments)], ['weather', args]);
});
cell(me, 'vision', async () => {
  const image_url = { url: `data:image/png;base64,${image}`, detail: 'low' };
  const got = await client.chat.completions.create({ model: `${me}/plain`, messages: [
    { role: 'user', content: [{ type: 'text', text: 'cell vision' }, { type: 'image_url', image_url }] }] });
  assert.equal(got.choices[0].message.content, text);
  assert.ok((await requests(`${me}/plain`, 'cell vision'))[0].body.includes(image_url.url));
});
cell(me, 'embeddings', async () => {
  const model = `${me}/plain`;
  const got = await client.embeddings.create({ model, input: ['cell base64', 'b'] });
  assert.deepEqual([got.data[1].embedding, got.usage.prompt_tokens], [[1, -0.5, 0.25, 1], prompt]);
  assert.match((await requests(model, 'cell base64'))[0].body, /"encoding_format":"base64"/);
  assert.deepEqual((await client.embeddings.create({ model, input: 'c', encoding_format: 'float' })).data[0].embedding, [1, -0.5, 0.25, 0]);
  assert.equal((await client.embeddings.create({ model, input: [[1, 2], [3], [4]] })).data.length, 3);
});
cell(me, 'models', async () => {
  assert.equal((await client.models.retrieve(`${me}/plain`)).id, `${me}/plain`);
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  assert.ok(ids.includes(`${me}/plain`));
});
cell(me, 'errors', async () => {
  const kinds = {
    s400: OpenAI.BadRequestError, s401: OpenAI.AuthenticationError, s403: OpenAI.PermissionDeniedError, s404: OpenAI.NotFoundError,
    s409: OpenAI.ConflictError, s413: OpenAI.APIError, s422: OpenAI.UnprocessableEntityError, s429: OpenAI.RateLimitError,
    s500: OpenAI.InternalServerError, s503: OpenAI.InternalServerError, html502: OpenAI.InternalServerError,
  };
  for (const [how, kind] of Object.entries(kinds)) {
    const e = await rejection(ask(how, 'cell errors', {}, {}, once));
    assert.equal(e.constructor, kind, how);
    assert.equal(e.status, Number(how.slice(-3)));
    if (how !== 'html502') assert.match(e.message, /scripted failure/);
    assert.equal(typeof e.type, 'string');
    assert.ok(e.param === null && (e.code === null || !/^\d+$/.test(e.code)), `${how}: param ${e.param}, code ${e.code}`);
    const seen = await requests(`${me}/${how}`);
    assert.deepEqual([seen.length, e.requestID], [1, seen[0].header['X-Request-Id'][0]]);
  }
});
cell(me, 'no-retry', async () => {
  const begin = performance.now();
  const e = await rejection(ask('no-such', 'x'));
  assert.equal(e.constructor, OpenAI.NotFoundError);
  assert.deepEqual([e.code, e.type, e.param, e.headers.get('x-should-retry')], ['model_not_found', 'invalid_request_error', 'model', 'false']);
  assert.ok(performance.now() - begin < 5000);
});
for (const [how, wait] of [['limited', 1], ['loading', 1], ['closing', 0]]) {
  cell(me, `retry-${how}`, async () => {
    assert.equal((await ask(how, 'cell retry')).choices[0].message.content, text);
    await retried(`${me}/${how}`, wait);
  });
}
cell(me, 'asleep', async () => {
  const got = await ask('asleep', 'cell asleep', { max_tokens: 3 }, {}, throughDoor('asleep'));
  assert.equal(got.usage.completion_tokens, 3);
  await woken(me);
});
/** A stream that breaks off after two pieces: its error. */
async function broken(how) {
  let got = '';
  const e = await rejection((async () => {
    for await (const chunk of await ask(how, `cell ${how}`, { stream: true })) got += chunk.choices[0]?.delta.content ?? '';
  })());
  assert.ok(e instanceof OpenAI.APIError);
  assert.equal(got, pieces.slice(0, 2).join(''));
  assert.equal((await requests(`${me}/${how}`)).length, 1);
  return e;
}
for (const how of ['cut', 'short']) {
  cell(me, how, async () => {
    const e = await broken(how);
    assert.deepEqual([e.code, e.type], ['upstream_failed', 'server_error']);
  });
}
cell(me, 'errorevent', async () => assert.match((await broken('errorevent')).message, new RegExp(died)));
cell(me, 'reset', async () => {
  let got = '';
  const e = await rejection((async () => {
    for await (const chunk of await ask('reset', 'cell reset', { stream: true })) {
      const piece = chunk.choices[0]?.delta.content;
      if (!piece) continue;
      got += piece;
      await release(`${me}/reset`);
    }
  })());
  assert.ok(e instanceof OpenAI.APIError);
  assert.ok(got && text.startsWith(got));
  assert.equal((await requests(`${me}/reset`)).length, 1);
});
cell(me, 'abort', async () => {
  const stream = await ask('endless', 'cell abort', { stream: true });
  let n = 0;
  for await (const _ of stream) if (++n === 5) {
    assert.equal(await running(`${me}/endless`), 1);
    stream.controller.abort();
  }
  await gone(`${me}/endless`);
});
cell(me, 'timeout', async () => {
  const e = await rejection(ask('hang', 'cell timeout', {}, { timeout: 1000 }, once));
  assert.equal(e.constructor, OpenAI.APIConnectionTimeoutError);
  await gone(`${me}/hang`);
});
cell(me, 'responses', async () => {
  const got = await client.responses.create({ model: `${me}/plain`, input: 'cell responses' });
  assert.deepEqual([got.output_text, got.usage.total_tokens, got.usage.input_tokens_details.cached_tokens], [text, total, cached]);
  const seen = [];
  let last;
  for await (const event of await client.responses.create({ model: `${me}/framing`, input: 'cell responses', stream: true })) {
    if (event.type === 'response.output_text.delta') seen.push(event.delta);
    last = event;
  }
  assert.deepEqual([seen, last.type, last.response.usage.total_tokens], [pieces, 'response.completed', total]);
});

const throughDoor = (name, more = {}, who = client) => who.withOptions({ baseURL: `${door}/${me}-${name}/v1`, ...more });

cell(me, 'wrong-key', async () => {
  for (const [name, wrong, says] of [['other', demoKey, /not known here/], ['cut', key.slice(0, -3), /cannot be one of this server/]]) {
    const e = await rejection(ask('plain', 'x', {}, {}, throughDoor(name, { apiKey: wrong })));
    assert.equal(e.constructor, OpenAI.AuthenticationError);
    assert.deepEqual([e.status, e.code], [401, 'invalid_api_key']);
    assert.match(e.message, says);
    assert.ok(!JSON.stringify(e).includes(wrong));
    assert.deepEqual(await statuses(`${me}-${name}`), [401]);
  }
});
cell(me, 'key-header', async () => {
  const azure = new AzureOpenAI({ baseURL: `${door}/${me}-azure/v1`, apiKey: key, apiVersion: 'v1' });
  assert.equal((await azure.responses.create({ model: `${me}/plain`, input: 'cell key-header' })).output_text, text);
  const { header } = (await requests(`door/${me}-azure`))[0];
  assert.deepEqual([header['Api-Key'], header.Authorization], [[key], undefined]);
  assert.ok(!JSON.stringify((await requests(`${me}/plain`, 'cell key-header'))[0].header).includes(key));
});
cell(me, 'not-allowed', async () => {
  const mine = client.withOptions({ apiKey: await makeKey({ models: [`${me}/plain`] }) });
  assert.equal((await ask('plain', 'cell not-allowed', {}, {}, mine)).choices[0].message.content, text);
  const said = [];
  for (const how of ['slow', 'no-such']) {
    const e = await rejection(ask(how, 'cell not-allowed', {}, {}, mine));
    assert.deepEqual([e.constructor, e.code], [OpenAI.NotFoundError, 'model_not_found']);
    said.push(e.message.replaceAll(how, 'HOW'));
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
    const { data, response: { headers } } = await mine.chat.completions
      .create({ model: `${me}/plain`, messages: [{ role: 'user', content: 'cell rate' }] }).withResponse();
    assert.equal(data.choices[0].message.content, text);
    const rate = (name) => headers.get(`x-ratelimit-${name}`);
    assert.deepEqual([rate('limit-requests'), rate('remaining-requests'), rate('limit-tokens')], ['2', left, '100000']);
    assert.ok(Number(rate('remaining-tokens')) > 0 && Number(rate('remaining-tokens')) < 100000);
    assert.match(rate('reset-requests'), /^(1m)?\d+(\.\d+)?s$/);
  }
  const e = await rejection(ask('plain', 'cell rate', {}, {}, mine));
  assert.deepEqual([e.constructor, e.code, e.headers.get('x-ratelimit-remaining-requests')], [OpenAI.RateLimitError, 'rate_limit_exceeded', '0']);
  assert.ok(Number(e.headers.get('retry-after')) >= 1 && Number(e.headers.get('retry-after-ms')) <= 61000);
});
cell(me, 'retry-rate', async () => {
  const mine = client.withOptions({ apiKey: await makeKey({ limits: { concurrency: 1 } }) });
  const held = await ask('endless', 'cell retry-rate', { stream: true }, {}, mine);
  await held[Symbol.asyncIterator]().next();
  const [got] = await Promise.all([
    ask('plain', 'cell retry-rate', {}, {}, throughDoor('rate', {}, mine)), refused(`${me}-rate`).then(() => held.controller.abort()),
  ]);
  assert.equal(got.choices[0].message.content, text);
  await retried(`door/${me}-rate`, 1);
});
cell(me, 'no-retry-budget', async () => {
  const mine = throughDoor('budget', { apiKey: await makeKey({ budget: `0.00000${output}/total` }) });
  assert.equal((await ask('plain', 'cell budget', { max_tokens: output }, {}, mine)).choices[0].message.content, text);
  const e = await rejection(ask('plain', 'cell budget', { max_tokens: output + 1 }, {}, mine));
  assert.deepEqual([e.constructor, e.code, e.type], [OpenAI.RateLimitError, 'insufficient_quota', 'insufficient_quota']);
  assert.deepEqual(['x-should-retry', 'retry-after', 'retry-after-ms'].map((name) => e.headers.get(name)), ['false', null, null]);
  assert.deepEqual(await statuses(`${me}-budget`), [200, 429]);
});
