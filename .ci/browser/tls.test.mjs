// The same over TLS, as people should have it: cookies that no neighbour can set.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Person, stand } from './stand.mjs';

let at;
before(async () => {
  const dir = fs.mkdtempSync(path.join(process.env.LLMGW_WORK, 'tls-'));
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2',
    '-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', `${dir}/key.pem`, '-out', `${dir}/cert.pem`], { stdio: 'ignore' });
  at = await stand('tls', `tls: {cert_file: "${dir}/cert.pem", key_file: "${dir}/key.pem"}\n`);
});
after(async () => {
  await Person.close();
  await at?.close();
});

test('cookies and headers over TLS', { timeout: 60_000 }, async () => {
  const person = await Person.at(at.url);
  const answer = await person.go('/signup');
  const headers = answer.headers();
  assert.match(headers['strict-transport-security'], /max-age=\d{8,}/);
  assert.match(headers['content-security-policy'], /default-src 'none'/);
  assert.ok(!headers.server, 'no version is told');
  await person.page.getByLabel('E-mail address').fill('tess@example.org');
  await person.page.getByLabel('Password').fill('correct horse battery staple');
  await person.page.getByRole('button', { name: 'Sign up' }).click();
  await person.page.getByRole('heading', { name: 'Thank you' }).waitFor();
  await at.operator('users', 'approve', 'tess@example.org');
  await person.go('/login');
  const before = (await person.context.cookies()).map((c) => c.value);
  await person.page.getByLabel('E-mail address').fill('tess@example.org');
  await person.page.getByLabel('Password').fill('correct horse battery staple');
  await person.page.getByRole('button', { name: 'Sign in' }).click();
  await person.page.getByRole('heading', { name: 'Your keys' }).waitFor();
  const cookie = (await person.context.cookies()).find((c) => c.name === '__Host-llmgw');
  assert.ok(cookie, 'the cookie has the prefix that binds it to this host');
  assert.deepEqual([cookie.secure, cookie.httpOnly, cookie.sameSite, cookie.path], [true, true, 'Lax', '/']);
  assert.ok(!before.includes(cookie.value), 'who signs in gets a new token');
  assert.equal(await person.page.evaluate(() => document.cookie), '', 'no script reads it');
  await person.leave();
});
