// The console of a fleet: four simulated machines of eight cards on two fabrics, as
// `llmgw demo --fleet` has them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Person, fleet } from './stand.mjs';

let at;
before(async () => {
  at = await fleet();
}, { timeout: 60_000 });
after(async () => {
  await Person.close();
  await at?.close();
});

test('what an operator sees of a fleet', { timeout: 120_000 }, async () => {
  const operator = await Person.at(at.admin);
  await operator.go('/');
  assert.match(operator.page.url(), /\/console\/$/);
  await operator.look('fleet');
  const pages = await operator.page.locator('nav.sub a').evaluateAll((links) => links.map((a) => a.getAttribute('href')));
  for (const wanted of ['nodes', 'models', 'replicas', 'queues', 'rates', 'usage']) {
    assert.ok(pages.some((p) => p.startsWith(`/console/${wanted}`)), `${wanted} is offered among ${pages}`);
  }
  for (const page of pages) {
    const answer = await operator.go(page);
    const { length } = await answer.body();
    assert.ok(length < 100_000, `${page}: ${length} bytes`);
    await operator.look(`fleet${page.replace(/^\/console/, '').replaceAll('/', '-')}`);
    assert.equal(await operator.page.locator('form[method="post"]').count(), 0, `${page} changes nothing`);
  }

  await operator.go('/console/nodes');
  const node = await operator.page.locator('main a[href^="/console/node?id="]').first().getAttribute('href');
  await operator.go(node);
  await operator.look('fleet-node');
  await operator.go('/console/models');
  const text = await operator.page.innerText('main');
  for (const name of at.models) assert.ok(text.includes(name), `${name} is listed`);
  await operator.go(`/console/model?name=${at.models[0]}`);
  await operator.look('fleet-model');
  await operator.leave();
});
