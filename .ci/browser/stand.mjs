// What the tests stand on: a simulated engine, a server with a store of its own, and a
// browser that is watched: whatever it logs as an error, and every request that leaves
// this host, fails the test.
import assert from 'node:assert/strict';
import { spawn, execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

const setting = (name) => process.env[name] ?? assert.fail(`${name} is not set; run .ci/browser/run`);
const binary = setting('LLMGW');
const work = setting('LLMGW_WORK');
const shots = setting('LLMGW_SHOTS');
const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const model = 'tiny';

/** Starts a program and returns it once one of its lines of JSON is what it says when it serves. */
async function start(args, env, serves) {
  const child = spawn(binary, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const lines = [];
  const ready = new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      readline.createInterface({ input: stream }).on('line', (line) => {
        lines.push(line);
        let said;
        try {
          said = JSON.parse(line);
        } catch {
          return;
        }
        if (serves(said)) resolve(said);
      });
    }
    child.on('exit', (code) => reject(new Error(`llmgw ${args[0]} ended with ${code}:\n${lines.join('\n')}`)));
  });
  return { child, lines, said: await ready };
}

async function stop(program) {
  const ended = new Promise((resolve) => program.child.on('exit', resolve));
  if (program.child.exitCode === null && program.child.kill('SIGTERM')) await ended;
}

/** A server in front of a simulated engine, both on loopback, until close is called. */
export async function stand(name, config = '') {
  const dir = fs.mkdtempSync(path.join(work, `${name}-`));
  const engine = await start(['sim', '--listen', '127.0.0.1:0', '--model', model, '--speed', '0.5', '--json'], {}, (s) => s.base_url);
  const file = path.join(dir, 'server.yaml');
  fs.writeFileSync(
    file,
    `listen: 127.0.0.1:0
admin_listen: 127.0.0.1:0
log: {format: json}
shutdown: {grace: 0s, drain: 2s}
store: {dsn: "sqlite:${dir}/llmgw.db"}
endpoints:
  - {id: engine, url: "${engine.said.base_url}", models: [${model}]}
models:
  - name: ${model}
${config}`,
  );
  const server = await start(['server', '-c', file], {}, (s) => s.msg === 'serving');
  const { listen, admin_listen, tls } = server.said;
  return {
    url: `${tls ? 'https' : 'http'}://${listen}`,
    admin: `http://${admin_listen}`,
    lines: server.lines,
    /** Runs a command of the operator's, who has a shell on the machine. */
    operator: async (...args) => (await promisify(execFile)(binary, [...args, '--admin', `http://${admin_listen}`])).stdout,
    close: async () => {
      await stop(server);
      await stop(engine);
    },
  };
}

/** A control plane with four simulated machines, until close is called. */
export async function fleet() {
  const demo = await start(['demo', '--fleet', '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', '--json'], {}, (s) => s.base_url);
  const { base_url: url, admin_url: admin, models, api_key: key } = demo.said;
  return { url, admin, models, key, close: () => stop(demo) };
}

/** A browser that is nobody yet, and what is held against it. */
export class Person {
  static browser;

  static async launch() {
    Person.browser ??= await chromium.launch({
      executablePath: setting('LLMGW_CHROMIUM'),
      args: ['--no-sandbox', '--disable-background-networking', '--disable-component-update', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
    });
    return Person.browser;
  }

  static async close() {
    await Person.browser?.close();
    Person.browser = undefined;
  }

  /** Opens a browser of its own, with options of Playwright's contexts. */
  static async at(url, options = {}) {
    const context = await (await Person.launch()).newContext({ baseURL: url, ignoreHTTPSErrors: true, ...options });
    context.setDefaultTimeout(10_000);
    const person = new Person();
    Object.assign(person, { url, context, faults: [], expected: [] });
    context.on('request', (r) => {
      if (new URL(r.url()).origin !== new URL(url).origin) person.faults.push(`a request left the host: ${r.url()}`);
    });
    context.on('page', (page) => person.watch(page));
    person.page = await context.newPage();
    return person;
  }

  watch(page) {
    page.on('console', (m) => {
      if (m.type() !== 'error' && m.type() !== 'warning') return;
      if (this.expected.some((e) => m.text().includes(e))) return;
      this.faults.push(`${page.url()}: the console says: ${m.text()}`);
    });
    page.on('pageerror', (e) => this.faults.push(`${page.url()}: ${e}`));
    page.on('dialog', (d) => {
      this.faults.push(`${page.url()}: a dialog opened: ${d.message()}`);
      d.dismiss();
    });
  }

  /** Goes to a page and returns its status. A browser logs refusals as errors: those that are expected are said. */
  async go(where, status = 200) {
    if (status >= 400) this.expected.push(`the server responded with a status of ${status}`);
    const answer = await this.page.goto(where);
    assert.equal(answer.status(), status, `${where}: ${await this.page.title()}`);
    return answer;
  }

  /** Has a picture of the page taken and axe look at it: nothing serious, in light and in dark, wide and narrow. */
  async look(name) {
    for (const [scheme, width] of [
      ['light', 1280],
      ['dark', 1280],
      ['light', 390],
    ]) {
      await this.page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
      await this.page.setViewportSize({ width, height: 900 });
      const shape = width < 500 ? 'phone' : scheme;
      await this.page.screenshot({ path: path.join(shots, `${name}-${shape}.png`), fullPage: true });
      const wide = await this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, `${name}: ${wide} pixels wider than a window of ${width}`);
      await this.check(`${name} (${shape})`);
    }
    await this.page.emulateMedia({ colorScheme: 'light' });
    await this.page.setViewportSize({ width: 1280, height: 900 });
  }

  /** Has axe look at the page. It is run by the debugger, which the page's policy does not bind. */
  async check(name) {
    await this.page.evaluate(axe);
    const found = await this.page.evaluate(() =>
      globalThis.axe.run(document, { resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }),
    );
    const serious = found.violations.filter((v) => ['serious', 'critical'].includes(v.impact));
    const told = found.violations.map((v) => `${v.impact} ${v.id}: ${v.help}: ${v.nodes.map((n) => n.html).slice(0, 3).join(' ')}`);
    assert.deepEqual(serious.map((v) => v.id), [], `${name}:\n${told.join('\n')}`);
    for (const t of told) console.log(`axe, ${name}: ${t}`);
  }

  /** All that the page holds, once it has stopped to change places. */
  async text() {
    for (;;) {
      await this.page.waitForLoadState('load');
      try {
        return await this.page.content();
      } catch (err) {
        if (!/navigating/.test(err.message)) throw err;
      }
    }
  }

  /** Ends the browser; whatever was wrong in it fails now. */
  async leave() {
    await this.context.close();
    assert.deepEqual(this.faults, []);
  }
}
