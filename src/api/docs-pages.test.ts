import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type RunningApi, startApi } from './testing/start-api.ts';

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
    'assets/app.Bx4d9_1-.js': 'export {};',
    'guide/index.html': '<html>guide</html>',
    'guide/start.html': '<html>start</html>',
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(root, name), text);
  await symlink(join(parent, 'secret.txt'), join(root, 'link.txt'));
  await symlink(join(parent, 'secret.txt'), join(root, 'page.html'));
  await symlink(parent, join(root, 'up'));
  await symlink(join(root, 'notes.md'), join(root, 'inside.md'));
  api = await startApi('sqlite', {
    site: () => ({ kind: 'built', directory: root, scripts: [SCRIPT_HASH] }),
  });
});

after(() => rm(parent, { recursive: true, force: true }));

test('/ and /docs are the same page, open to all', async () => {
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

test('files have their types', async () => {
  const types: [string, string][] = [
    ['/docs/style.css', 'text/css; charset=utf-8'],
    ['/docs/script.js', 'text/javascript; charset=utf-8'],
    ['/docs/notes.md', 'text/markdown; charset=utf-8'],
    ['/docs/inside.md', 'text/markdown; charset=utf-8'],
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

test('a file that is known is not sent again', async () => {
  for (const path of ['/', '/docs/notes.md', HASHED]) {
    const first = await api.call('GET', path);
    const etag = first.headers.get('etag') ?? '';
    assert.notEqual(etag, '');
    // As browsers ask; fetch by itself would say no-cache.
    const ask = { 'if-none-match': etag, 'cache-control': 'max-age=0' };
    const again = await api.call('GET', path, undefined, ask);
    assert.equal(again.status, 304);
  }
  assert.equal((await api.call('GET', '/')).headers.get('cache-control'), 'public, no-cache');
  const hashed = await api.call('GET', HASHED);
  assert.match(hashed.headers.get('cache-control') ?? '', /max-age=31536000, immutable/);
});

/** Sends a path as it is, which fetch would tidy up first. */
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
