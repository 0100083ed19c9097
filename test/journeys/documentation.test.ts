/** What the documentation says of the code is what the code does, and its links lead somewhere. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { before, test } from 'node:test';
import { parseEnv } from 'node:util';
import { Check } from 'typebox/schema';
import { createMarkdownRenderer, type MarkdownRenderer } from 'vitepress';
import { rootHomeLinks } from '../../docs/.vitepress/home-links.ts';
import { nameRows } from '../../docs/.vitepress/row-anchors.ts';
import { answerOf, answers, type ErrorCode, Refusal } from '../../src/platform/errors/errors.ts';
import { answerProblem } from '../../src/platform/net/net.ts';
import { configKeys, readConfig } from '../../src/run/config/config.ts';
import { compareJson, compareLines } from '../support/compare-output.ts';
import { idleExceptions, notRun, ownSuites } from '../support/doc-not-run.ts';
import { type Page, readPage, readPages, repository } from '../support/doc-pages.ts';
import { roleOf } from '../support/doc-session.ts';
import { freePort } from '../support/free-port.ts';
import {
  dashboardQueries,
  labelsIn,
  metricsIn,
  readAlerts,
  readDashboard,
  readFiringAlerts,
} from '../support/prometheus-files.ts';
import { startTestService, type TestService } from '../support/service.ts';

const pages = readPages();
const readme = readPage('README.md');
const papers = [
  readme,
  ...['ARCHITECTURE.md', 'DECISIONS.md', 'CONTRIBUTING.md', 'CHANGELOG.md'].map(readPage),
];

let service: TestService;
let metricsUrl: string;
before(async () => {
  const port = await freePort();
  metricsUrl = `http://127.0.0.1:${port}/metrics`;
  // Nothing listens there: the service goes on without Redis, and has the metrics of it.
  const REDIS_URL = `redis://127.0.0.1:${await freePort()}`;
  service = await startTestService('sqlite', { METRICS_PORT: String(port), REDIS_URL });
});

function pageAt(path: string): Page {
  const page = pages.find((one) => one.path === path);
  assert.ok(page, path);
  return page;
}

/** Rows of the tables of a page whose first cell is code: the cells, as they are written. */
function rowsOf(path: string): string[][] {
  return pageAt(path)
    .text.split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    );
}

function codeIn(cell = ''): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);
}

/** Suites that take code from a page by its label or language, and try it. */
const triedBy: Readonly<Record<string, string>> = {
  'postroom.env': 'production-guide',
  'nginx.conf': 'production-guide',
  Caddyfile: 'production-guide',
  sql: 'production-guide',
  'haproxy.cfg': 'two-machines',
  'for mail programs, in haproxy.cfg': 'two-machines',
  mbsyncrc: 'imap-programs',
  msmtprc: 'submission-programs',
  'receiver.mjs': 'webhook-samples',
  'receiver.py': 'webhook-samples',
  'receiver.php': 'webhook-samples',
  ts: 'sdk-package',
};

test('every code block is run by a test, or has a reason why not', () => {
  const commands = pages.flatMap(({ blocks }) =>
    blocks
      .filter((block) => block.language === 'sh' || roleOf(block) === 'program')
      // Python names a file without its ending.
      .map(({ text }) => text.replaceAll(/^from (\w+) import /gm, 'from $1.py import ')),
  );
  for (const { path, blocks } of [...pages, readme]) {
    for (const [index, block] of blocks.entries()) {
      const role = roleOf(block);
      const place = `${path}:${block.line}`;
      if (notRun(path, block)) continue;
      // Below.
      if (block.language === 'dotenv') continue;
      if (role === 'file' || role === 'other') {
        const suite = triedBy[block.label ?? block.language] ?? triedBy[block.language];
        const isUsed = commands.some((text) => text.includes(block.label ?? '\0'));
        assert.ok(suite !== undefined || isUsed, `${place}: nothing tries this`);
      } else if (role === 'output') {
        const above = blocks[index - 1];
        assert.ok(
          above && ['run', 'program'].includes(roleOf(above)),
          `${place}: this is no command's output`,
        );
        assert.ok(!notRun(path, above), `${place}: this is the output of what is not run`);
      } else if (role === 'background output') {
        const other = blocks.slice(0, index).some((one) => roleOf(one) === 'background');
        assert.ok(other, `${place}: nothing runs in another terminal`);
      }
      if (block.language === 'json') JSON.parse(block.text);
    }
  }
  for (const suite of [...Object.values(triedBy), ...Object.values(ownSuites)]) {
    assert.ok(existsSync(`${repository}test/servers/${suite}.test.ts`), suite);
  }
  assert.deepEqual(idleExceptions([...pages, readme]), []);
});

test('settings in the pages are accepted by the service', () => {
  for (const { path, blocks } of [...pages, readme]) {
    for (const { language, text, line } of blocks) {
      if (language !== 'dotenv') continue;
      const settings = parseEnv(text);
      const unknown = Object.keys(settings).filter((key) => !configKeys.includes(key));
      assert.deepEqual(unknown, [], `${path}:${line}`);
      assert.doesNotThrow(() => readConfig({ ...settings }, repository), `${path}:${line}`);
    }
  }
});

test('an output is compared with the page to the letter, except values that differ each time', () => {
  const same: [unknown, unknown][] = [
    [{ at: '2026-01-31T12:00:00.000Z' }, { at: '2027-02-01T01:02:03.004Z' }],
    [{ token: '…' }, { token: 'ey.J' }],
    [
      ['a', '…'],
      ['a', 'b', 'c'],
    ],
    [
      { a: 1, '…': '…' },
      { a: 1, b: 2 },
    ],
    [{ size: 1 }, { size: 2 }],
  ];
  for (const [shown, actual] of same) assert.equal(compareJson(shown, actual), undefined);
  const different: [unknown, unknown][] = [
    [{ a: 1 }, { a: 2 }],
    [{ a: 1 }, { a: '1' }],
    [{ a: 1 }, { a: 1, b: 2 }],
    [{ a: 1, b: 2 }, { a: 1 }],
    [['a'], ['a', 'b']],
    [['a', 'b', '…'], ['a']],
    [{ at: '2026-01-31T12:00:00.000Z' }, { at: 'yesterday' }],
    ['no … here', 'no one there'],
    [null, {}],
  ];
  for (const [shown, actual] of different) assert.ok(compareJson(shown, actual));
  assert.equal(compareLines('a\n…\nd\n', 'a\r\nb\r\nc\r\nd\r\n'), undefined);
  assert.ok(compareLines('a\nb\n', 'a\n'));
});

type Json = Readonly<Record<string, unknown>>;

/**
 * The schema with its references replaced, and no member allowed that it does not list. A shape that is within itself
 * is looked at once.
 */
function strict(schema: unknown, document: Json, within: readonly string[] = []): unknown {
  if (Array.isArray(schema)) return schema.map((item) => strict(item, document, within));
  if (typeof schema !== 'object' || schema === null) return schema;
  if ('$ref' in schema) {
    const ref = String(schema.$ref);
    return within.includes(ref)
      ? {}
      : strict(at(document, ref.slice(2)), document, [...within, ref]);
  }
  const members = Object.entries(schema).map(([name, member]) => [
    name,
    strict(member, document, within),
  ]);
  const closed = 'properties' in schema && !('additionalProperties' in schema);
  return { ...Object.fromEntries(members), ...(closed && { additionalProperties: false }) };
}

/** A member of a document, by the names on the way to it. */
function at(document: unknown, path: string | readonly string[]): unknown {
  const names = typeof path === 'string' ? path.split('/') : path;
  return names.reduce((value, name) => Object(value)[name], document);
}

test('the site that the installation built is served', async () => {
  const served = { 'docs/llms.txt': 'llms.txt', console: 'console/index.html' };
  for (const [path, file] of Object.entries(served)) {
    const answer = await fetch(`${service.url}/${path}`);
    assert.equal(await answer.text(), readFileSync(`${repository}site/${file}`, 'utf8'), path);
  }
});

test('shown answers that no test gets match the description of the API', async () => {
  const response = await fetch(`${service.url}/docs/openapi.json`);
  // A document of ours; what is looked up in it is asserted.
  const description = (await response.json()) as Json;
  let checked = 0;
  for (const { path, blocks } of pages) {
    for (const { answers: whose, text, line } of blocks) {
      if (whose === undefined) continue;
      const [method = '', route = '', status = ''] = whose.split(' ');
      const names = ['paths', route, method.toLowerCase(), 'responses', status];
      const content = at(description, [...names, 'content', 'application/json', 'schema']);
      assert.ok(content, `${path}:${line}: there is no ${whose}`);
      const schema = strict(content, description) as object;
      assert.ok(Check(schema, JSON.parse(text)), `${path}:${line}: this is no ${whose}`);
      checked++;
    }
  }
  assert.ok(checked >= 2);
});

test('shown webhooks and events, and real ones, match their shapes', async () => {
  const description = JSON.parse(readFileSync(`${repository}docs/openapi.json`, 'utf8'));
  const shapes: Readonly<Record<string, string>> = {
    'message.received': 'MessageReceived',
    hello: 'HelloEvent',
    mailbox_changed: 'MailboxChangedEvent',
  };
  const seen = new Set<string>();
  for (const { path, blocks } of pages) {
    for (const { language, text, line } of blocks) {
      if (language !== 'json') continue;
      const shown = JSON.parse(text);
      const name = shapes[shown.type];
      // What is cut short is shown in full elsewhere.
      if (name === undefined || text.includes('"…"')) continue;
      const schema = strict(description.components.schemas[name], description) as object;
      const complete = JSON.parse(text.replaceAll('…', 'x'));
      assert.ok(Check(schema, complete), `${path}:${line}: this is no ${name}`);
      seen.add(name);
    }
  }
  assert.deepEqual([...seen].toSorted(), Object.values(shapes).toSorted());
});

/** Pages that are made when the site is built, or are served beside it. */
const madeElsewhere = /^docs\/(?:inbox|reference\/api(?:\/.+)?)\.md$/;

/** The file that a link of a page names. VitePress takes `/quickstart` for `docs/quickstart.md`. */
function linkedFile(from: Page, target: string): string {
  if (target === '') return from.path;
  // What lies in `public/` is served as it is, and linked by its whole path.
  if (target.startsWith('/docs/')) return `docs/public/${target.slice('/docs/'.length)}`;
  if (!target.startsWith('/')) return posix.join(posix.dirname(from.path), target);
  // A picture of a page lies in `public/`, too; the description of the API beside the pages.
  if (posix.extname(target) === '.webp') return `docs/public${target}`;
  return `docs${target}${posix.extname(target) === '' ? '.md' : ''}`;
}

test('links lead to existing files, and anchors to headings', () => {
  const known = new Map([...pages, ...papers].map((page) => [page.path, page]));
  for (const page of [...pages, ...papers]) {
    for (const link of page.links) {
      if (/^(?:https?|mailto|smtp):/.test(link)) continue;
      const [target = '', anchor] = link.split('#');
      const file = linkedFile(page, target);
      if (madeElsewhere.test(file)) continue;
      assert.ok(existsSync(`${repository}${file}`), `${page.path}: ${link}`);
      if (anchor === undefined) continue;
      const headings = known.get(file)?.headings ?? [];
      assert.ok(
        headings.some((heading) => heading.anchor === anchor),
        `${page.path}: ${link}`,
      );
    }
  }
});

test('each page begins with its title, and has no two headings of one name', () => {
  for (const { path, headings, text } of pages) {
    // The home page has its title in its front matter, the changelog in the file that it includes.
    if (/^(?:---\nlayout: home|<!--@include: )/.test(text)) continue;
    assert.equal(headings[0]?.level, 1, path);
    assert.equal(headings.filter(({ level }) => level === 1).length, 1, path);
    const anchors = headings.map(({ anchor }) => anchor);
    assert.deepEqual(anchors, [...new Set(anchors)], path);
  }
});

test('every error is explained, with its status and its reply', () => {
  const rows = rowsOf('docs/reference/errors.md');
  const http = new Map<string, string>();
  const smtp = new Map<string, string>();
  for (const [codes, second = ''] of rows) {
    for (const code of codeIn(codes)) {
      if (/^\d{3}$/.test(second)) http.set(code, second);
      else if (/^`\d{3} \d/.test(second)) smtp.set(code, second.slice(1, -1));
    }
  }
  const known = Object.keys(answers) as ErrorCode[];
  assert.deepEqual([...new Set([...http.keys(), ...smtp.keys()])].toSorted(), known.toSorted());
  for (const code of known) {
    const answer = answerOf(code);
    const shown = http.get(code);
    if (shown !== undefined) assert.equal(shown, String(answer.http), code);
    const { code: reply, enhanced } = answer.smtp;
    if ('smtp' in answers[code]) assert.equal(smtp.get(code), `${reply} ${enhanced}`, code);
  }
  // What an operation says that it answers is among what is listed for HTTP.
  const described = readFileSync(`${repository}docs/openapi.json`, 'utf8');
  for (const [, code = ''] of described.matchAll(/`([a-z_]+)`: /g)) {
    if (code in answers) assert.ok(http.has(code), `${code} is answered over HTTP`);
  }
});

/** VitePress keeps the first one of a process, whatever the next call wants of it. */
function openRenderer() {
  const config = (markdown: MarkdownRenderer) => {
    nameRows(markdown);
    rootHomeLinks(markdown);
  };
  return createMarkdownRenderer(`${repository}docs`, { config }, '/docs/');
}

test('the type of every error leads to a row of the page', async () => {
  const markdown = await openRenderer();
  const html = markdown.render(pageAt('docs/reference/errors.md').text);
  for (const code of Object.keys(answers) as ErrorCode[]) {
    const { body } = answerProblem(new Refusal(code, 'so it is'), 'id');
    const [page, anchor] = JSON.parse(body).type.split('#');
    assert.equal(page, '/docs/reference/errors');
    assert.equal(html.split(`<tr id="${anchor}">`).length, 2, `${code} has one row`);
  }
});

test('the links of the home page lead to the pages also from / and /docs', async () => {
  const { path, text } = pageAt('docs/index.md');
  const markdown = await openRenderer();
  const names = { path: `${repository}${path}`, relativePath: 'index.md' };
  const html = markdown.render(text, { ...names, cleanUrls: true });
  const links = [...html.matchAll(/<a href="([^"]+)"/g)].map(([, link = '']) => link);
  assert.ok(links.includes('/docs/concepts/sync'), links.join(' '));
  for (const link of links) {
    for (const address of ['/', '/docs', '/docs/']) {
      const { pathname } = new URL(link, `http://mail.test${address}`);
      assert.match(pathname, /^\/docs\//, `${link} on ${address}`);
    }
  }
});

test('every setting is explained, with its default', () => {
  const rows = rowsOf('docs/reference/configuration.md');
  const defaults = new Map(rows.map(([key, value]) => [codeIn(key)[0], codeIn(value)[0] ?? '']));
  assert.equal(defaults.size, rows.length, 'a key is there twice');
  const example = readFileSync(`${repository}.env.example`, 'utf8');
  // That file is held against what is read by the test beside the code.
  const values = parseEnv(example.replace(/^#(?=[A-Z])/gm, ''));
  assert.deepEqual(Object.fromEntries(defaults), { ...values });
  assert.deepEqual([...defaults.keys()].toSorted(), [...configKeys].toSorted());
});

test('every metric is explained, with its type and its labels', async () => {
  const text = await (await fetch(metricsUrl)).text();
  const types = new Map(
    [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type = '']) => [name, type]),
  );
  const rows = rowsOf('docs/reference/metrics.md');
  const explained = new Map(rows.map(([name, type = '']) => [codeIn(name)[0] ?? '', type]));
  for (const [name, type] of types) assert.equal(explained.get(name), type, name);
  for (const name of explained.keys()) {
    // What the process has to say of itself depends on the system.
    assert.ok(types.has(name) || name.startsWith('process_'), `there is no ${name}`);
  }
});

test('alerts and dashboard name existing metrics and labels', async () => {
  const text = await (await fetch(metricsUrl)).text();
  const names = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name = '']) => name));
  const rows = rowsOf('docs/reference/metrics.md');
  const labels = new Map(rows.map(([name, , label]) => [codeIn(name)[0] ?? '', codeIn(label)]));
  const metricOf = (series: string) => series.replace(/_(?:bucket|count|sum)$/, '');
  // The scrape adds these.
  const added = ['job', 'instance'];
  const queries = [...readAlerts().map(({ expr }) => expr), ...dashboardQueries(readDashboard())];
  assert.ok(queries.length > 70);
  for (const query of queries) {
    for (const name of metricsIn(query))
      assert.ok(names.has(metricOf(name)), `no ${name}: ${query}`);
    for (const [series, label] of labelsIn(query)) {
      const known = [...added, ...(labels.get(metricOf(series)) ?? [])];
      assert.ok(known.includes(label), `${series} has no label ${label}: ${query}`);
    }
  }
});

test('every alert is tested, and explained where its runbook leads', () => {
  const page = pageAt('docs/guides/alerts.md');
  const firing = readFiringAlerts();
  const alerts = readAlerts();
  for (const { alert, annotations, labels } of alerts) {
    assert.ok(firing.has(alert), `no test lets ${alert} fire`);
    assert.ok(['critical', 'warning'].includes(labels.severity), alert);
    const [path, anchor] = new URL(annotations.runbook_url).href.split('#');
    assert.equal(path, 'https://mail.example.com/docs/guides/alerts');
    const heading = page.headings.find((one) => one.anchor === anchor);
    assert.equal(heading?.text, alert);
  }
  const explained = page.headings.filter(({ level }) => level === 3).map(({ text }) => text);
  assert.deepEqual(
    explained,
    alerts.map(({ alert }) => alert),
  );
});

test('the panels of the dashboard have ids of their own, and no two lie on one place', () => {
  const taken = new Set<string>();
  const { panels } = readDashboard();
  assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
  for (const { title, type, targets = [], gridPos } of panels) {
    assert.equal(targets.length > 0, type !== 'row', title);
    const { x, y, w, h } = gridPos;
    assert.ok(x + w <= 24, title);
    for (let at = 0; at < w * h; at++) {
      const place = `${x + (at % w)}:${y + Math.floor(at / w)}`;
      assert.ok(!taken.has(place), `${title} lies over another`);
      taken.add(place);
    }
  }
});
