// What somebody without a key does until they have used one, and what an operator does
// to them, in a browser, over plain HTTP on loopback.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { Person, model, stand } from './stand.mjs';

let at;
before(async () => {
  at = await stand('people', 'landing: {contact: "ops@example.org"}\n');
});
after(async () => {
  await Person.close();
  await at?.close();
});

const password = 'correct horse battery staple';

/** Calls the API as a program does, and returns the status and the answer. */
async function curl(key, body) {
  const { stdout } = await promisify(execFile)('curl', [
    '-sS', '-w', '\n%{http_code}', `${at.url}/v1/chat/completions`,
    '-H', `Authorization: Bearer ${key}`, '-H', 'Content-Type: application/json', '-d', JSON.stringify(body),
  ]);
  const cut = stdout.lastIndexOf('\n');
  return { status: Number(stdout.slice(cut + 1)), answer: JSON.parse(stdout.slice(0, cut)) };
}
const question = { model, max_tokens: 8, messages: [{ role: 'user', content: 'Say something.' }] };

async function signUp(person, address) {
  await person.go('/signup');
  await person.page.getByLabel('E-mail address').fill(address);
  await person.page.getByLabel('Password').fill(password);
  await person.page.getByRole('button', { name: 'Sign up' }).click();
  await person.page.getByRole('heading', { name: 'Thank you' }).waitFor();
}

/** Fills in the form; what follows is the caller's. */
async function signIn(person, address, word = password) {
  await person.go('/login');
  await person.page.getByLabel('E-mail address').fill(address);
  await person.page.getByLabel('Password').fill(word);
  await person.page.getByRole('button', { name: 'Sign in' }).click();
}

async function signedIn(person, address) {
  await signIn(person, address);
  await person.page.getByRole('heading', { name: 'Your keys' }).waitFor();
}

/** A person with an account that an operator has let in. */
async function somebody(address, ...approval) {
  const person = await Person.at(at.url);
  await signUp(person, address);
  await at.operator('users', 'approve', address, ...approval);
  await signedIn(person, address);
  return person;
}

async function makeKey(person, name) {
  await person.go('/profile');
  await person.page.getByLabel('Name').fill(name);
  await person.page.getByRole('button', { name: 'Make a key' }).click();
  await person.page.getByRole('heading', { name: 'Your new key' }).waitFor();
  return (await person.page.getByRole('region', { name: 'The key' }).innerText()).trim();
}

test('from the landing page to an answer, and to the end of it', { timeout: 90_000 }, async () => {
  const ada = await Person.at(at.url);
  await ada.go('/');
  await ada.look('landing');
  const text = await ada.page.innerText('body');
  assert.match(text, new RegExp(`curl ${at.url}/v1/models`), 'the example has the address that the visitor used');
  assert.ok(!text.includes(model), 'no model is named to who has no key');
  assert.equal(await ada.page.getByRole('link', { name: 'ops@example.org' }).getAttribute('href'), 'mailto:ops@example.org');

  await ada.go('/signup');
  await ada.look('signup');
  await ada.page.getByLabel('E-mail address').fill('ada@example.org');
  await ada.page.getByLabel('Password').fill('Short-1!');
  await ada.page.getByRole('button', { name: 'Sign up' }).click();
  assert.ok(await ada.page.getByLabel('Password').evaluate((e) => e.validity.tooShort), 'a short password does not leave the browser');
  await signUp(ada, 'ada@example.org');
  await ada.look('signed-up');

  ada.expected.push('status of 403'); // not approved yet; not right
  await signIn(ada, 'ada@example.org');
  await ada.page.getByRole('heading', { name: 'Not approved yet' }).waitFor();
  await ada.look('pending');
  await signIn(ada, 'ada@example.org', 'not at all the password');
  await ada.page.getByRole('alert').waitFor();
  await ada.look('sign-in-refused');

  await at.operator('users', 'approve', 'ada@example.org');
  await ada.go('/chat'); // leads to the sign-in, and back
  assert.match(ada.page.url(), /\/login\?next=%2Fchat$/);
  await ada.look('login');
  await ada.page.getByLabel('E-mail address').fill('ADA@example.org');
  await ada.page.getByLabel('Password').fill(password);
  await ada.page.keyboard.press('Enter');
  await ada.page.waitForURL('**/chat');
  await ada.look('chat-without-key');
  await ada.go('/profile');
  await ada.look('profile-empty');

  const key = await makeKey(ada, 'laptop');
  assert.match(key, /^llmgw_[0-9A-Za-z]{49}$/);
  await ada.look('key');
  const called = await curl(key, question);
  assert.equal(called.status, 200);
  assert.ok(called.answer.choices[0].message.content.length > 0);

  // Once: not by a reload, not by going back and forth, not in the list.
  await ada.page.getByRole('link', { name: 'Back to your keys' }).click();
  await ada.page.getByRole('heading', { name: 'Your keys' }).waitFor();
  await ada.look('profile');
  assert.ok(!(await ada.page.content()).includes(key));
  ada.expected.push('status of 409', 'ERR_CACHE_MISS');
  await ada.page.goBack().catch(() => {}); // to a page that the browser may not keep
  assert.ok(!(await ada.text()).includes(key), 'going back does not show it again');

  await ada.go('/chat');
  await ada.page.getByLabel('Message').fill('Tell me a long story.');
  await ada.page.keyboard.press('Enter');
  const log = ada.page.getByRole('log');
  await ada.page.waitForFunction(() => document.querySelector('#log').textContent.length > 200);
  await ada.look('chat');
  await ada.page.waitForFunction(() => document.querySelector('#stop').disabled);
  const whole = await log.innerText();
  assert.match(whole, /Tell me a long story\./);

  await ada.go('/profile/usage');
  await ada.look('usage');
  await ada.go('/profile/sessions');
  await ada.look('sessions');

  await ada.go('/profile');
  await ada.page.locator('summary', { hasText: 'Revoke' }).click();
  await ada.page.getByRole('button', { name: /Revoke it/ }).click();
  await ada.page.getByText('revoked').first().waitFor();
  assert.equal((await curl(key, question)).status, 401, 'a key that was revoked opens nothing');

  await ada.page.getByRole('button', { name: 'Sign out' }).click();
  await ada.page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await ada.page.goBack().catch(() => {});
  assert.ok(!(await ada.text()).includes('laptop'), 'going back after signing out shows nothing');
  await ada.go('/profile');
  assert.match(ada.page.url(), /\/login/);
  await ada.leave();
});

test('stopping an answer', { timeout: 60_000 }, async () => {
  const grace = await somebody('grace@example.org');
  await makeKey(grace, 'browser');
  await grace.go('/chat');
  await grace.page.getByLabel('Message').fill('Go on for ever.');
  await grace.page.keyboard.press('Enter');
  await grace.page.waitForFunction(() => document.querySelector('#log').textContent.length > 100);
  await grace.page.getByRole('button', { name: 'Stop' }).click();
  await grace.page.getByText('Stopped.').waitFor();
  const length = (await grace.page.getByRole('log').innerText()).length;
  await grace.page.getByLabel('Message').fill('<script>alert(1)</script><img src=x onerror=alert(2)>');
  await grace.page.keyboard.press('Enter');
  await grace.page.waitForFunction((n) => document.querySelector('#log').textContent.length > n + 50, length);
  assert.equal(await grace.page.locator('#log script, #log img').count(), 0, 'what is written is text');
  await grace.leave();
});

test('suspension ends the session, the key and the chat at once', { timeout: 60_000 }, async () => {
  const mallory = await somebody('mallory@example.org');
  const key = await makeKey(mallory, 'script');
  assert.equal((await curl(key, question)).status, 200);
  await at.operator('users', 'suspend', 'mallory@example.org');
  assert.equal((await curl(key, question)).status, 401);
  await mallory.page.goto('/profile');
  assert.match(mallory.page.url(), /\/login/);
  mallory.expected.push('status of 403');
  await signIn(mallory, 'mallory@example.org');
  await mallory.page.getByRole('heading', { name: 'Your account is suspended' }).waitFor();
  await mallory.look('suspended');
  await at.operator('users', 'approve', 'mallory@example.org');
  await signedIn(mallory, 'mallory@example.org');
  assert.equal((await curl(key, question)).status, 200, 'who is let in again has the keys again');
  await mallory.leave();
});

test('the console is there for admins alone', { timeout: 90_000 }, async () => {
  const linus = await somebody('linus@example.org');
  for (const page of ['/admin', '/admin/', '/admin/nodes', '/admin/accounts']) await linus.go(page, 404);
  await linus.go('/profile');
  assert.equal(await linus.page.locator('a[href^="/admin"]').count(), 0, 'nothing leads there');
  await at.operator('users', 'admin', 'linus@example.org', 'on');
  await linus.go('/profile');
  assert.match(linus.page.url(), /\/login/, 'a session is not given more than it was opened for');
  await signedIn(linus, 'linus@example.org');
  await linus.page.getByRole('link', { name: 'Console' }).click();
  await linus.page.waitForURL('**/admin/**');
  await linus.look('console');
  const pages = await linus.page.locator('nav.sub a').evaluateAll((links) => links.map((a) => a.getAttribute('href')));
  assert.ok(pages.length >= 4, `the console offers ${pages}`);
  for (const page of pages) {
    await linus.go(page);
    if (/accounts|elsewhere/.test(page)) await linus.look(`console${page.replace(/^\/admin/, '').replaceAll('/', '-')}`);
    else await linus.check(`the client listener's ${page}`); // console.test.mjs looks at these
  }
  await linus.leave();
});

test('the admin listener has the console, and nothing of accounts', { timeout: 90_000 }, async () => {
  const operator = await Person.at(at.admin);
  await operator.go('/');
  assert.match(operator.page.url(), /\/console\/$/);
  const pages = await operator.page.locator('nav.sub a').evaluateAll((links) => links.map((a) => a.getAttribute('href')));
  assert.ok(pages.length >= 3 && !pages.some((p) => p.includes('accounts')), `it offers ${pages}`);
  for (const page of pages) {
    await operator.go(page);
    await operator.check(`the admin listener's ${page}`);
  }
  await operator.go('/console/accounts', 404);
  await operator.leave();
});

test('a link that makes a key opens once, and a look at it does not open it', { timeout: 60_000 }, async () => {
  const out = await at.operator('keys', 'create', '--link', '--name', 'handed over', '--json');
  const link = new URL(JSON.parse(out).link).pathname;
  const kay = await Person.at(at.url);
  await kay.go(link);
  await kay.go(link); // as a chat program that shows a preview does
  await kay.look('link');
  await kay.page.getByRole('button', { name: 'Show the key' }).click();
  await kay.page.getByRole('heading', { name: 'Your new key' }).waitFor();
  const key = (await kay.page.getByRole('region', { name: 'The key' }).innerText()).trim();
  assert.equal((await curl(key, question)).status, 200);
  const other = await Person.at(at.url);
  await other.go(link, 410);
  await other.look('link-used');
  assert.ok(!(await other.page.content()).includes('llmgw_'));
  for (const p of [kay, other]) await p.leave();
});

test('a link that sets a password ends the sessions and signs nobody in', { timeout: 60_000 }, async () => {
  const joan = await somebody('joan@example.org');
  const link = new URL(JSON.parse(await at.operator('users', 'reset', 'joan@example.org', '--json')).link).pathname;
  const other = await Person.at(at.url);
  await other.go(link);
  await other.look('reset');
  await other.page.getByLabel('New password').fill('another long password of hers');
  await other.page.getByRole('button', { name: 'Set the password' }).click();
  await other.page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await joan.page.goto('/profile');
  assert.match(joan.page.url(), /\/login/, 'her other sessions ended');
  await signIn(other, 'joan@example.org', 'another long password of hers');
  await other.page.getByRole('heading', { name: 'Your keys' }).waitFor();
  for (const p of [joan, other]) await p.leave();
});

test('two tabs: a form from before a sign-in is refused and explained', { timeout: 60_000 }, async () => {
  const ida = await somebody('ida@example.org');
  const tab = await ida.context.newPage();
  await tab.goto('/profile/sessions');
  await ida.page.getByRole('button', { name: 'Sign out' }).click();
  await ida.page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await signedIn(ida, 'ida@example.org');
  ida.expected.push('status of 403');
  await tab.getByLabel('Current password').fill(password);
  await tab.getByLabel('New password').fill('something else, and long enough');
  await tab.getByRole('button', { name: 'Change the password' }).click();
  await tab.getByRole('heading', { name: 'This page is older than your session' }).waitFor();
  await ida.leave();
});

test('by keyboard alone', { timeout: 60_000 }, async () => {
  const person = await Person.at(at.url);
  await person.go('/login');
  await person.page.reload();
  const seen = [];
  for (let i = 0; i < 20; i++) {
    await person.page.keyboard.press('Tab');
    const on = await person.page.evaluate(() => {
      const e = document.activeElement;
      const style = getComputedStyle(e);
      return { what: e.id || e.textContent.trim(), ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0 };
    });
    if (on.what && on.what.length < 40) seen.push(on);
  }
  for (const name of ['Sign in', 'Sign up', 'f-address', 'f-password']) assert.ok(seen.some((s) => s.what === name), `Tab reaches ${name}: ${JSON.stringify(seen)}`);
  assert.deepEqual(seen.filter((s) => !s.ring).map((s) => s.what), [], 'what has the focus shows it');
  await person.leave();
});
