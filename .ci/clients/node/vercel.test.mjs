import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, RetryError, embedMany, generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import assert from 'node:assert/strict';
import {
  args, cached, cell, demo, demoKey, demoModel, died, gone, image, key, pieces, prompt, rejection, release, requests, retried, running, text, total,
  url,
} from './stand.mjs';

const me = 'vercel';
const make = (more = {}) => createOpenAICompatible({ name: 'llmgw', baseURL: `${url}/v1`, apiKey: key, ...more });
const model = (how, more) => make(more)(`${me}/${how}`);
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: key });
const tools = {
  weather: tool({
    inputSchema: jsonSchema({ type: 'object', properties: { city: { type: 'string' }, days: { type: 'number' } } }),
    execute: async () => '12 °C',
  }),
};
const quiet = { onError: () => {} };

cell(me, 'demo', async () => {
  const there = createOpenAICompatible({ name: 'llmgw', baseURL: `${demo}/v1`, apiKey: demoKey, includeUsage: true })(demoModel);
  const full = await generateText({ model: there, prompt: 'demo', maxOutputTokens: 24 });
  assert.equal(full.text.split(' ').length, full.usage.outputTokens);
  const streamed = streamText({ model: there, prompt: 'demo', maxOutputTokens: 24 });
  assert.equal(await streamed.text, full.text);
  assert.equal((await streamed.usage).totalTokens, full.usage.totalTokens);
});
cell(me, 'chat', async () => {
  const got = await generateText({ model: model('plain'), prompt: 'cell chat' });
  assert.deepEqual([got.text, got.finishReason], [text, 'stop']);
  assert.deepEqual([got.usage.inputTokens, got.usage.totalTokens, got.usage.inputTokenDetails.cacheReadTokens], [prompt, total, cached]);
});
cell(me, 'stream', async () => {
  const got = streamText({ model: model('plain'), prompt: 'cell stream only' });
  const seen = [];
  for await (const piece of got.textStream) seen.push(piece);
  assert.deepEqual([seen, await got.finishReason, (await got.usage).totalTokens], [pieces, 'stop', undefined]);
  assert.match((await requests(`${me}/plain`, 'cell stream only'))[0].body, /"include_usage":true/);
});
cell(me, 'stream-usage', async () => {
  const got = streamText({ model: model('plain', { includeUsage: true }), prompt: 'cell usage' });
  assert.equal(await got.text, text);
  assert.deepEqual([(await got.usage).inputTokens, (await got.usage).totalTokens], [prompt, total]);
});
cell(me, 'framing', async () => {
  const got = streamText({ model: model('framing', { includeUsage: true }), prompt: 'cell framing' });
  assert.deepEqual([await got.text, (await got.usage).totalTokens], [text, total]);
});
cell(me, 'tools', async () => {
  const got = await generateText({ model: model('plain'), tools, stopWhen: stepCountIs(2), prompt: 'cell tools' });
  assert.deepEqual(got.steps[0].toolCalls.map((c) => [c.toolName, c.input]), [['weather', args]]);
  assert.equal(got.text, text);
});
cell(me, 'tools-stream', async () => {
  const got = streamText({ model: model('framing'), tools, stopWhen: stepCountIs(2), prompt: 'cell tools' });
  assert.equal(await got.text, text);
  assert.deepEqual((await got.steps)[0].toolCalls.map((c) => [c.toolName, c.input]), [['weather', args]]);
});
cell(me, 'vision', async () => {
  const got = await generateText({ model: model('plain'), messages: [{ role: 'user', content: [
    { type: 'text', text: 'cell vision' }, { type: 'file', mediaType: 'image/png', data: image }] }] });
  assert.equal(got.text, text);
  assert.ok((await requests(`${me}/plain`, 'cell vision'))[0].body.includes(`data:image/png;base64,${image}`));
});
cell(me, 'embeddings', async () => {
  const got = await embedMany({ model: make().embeddingModel(`${me}/plain`), values: ['a', 'b'] });
  assert.deepEqual([got.embeddings[1], got.usage.tokens], [[1, -0.5, 0.25, 1], prompt]);
});
cell(me, 'errors', async () => {
  for (const [how, again] of [['s400', false], ['s401', false], ['s404', false], ['s429', true], ['s500', true], ['html502', true]]) {
    const e = await rejection(generateText({ model: model(how), prompt: 'cell errors', maxRetries: 0 }));
    assert.ok(APICallError.isInstance(e), `${how}: ${e}`);
    assert.deepEqual([e.statusCode, e.isRetryable], [Number(how.slice(-3)), again]);
    if (how !== 'html502') assert.match(e.message, /scripted failure/);
    const seen = await requests(`${me}/${how}`);
    assert.deepEqual([seen.length, e.responseHeaders['x-request-id']], [1, seen[0].header['X-Request-Id'][0]]);
  }
});
cell(me, 'no-retry', async () => {
  const e = await rejection(generateText({ model: model('no-such'), prompt: 'x' }));
  assert.ok(APICallError.isInstance(e) && !RetryError.isInstance(e));
  assert.deepEqual([e.statusCode, e.data.error.code], [404, 'model_not_found']);
});
for (const [how, wait] of [['limited', 1], ['loading', 1], ['closing', 0]]) {
  cell(me, `retry-${how}`, async () => {
    const told = []; // each answer's Retry-After, which it obeys, but would wait longer without
    const watching = async (...request) => {
      const answer = await fetch(...request);
      told.push(answer.headers.get('retry-after'));
      return answer;
    };
    assert.equal((await generateText({ model: model(how, { fetch: watching }), prompt: 'cell retry' })).text, text);
    await retried(`${me}/${how}`, wait, told.length);
    assert.deepEqual(told, [wait ? String(wait) : null, null]);
  });
}
/** A stream that breaks off: its text and its error. */
async function broken(how, onPiece = async () => {}) {
  let got = '';
  let error;
  for await (const part of streamText({ model: model(how), prompt: `cell ${how}`, ...quiet }).fullStream) {
    if (part.type === 'error') error = part.error;
    if (part.type !== 'text-delta') continue;
    got += part.text;
    await onPiece();
  }
  assert.ok(error, 'the stream ended without an error');
  assert.equal((await requests(`${me}/${how}`)).length, 1);
  return [got, JSON.stringify(error) + error];
}
for (const how of ['cut', 'short']) {
  cell(me, how, async () => {
    const [got, error] = await broken(how);
    assert.equal(got, pieces.slice(0, 2).join(''));
    assert.match(error, /engine failed before its answer was complete/);
  });
}
cell(me, 'errorevent', async () => {
  const [got, error] = await broken('errorevent');
  assert.equal(got, pieces.slice(0, 2).join(''));
  assert.match(error, new RegExp(died));
});
cell(me, 'reset', async () => {
  const [got] = await broken('reset', () => release(`${me}/reset`));
  assert.ok(got && text.startsWith(got));
});
cell(me, 'abort', async () => {
  const leave = new AbortController();
  let n = 0;
  let aborted = false;
  for await (const part of streamText({ model: model('endless'), prompt: 'cell abort', abortSignal: leave.signal, ...quiet }).fullStream) {
    if (part.type === 'text-delta' && ++n === 4) {
      assert.equal(await running(`${me}/endless`), 1);
      leave.abort();
    }
    if (part.type === 'abort') aborted = true;
  }
  assert.ok(aborted);
  await gone(`${me}/endless`);
});
cell(me, 'timeout', async () => {
  const e = await rejection(generateText({ model: model('hang'), prompt: 'cell timeout', abortSignal: AbortSignal.timeout(1000) }));
  assert.equal(e.name, 'TimeoutError');
  await gone(`${me}/hang`);
});
cell(me, 'responses', async () => {
  const got = await generateText({ model: openai.responses(`${me}/plain`), prompt: 'cell responses' });
  assert.deepEqual([got.text, got.usage.totalTokens], [text, total]);
  const streamed = streamText({ model: openai.responses(`${me}/framing`), prompt: 'cell responses' });
  assert.deepEqual([await streamed.text, (await streamed.usage).totalTokens], [text, total]);
});
