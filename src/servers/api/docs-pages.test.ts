import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { FRAME_SCRIPT_HASH } from '../../../packages/webmail/reading/frame-script.ts';
import { type RunningApi, startApi } from '../../../test/support/api/start-api.ts';
import { isHashedAsset, isPartOfPage } from './docs-files.ts';

const SECRET = 'what lies outside';
const SCRIPT_HASH = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='";
const HASHED = '/docs/assets/app.Bx4d9_1-.js';

let parent: string;
let api: RunningApi;

before(async () => {
  parent = await mkdtemp(join(tmpdir(), 'postroom-docs-'));
  const root = join(parent, 'site');
  await mkdir(join(root, 'assets'), { recursive: true });
  await mkdir(join(root, 'guide'));
  await mkdir(join(root, 'console/assets'), { recursive: true });
  await mkdir(join(root, 'webmail'));
  await mkdir(join(parent, 'site-private'));
  await writeFile(join(parent, 'secret.txt'), SECRET);
  await writeFile(join(parent, 'site-private', 'secret.txt'), SECRET);
  const files: Record<string, string> = {
    'index.html': '<!doctype html><html><title>Home</title></html>',
    '404.html': '<!doctype html><html><title>Nothing</title></html>',
    'style.css': 'body { margin: 0 }',
    'script.js': 'export {};',
    'notes.md': '# Notes',
    'picture.svg': '<svg xmlns="http://www.w3.org/2000/svg"/>',
    'picture.png': 'png',
    'data.json': '{}',
    '.env': SECRET,
    '.build.json': JSON.stringify({ scripts: [SCRIPT_HASH] }),
    'assets/app.Bx4d9_1-.js': 'export {};',
    'guide/index.html': '<html>guide</html>',
    'guide/start.html': '<html>start</html>',
    'console/index.html': '<html><title>Console</title>console</html>',
    'webmail/index.html': '<html><title>Mail</title>webmail</html>',
    'console/assets/main.Bx4d9_1-.js': 'export {};',
    'packed.css': 'packed',
    'packed.html': 'packed',
    'packed.js': 'packed',
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(root, name), text);
  for (const name of ['packed.css', 'packed.html', 'packed.js']) {
    await writeFile(join(root, `${name}.br`), brotliCompressSync('packed'));
    await writeFile(join(root, `${name}.gz`), gzipSync('packed'));
  }
  await symlink(join(parent, 'secret.txt'), join(root, 'link.txt'));
  await symlink(join(parent, 'secret.txt'), join(root, 'page.html'));
  await symlink(parent, join(root, 'up'));
  await symlink(join(root, 'notes.md'), join(root, 'inside.md'));
  api = await startApi('sqlite', { siteDirectory: root });
});

after(() => rm(parent, { recursive: true, force: true }));

test('/ and /docs are the same page, open to everybody', async () => {
  const pages = await Promise.all(
    ['/', '/docs', '/docs/', '/docs/index.html'].map((path) =>
      api.call('GET', path, undefined, { 'x-api-key': undefined }),
    ),
  );
  for (const page of pages) {
    assert.equal(page.status, 200);
    assert.equal(page.headers.get('content-type'), 'text/html; charset=utf-8');
    assert.match(page.body, /<title>Home/);
    const policy = page.headers.get('content-security-policy') ?? '';
    assert.match(policy, /default-src 'self'/);
    assert.doesNotMatch(policy, /unsafe|https?:/);
  }
});

test('every path of the console is its one page, which may load only its own files', async () => {
  for (const path of [
    '/console',
    '/console/',
    '/console/domains/acme.test',
    '/console/queue?a=b',
  ]) {
    const page = await api.call('GET', path);
    assert.equal(page.status, 200, path);
    assert.equal(page.headers.get('content-type'), 'text/html; charset=utf-8');
    assert.equal(page.headers.get('cache-control'), 'public, no-cache');
    assert.match(page.body, /console/);
    const policy = page.headers.get('content-security-policy') ?? '';
    assert.match(policy, /script-src 'self';/);
    assert.doesNotMatch(policy, /unsafe|https?:/);
  }
  const script = await api.call('GET', '/console/assets/main.Bx4d9_1-.js');
  assert.equal(script.headers.get('cache-control'), 'public, max-age=31536000, immutable');
  assert.equal((await api.call('GET', '/console/assets/gone.Bx4d9_1-.js')).status, 404);
  assert.equal((await api.call('GET', '/docs/console/index.html')).status, 404);
  assert.ok(isPartOfPage('/console/assets/main.Bx4d9_1-.js'));
});

test('the webmail has the name and the colour of the operator, and can be switched off', async () => {
  const siteDirectory = join(parent, 'site');
  const webmail = { isOn: true, name: 'A & B "$&" <i>', color: '#12ab34' };
  const branded = await startApi('sqlite', { siteDirectory, webmail });
  const page = await branded.call('GET', '/webmail/');
  assert.match(page.body, /<title>A &#38; B &#34;\$&#38;&#34; &#60;i&#62;<\/title>/);
  assert.match(page.body, /name="webmail-color" content="#12ab34"/);
  assert.equal(page.headers.get('cache-control'), 'public, no-cache');
  const policy = page.headers.get('content-security-policy') ?? '';
  assert.match(policy, /frame-src 'none'/);

  const off = await startApi('sqlite', { siteDirectory, webmail: { ...webmail, isOn: false } });
  assert.equal((await off.call('GET', '/webmail')).status, 404);
  assert.equal((await off.call('GET', '/webmail/index.html')).status, 404);
  // Links of the pages, which are built before anybody knows, lead to the guide; the console has none.
  const inbox = await fetch(`${off.url}/docs/inbox`, { redirect: 'manual' });
  assert.equal(inbox.headers.get('location'), '/docs/guides/webmail');
  const mark = /<meta name="webmail" content="off">/;
  assert.match((await off.call('GET', '/console/')).body, mark);
  assert.doesNotMatch((await branded.call('GET', '/console/')).body, mark);
  assert.equal((await off.call('GET', '/console')).status, 200);
});

test('files have their types', async () => {
  const types: [string, string][] = [
    ['/docs/style.css', 'text/css; charset=utf-8'],
    ['/docs/script.js', 'text/javascript; charset=utf-8'],
    ['/docs/notes.md', 'text/markdown; charset=utf-8'],
    ['/docs/picture.svg', 'image/svg+xml'],
    ['/docs/picture.png', 'image/png'],
    ['/docs/data.json', 'application/json; charset=utf-8'],
    ['/docs/guide/start.html', 'text/html; charset=utf-8'],
    ['/docs/guide/start', 'text/html; charset=utf-8'],
    ['/docs/guide/', 'text/html; charset=utf-8'],
  ];
  for (const [path, type] of types) {
    const file = await api.call('GET', path);
    assert.equal(file.status, 200, path);
    assert.equal(file.headers.get('content-type'), type);
    assert.equal(file.headers.get('x-content-type-options'), 'nosniff');
    const head = await api.call('HEAD', path);
    assert.equal(head.status, 200);
    assert.equal(head.body, '');
  }
});

test('a page that is asked for with a slash at its end is found', async () => {
  for (const [path, to] of [
    ['/docs/guide/start/', '/docs/guide/start'],
    ['/docs/guide/start/?from=mail', '/docs/guide/start'],
  ] as const) {
    const answer = await getRaw(path);
    assert.match(answer, /^HTTP\/1\.1 308 /);
    assert.match(answer, new RegExp(`\r\nlocation: ${to}\r\n`, 'i'));
  }
  for (const path of [
    '/docs/guide/start//',
    '/docs/style.css/',
    '/docs//evil.test/',
    '/docs/page/',
  ]) {
    assert.match(await getRaw(path), /^HTTP\/1\.1 404 /, path);
  }
});

test('a cached file is not sent again', async () => {
  for (const path of ['/', '/docs/notes.md', HASHED]) {
    const first = await api.call('GET', path);
    const etag = first.headers.get('etag') ?? '';
    assert.notEqual(etag, '');
    // As browsers request it; fetch alone would say no-cache.
    const ask = { 'if-none-match': etag, 'cache-control': 'max-age=0' };
    const again = await api.call('GET', path, undefined, ask);
    assert.equal(again.status, 304);
  }
  assert.equal((await api.call('GET', '/')).headers.get('cache-control'), 'public, no-cache');
  const hashed = await api.call('GET', HASHED);
  assert.match(hashed.headers.get('cache-control') ?? '', /max-age=31536000, immutable/);
});

/** Sends a path unchanged, which fetch would normalize first. */
function getRaw(path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let received = '';
    const socket = connect(api.port, '127.0.0.1', () => {
      socket.write(
        `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
        'latin1',
      );
    });
    socket.setEncoding('latin1');
    socket.on('data', (text) => {
      received += text;
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(received));
  });
}

test('nothing outside of the folder is served', async () => {
  const paths = [
    '/docs/../secret.txt',
    '/docs/../../secret.txt',
    '/docs/guide/../../secret.txt',
    '/docs/./../secret.txt',
    '/docs//../secret.txt',
    '/docs/%2e%2e/secret.txt',
    '/docs/%2E%2E%2Fsecret.txt',
    '/docs/..%2fsecret.txt',
    '/docs/..%5csecret.txt',
    '/docs/..\\secret.txt',
    '/docs/%5c..%5csecret.txt',
    '/docs/%252e%252e/secret.txt',
    '/docs/%252e%252e%252fsecret.txt',
    '/docs/%c0%ae%c0%ae/secret.txt',
    '/docs/%u002e%u002e/secret.txt',
    '/docs/../site-private/secret.txt',
    '/docs/..%2fsite-private/secret.txt',
    '/docs/index.html%00.txt',
    '/docs/%00',
    '/docs/.env',
    '/docs/.build.json',
    '/docs/%2eenv',
    '/docs/guide/../.env',
    '/docs/link.txt',
    '/docs/page.html',
    '/docs/page',
    '/docs/up/secret.txt',
    '/docs/up/',
    '/docs/up/site-private/secret.txt',
    '/docs/guide%2f..%2f..%2fsecret.txt',
    '/docs//etc/passwd',
    '/docs/%2fetc%2fpasswd',
    '/docs/file:///etc/passwd',
    '//docs/../secret.txt',
    '/../secret.txt',
    '/docs../secret.txt',
  ];
  for (const path of paths) {
    const received = await getRaw(path);
    assert.match(received, /^HTTP\/1\.1 40[04] /, path);
    assert.ok(!received.includes(SECRET), path);
    assert.ok(!received.includes('root:'), path);
    const { code } = JSON.parse(received.split('\r\n\r\n')[1] ?? '');
    assert.match(code, /^(route_not_found|invalid_request)$/, path);
  }
});

test('folders are not listed', async () => {
  assert.equal((await api.call('GET', '/docs/assets/')).status, 404);
  assert.equal((await api.call('GET', '/docs/assets')).status, 404);
});

test('pages may run their own inline scripts, and no others', async () => {
  const policy = (await api.call('GET', '/docs')).headers.get('content-security-policy') ?? '';
  assert.ok(policy.includes(`script-src 'self' ${SCRIPT_HASH}`), policy);
  const accept = 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.8';
  for (const path of ['/nowhere', '/docs/lost']) {
    const lost = await api.call('GET', path, undefined, { accept });
    assert.equal(lost.status, 404);
    assert.equal(lost.headers.get('content-type'), 'text/html; charset=utf-8');
    assert.match(lost.body, /<title>Nothing/);
    assert.equal(lost.headers.get('content-security-policy'), policy);
  }
  const posted = await api.call('POST', '/nowhere', {}, { accept });
  assert.equal(posted.body.code, 'route_not_found');
});

test('where the live inbox was, the webmail opens with the protocol beside the mail', async () => {
  for (const path of ['/docs/inbox', '/docs/inbox/', '/docs/inbox?x=1']) {
    const answer = await getRaw(path);
    assert.match(answer, /^HTTP\/1\.1 302 /, path);
    assert.match(answer, /\r\nlocation: \/webmail\/#\/\?protocol\r\n/i, path);
  }
  assert.equal((await api.call('GET', '/docs/inbox/main.js')).status, 404);
});

test('the policy of the webmail allows its own scripts, and the one that runs beside a mail', async () => {
  const page = await api.call('GET', '/webmail');
  const policy = page.headers.get('content-security-policy') ?? '';
  const script = /script-src ([^;]*);/.exec(policy)?.[1];
  assert.equal(script, `'self' '${FRAME_SCRIPT_HASH}'`);
  assert.match(policy, /style-src 'self' 'unsafe-inline'/);
  assert.match(policy, /frame-src 'none'/);
});

test('a file is compressed for clients that accept it', async () => {
  for (const [accepted, encoding] of [
    ['br, gzip', 'br'],
    ['gzip', 'gzip'],
    ['identity', null],
  ] as const) {
    for (const [path, type] of [
      ['/docs/packed.css', 'text/css; charset=utf-8'],
      ['/docs/packed', 'text/html; charset=utf-8'],
      ['/docs/packed.js', 'text/javascript; charset=utf-8'],
    ] as const) {
      const file = await api.call('GET', path, undefined, { 'accept-encoding': accepted });
      assert.equal(file.status, 200);
      assert.equal(file.headers.get('content-encoding'), encoding, `${path} for ${accepted}`);
      assert.equal(file.headers.get('content-type'), type);
      assert.match(file.headers.get('vary') ?? '', /accept-encoding/i);
      assert.match(file.body, /^packed/);
      const etag = file.headers.get('etag') ?? '';
      const again = await api.call('GET', path, undefined, {
        'accept-encoding': accepted,
        'if-none-match': etag,
        'cache-control': 'max-age=0',
      });
      assert.equal(again.status, 304);
    }
  }
  assert.equal((await api.call('GET', '/docs/packed.css.br')).status, 404, 'no file by itself');
});

test('the files that a page loads do not count for the rate limit', () => {
  for (const url of [
    HASHED,
    '/docs/assets/style.Cdh4q66G.css',
    '/docs/assets/quickstart.md.DF4nGAl2.lean.js',
    '/docs/assets/concepts_sync.md.D-_dZSpI.js',
    '/docs/assets/chunks/@localSearchIndexroot.DF1xcw_X.js?v=1',
    '/webmail/assets/main.Bx4d9_1-.js',
  ]) {
    assert.ok(isPartOfPage(url), url);
  }
  for (const url of [
    '/docs/assets/app.js',
    '/docs/assets/inbox/main.js',
    '/webmail/index.html',
    '/docs/quickstart',
    '/v2/domain?x=/docs/assets/app.Bx4d9_1-.js',
  ]) {
    assert.ok(!isPartOfPage(url), url);
  }
});

test('a changed page is loaded again, files named after their content never are', () => {
  assert.ok(isHashedAsset(HASHED));
  assert.ok(!isHashedAsset('/webmail/index.html'));
});

test('a site of only markdown shows it in place of the pages', async () => {
  const root = join(parent, 'markdown');
  await mkdir(join(root, 'guides'), { recursive: true });
  await writeFile(join(root, 'index.md'), '# Postroom');
  await writeFile(join(root, 'guides', 'webhooks.md'), '# Receive webhooks');
  const bare = await startApi('sqlite', { siteDirectory: root });
  for (const [path, text, type] of [
    ['/', '# Postroom', 'text/plain; charset=utf-8'],
    ['/docs', '# Postroom', 'text/plain; charset=utf-8'],
    ['/docs/', '# Postroom', 'text/plain; charset=utf-8'],
    ['/docs/guides/webhooks', '# Receive webhooks', 'text/plain; charset=utf-8'],
    ['/docs/guides/webhooks.md', '# Receive webhooks', 'text/markdown; charset=utf-8'],
    ['/docs/guides/webhooks.md?x=1', '# Receive webhooks', 'text/markdown; charset=utf-8'],
  ] as const) {
    const page = await bare.call('GET', path);
    assert.equal(page.status, 200, path);
    assert.equal(page.body, text);
    assert.equal(page.headers.get('content-type'), type, path);
  }
  const lost = await bare.call('GET', '/docs/lost', undefined, { accept: 'text/html' });
  assert.equal(lost.status, 404);
  assert.equal(lost.body.code, 'route_not_found');
});

test('without a site, / and /docs say how to build it, and the rest of the API works', async () => {
  const bare = await startApi('sqlite', { siteDirectory: join(parent, 'nothing') });
  for (const path of ['/', '/docs', '/docs/']) {
    const page = await bare.call('GET', path);
    assert.equal(page.status, 200);
    assert.match(page.body, /npm run docs:build/);
  }
  assert.equal((await bare.call('GET', '/docs/quickstart')).status, 404);
  assert.equal((await bare.call('GET', '/docs/openapi.json')).status, 200);
  assert.equal((await bare.call('GET', '/healthz')).status, 200);
});
