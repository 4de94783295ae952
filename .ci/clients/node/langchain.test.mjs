import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import assert from 'node:assert/strict';
import {
  args, cached, cell, died, gone, image, key, output, pieces, prompt, rejection, requests, running, text, total, url,
} from './stand.mjs';

const me = 'langchain-js';
const configuration = { baseURL: `${url}/v1` };
const model = (how, more = {}) => new ChatOpenAI({ model: `${me}/${how}`, apiKey: key, configuration, ...more });
const weather = { type: 'function', function: { name: 'weather', description: 'the weather', parameters: {
  type: 'object', properties: { city: { type: 'string' } } } } };

async function read(stream) {
  const chunks = [];
  for await (const chunk of await stream) chunks.push(chunk);
  return chunks;
}
const said = (chunks) => chunks.map((c) => c.content).filter((c) => c !== '');

cell(me, 'chat', async () => {
  const got = await model('plain').invoke('cell chat');
  const u = got.usage_metadata;
  assert.deepEqual([got.content, u.input_tokens, u.output_tokens, u.total_tokens], [text, prompt, output, total]);
  assert.equal(u.input_token_details.cache_read, cached);
});
cell(me, 'stream', async () => {
  const chunks = await read(model('plain', { streamUsage: false }).stream('cell stream only'));
  assert.deepEqual(said(chunks), pieces);
  assert.ok(chunks.every((c) => !c.usage_metadata));
  assert.match((await requests(`${me}/plain`, 'cell stream only'))[0].body, /"include_usage":true/);
});
cell(me, 'stream-usage', async () => {
  const chunks = await read(model('plain').stream('cell usage'));
  assert.deepEqual(said(chunks), pieces);
  assert.deepEqual(chunks.filter((c) => c.usage_metadata).map((c) => c.usage_metadata.total_tokens), [total]);
});
cell(me, 'framing', async () => assert.deepEqual(said(await read(model('framing').stream('cell framing'))), pieces));
cell(me, 'tools', async () => {
  const bound = model('plain').bindTools([weather]);
  const got = await bound.invoke('cell tools');
  assert.deepEqual([got.tool_calls[0].name, got.tool_calls[0].args], ['weather', args]);
  const again = await bound.invoke([new HumanMessage('cell tools'), got, new ToolMessage({ content: '12 °C', tool_call_id: got.tool_calls[0].id })]);
  assert.equal(again.content, text);
});
cell(me, 'tools-stream', async () => {
  const whole = (await read(model('framing').bindTools([weather]).stream('cell tools'))).reduce((a, b) => a.concat(b));
  assert.deepEqual([whole.tool_calls[0].name, whole.tool_calls[0].args], ['weather', args]);
});
cell(me, 'vision', async () => {
  const image_url = { url: `data:image/png;base64,${image}` };
  const got = await model('plain').invoke([new HumanMessage({ content: [{ type: 'text', text: 'cell vision' }, { type: 'image_url', image_url }] })]);
  assert.equal(got.content, text);
  assert.ok((await requests(`${me}/plain`, 'cell vision'))[0].body.includes(image_url.url));
});
cell(me, 'embeddings', async () => {
  const embeddings = new OpenAIEmbeddings({ model: `${me}/plain`, apiKey: key, configuration });
  assert.deepEqual((await embeddings.embedDocuments(['cell base64', 'b']))[1], [1, -0.5, 0.25, 1]);
  assert.match((await requests(`${me}/plain`, 'cell base64'))[0].body, /"encoding_format":"base64"/);
});
cell(me, 'errors', async () => {
  for (const how of ['s400', 's401', 's404', 's429', 's500']) {
    const e = await rejection(model(how, { maxRetries: 0 }).invoke('cell errors'));
    assert.equal(e.status, Number(how.slice(1)));
    assert.match(e.message, new RegExp(`scripted failure ${e.status}`));
    assert.equal((await requests(`${me}/${how}`)).length, 1);
  }
});
cell(me, 'retry-limited', async () => {
  assert.equal((await model('limited').invoke('cell retry')).content, text);
  const seen = await requests(`${me}/limited`);
  assert.equal(seen.length, 2);
});
/** A stream that breaks off after two pieces: its error. */
async function broken(how) {
  let got = '';
  const e = await rejection((async () => {
    for await (const chunk of await model(how).stream(`cell ${how}`)) got += chunk.content;
  })());
  assert.equal(got, pieces.slice(0, 2).join(''));
  assert.equal((await requests(`${me}/${how}`)).length, 1);
  return e;
}
for (const how of ['cut', 'short']) {
  cell(me, how, async () => assert.match((await broken(how)).message, /engine failed before its answer was complete/));
}
cell(me, 'errorevent', async () => assert.match((await broken('errorevent')).message, new RegExp(died)));
cell(me, 'abort', async () => {
  const leave = new AbortController();
  let n = 0;
  await rejection((async () => {
    for await (const _ of await model('endless').stream('cell abort', { signal: leave.signal })) if (++n === 5) {
      assert.equal(await running(`${me}/endless`), 1);
      leave.abort();
    }
  })());
  await gone(`${me}/endless`);
});
cell(me, 'timeout', async () => {
  const e = await rejection(model('hang', { timeout: 1000, maxRetries: 0 }).invoke('cell timeout'));
  assert.equal(e.name, 'TimeoutError');
  await gone(`${me}/hang`);
});
