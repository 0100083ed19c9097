import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, suite, test } from 'node:test';
import { promisify } from 'node:util';
import type { SettingStore } from '../../platform/database/database.ts';
import {
  ConfigError,
  dropOldValues,
  fileSecretStore,
  loadSecrets,
  rotateSecret,
  signWithLast,
} from './config.ts';

const parent = mkdtempSync(join(tmpdir(), 'postroom-secrets-'));
after(() => rmSync(parent, { recursive: true }));
const newFolder = () => mkdtempSync(join(parent, 'data-'));
const newFile = () => join(newFolder(), 'secrets.json');

const names = [
  'apiKey',
  'jwtSecret',
  'mailserverWebhookSecret',
  'srsSecret',
  'linkSecret',
  'idSecret',
];

/** The error for a file with this text. */
async function refusalOf(text: string): Promise<string> {
  const dataDir = newFolder();
  const path = join(dataDir, 'secrets.json');
  writeFileSync(path, text);
  try {
    await loadSecrets(fileSecretStore(dataDir));
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    assert.equal(readFileSync(path, 'utf8'), text, 'the file was changed');
    assert.ok(error.message.startsWith(`${path}: expected the generated secrets (`));
    return error.message.slice(error.message.lastIndexOf(', got '));
  }
  return assert.fail('taken');
}

describe('the first start', () => {
  test('makes six secrets of 32 random bytes, all different', async () => {
    const secrets = await loadSecrets(fileSecretStore(newFolder()));
    assert.deepEqual(Object.keys(secrets), names);
    const [apiKey] = secrets.apiKey;
    assert.match(apiKey, /^pr_[\w-]{43}$/);
    const others = Object.values({ ...secrets, apiKey: [apiKey.slice(3)] }).flat();
    for (const secret of others) assert.match(secret, /^[\w-]{43}$/);
    assert.equal(new Set(others).size, 6);
    const others2 = await loadSecrets(fileSecretStore(newFolder()));
    assert.notEqual(others2.apiKey[0], apiKey);
  });

  test('leaves one file, for its owner alone', async () => {
    const dataDir = newFolder();
    const umask = process.umask(0);
    try {
      await loadSecrets(fileSecretStore(dataDir));
    } finally {
      process.umask(umask);
    }
    assert.deepEqual(readdirSync(dataDir), ['secrets.json']);
    assert.equal(statSync(join(dataDir, 'secrets.json')).mode & 0o777, 0o600);
  });

  test('is followed by others, which read the same', async () => {
    const dataDir = newFolder();
    const first = await loadSecrets(fileSecretStore(dataDir));
    const later = await loadSecrets(fileSecretStore(dataDir));
    assert.deepEqual(later, first);
  });

  test('names DATA_DIR where the file cannot be written', async () => {
    const dataDir = join(newFolder(), 'missing');
    await assert.rejects(loadSecrets(fileSecretStore(dataDir)), {
      name: 'ConfigError',
      message: `DATA_DIR: expected a writable folder, got "${dataDir}" (ENOENT: no such file or directory)`,
    });
  });
});

test('of 20 first starts at once, over 4 processes, one makes the secrets that all get', async () => {
  const dataDir = newFolder();
  const source = `
    import { fileSecretStore, loadSecrets } from ${JSON.stringify(new URL('config.ts', import.meta.url).href)};
    const store = fileSecretStore(${JSON.stringify(dataDir)});
    const loaded = await Promise.all(Array.from({ length: 5 }, () => loadSecrets(store)));
    process.stdout.write(JSON.stringify(loaded));`;
  const run = promisify(execFile);
  const processes = Array.from({ length: 4 }, () =>
    run(process.execPath, ['--input-type=module', '--eval', source]),
  );
  const loaded = (await Promise.all(processes)).flatMap(({ stdout }) => JSON.parse(stdout));
  assert.equal(loaded.length, 20);
  assert.equal(new Set(loaded.map((secrets) => JSON.stringify(secrets))).size, 1);
  assert.deepEqual(readdirSync(dataDir), ['secrets.json']);
});

test('a writer that comes second gets what the first stored', async () => {
  const store = fileSecretStore(newFolder());
  const json = (fill: string) =>
    JSON.stringify(Object.fromEntries(names.map((name) => [name, fill.repeat(32)])));
  assert.equal(await store.read(), undefined);
  assert.equal(await store.create(json('a')), json('a'));
  assert.equal(await store.create(json('b')), json('a'));
  assert.equal(await store.read(), json('a'));
});

describe('a file that cannot be read', () => {
  const full = Object.fromEntries(names.map((name) => [name, 'x'.repeat(43)]));
  const cases: readonly (readonly [string, string, string])[] = [
    ['is empty', '', 'text that is no JSON'],
    ['was cut', JSON.stringify(full).slice(0, 60), 'text that is no JSON'],
    ['holds an array', '[]', 'no object'],
    ['holds null', 'null', 'no object'],
    ['holds nothing', '{}', 'no jwtSecret'],
    ['lost the token key', JSON.stringify({ ...full, jwtSecret: undefined }), 'no jwtSecret'],
    [
      'holds a number',
      JSON.stringify({ ...full, srsSecret: 1 }),
      'srsSecret with less than 16 characters',
    ],
    [
      'holds a short key',
      JSON.stringify({ ...full, jwtSecret: 'x'.repeat(31) }),
      'jwtSecret with less than 32 characters',
    ],
  ];
  for (const [what, text, found] of cases) {
    test(`because it ${what}`, async () => assert.equal(await refusalOf(text), `, got ${found}`));
  }

  test('is refused without a part of its content', async () => {
    assert.ok(!(await refusalOf('{"jwtSecret": "s3cr3t')).includes('s3cr3t'));
  });

  test('because it is a folder', async () => {
    const path = newFile();
    mkdirSync(path);
    await assert.rejects(loadSecrets(fileSecretStore(join(path, '..'))), {
      name: 'ConfigError',
      message: /got EISDIR: illegal operation on a directory$/,
    });
  });
});

describe('the file of an older version', () => {
  for (const missing of names.filter((name) => name !== 'jwtSecret')) {
    test(`gets its ${missing}, once`, async () => {
      const dataDir = newFolder();
      const path = join(dataDir, 'secrets.json');
      const secrets = await loadSecrets(fileSecretStore(dataDir));
      const kept = JSON.parse(readFileSync(path, 'utf8'));
      const older = { ...kept, [missing]: undefined };
      writeFileSync(path, JSON.stringify({ ...older, ofANewerVersion: 'kept' }));

      const loads = Array.from({ length: 5 }, () => loadSecrets(fileSecretStore(dataDir)));
      const [first, ...others] = await Promise.all(loads);
      assert.ok(first !== undefined);
      for (const other of others) assert.deepEqual(other, first);
      assert.deepEqual({ ...first, [missing]: undefined }, { ...secrets, [missing]: undefined });
      const [added] = first[missing as keyof typeof secrets];
      assert.match(added, missing === 'apiKey' ? /^pr_[\w-]{43}$/ : /^[\w-]{43}$/);
      // The ids that clients have were made with the secret of links.
      if (missing === 'idSecret') assert.deepEqual([added], secrets.linkSecret);
      else assert.equal(new Set(Object.values(first).flat()).size, 6);

      assert.deepEqual(JSON.parse(readFileSync(path, 'utf8')), {
        ...older,
        [missing]: added,
        ofANewerVersion: 'kept',
      });
      assert.equal(statSync(path).mode & 0o777, 0o600);
      assert.deepEqual(readdirSync(dataDir), ['secrets.json']);
    });
  }
});

test('secrets that an older version did not have differ from each other', async () => {
  const dataDir = newFolder();
  const jwtSecret = 'x'.repeat(43);
  writeFileSync(join(dataDir, 'secrets.json'), JSON.stringify({ jwtSecret }));
  const secrets = await loadSecrets(fileSecretStore(dataDir));
  assert.deepEqual(secrets.jwtSecret, [jwtSecret]);
  const { idSecret, ...others } = secrets;
  assert.deepEqual(idSecret, secrets.linkSecret);
  assert.equal(new Set([...Object.values(others).flat(), secrets.apiKey[0].slice(3)]).size, 6);
});

test('secrets that are missing beside a database with content are not made again', async () => {
  const dataDir = newFolder();
  const store = fileSecretStore(dataDir);
  const path = join(dataDir, 'secrets.json');
  await assert.rejects(loadSecrets(store, false), (error) => {
    assert.ok(error instanceof ConfigError);
    assert.ok(
      error.message.startsWith(`${path}: expected the secrets of this database, which has`),
    );
    return true;
  });
  assert.deepEqual(readdirSync(dataDir), []);
  // The suggested text is accepted.
  writeFileSync(path, `{"jwtSecret":"${'0123456789abcdef'.repeat(2)}"}`);
  const secrets = await loadSecrets(store, false);
  assert.deepEqual(await loadSecrets(store, false), secrets);
});

test('another store needs only read, create and replace', async () => {
  let stored: string | undefined;
  const store: SettingStore = {
    location: 'secrets',
    read: async () => stored,
    create: async (json) => {
      stored ??= json;
      return stored;
    },
    replace: async (read, json) => {
      if (stored !== read) return false;
      stored = json;
      return true;
    },
  };
  const [one, two] = await Promise.all([loadSecrets(store), loadSecrets(store)]);
  assert.deepEqual(one, two);

  const { linkSecret, ...older } = one;
  stored = JSON.stringify(older);
  const [three, four] = await Promise.all([loadSecrets(store), loadSecrets(store)]);
  assert.deepEqual(three, four);
  assert.notEqual(three.linkSecret, linkSecret);

  // Two at once: each reads what the other has written.
  const added = await Promise.all([
    rotateSecret(store, 'jwtSecret'),
    rotateSecret(store, 'jwtSecret'),
  ]);
  const { jwtSecret } = await loadSecrets(store);
  assert.deepEqual(new Set(jwtSecret), new Set([...added, ...three.jwtSecret]));

  stored = '{';
  await assert.rejects(loadSecrets(store), { name: 'ConfigError', message: /^secrets: expected / });
});

suite('a secret that is rotated', () => {
  const names = [
    'apiKey',
    'jwtSecret',
    'mailserverWebhookSecret',
    'srsSecret',
    'linkSecret',
  ] as const;
  for (const name of names) {
    test(`${name}: the new value comes first, and the old one is removed on request`, async () => {
      const dataDir = newFolder();
      const store = fileSecretStore(dataDir);
      const before = await loadSecrets(store);
      const [old] = before[name];
      const added = await rotateSecret(store, name);
      assert.equal(added.length, old.length);
      const both = await loadSecrets(store);
      assert.deepEqual(both, { ...before, [name]: [added, old] });
      assert.equal(await dropOldValues(store, name), 1);
      const after = await loadSecrets(store);
      assert.deepEqual(after, { ...before, [name]: [added] });
      assert.equal(await dropOldValues(store, name), 0);
      assert.deepEqual(readdirSync(dataDir), ['secrets.json']);
      assert.equal(statSync(join(dataDir, 'secrets.json')).mode & 0o777, 0o600);
    });
  }

  test('a value may be accepted before it signs', async () => {
    const store = fileSecretStore(newFolder());
    const before = await loadSecrets(store);
    const added = await rotateSecret(store, 'jwtSecret', 'last');
    const accepting = await loadSecrets(store);
    assert.deepEqual(accepting, { ...before, jwtSecret: [...before.jwtSecret, added] });
    assert.equal(await dropOldValues(store, 'jwtSecret'), undefined, 'the new one would be lost');
    await signWithLast(store, 'jwtSecret');
    const signing = await loadSecrets(store);
    assert.deepEqual(signing, { ...before, jwtSecret: [added, ...before.jwtSecret] });
    await signWithLast(store, 'jwtSecret');
    assert.deepEqual(await loadSecrets(store), signing, 'it can be repeated');
    assert.equal(await dropOldValues(store, 'jwtSecret'), 1);
    await signWithLast(store, 'jwtSecret');
    assert.deepEqual((await loadSecrets(store)).jwtSecret, [added]);
  });

  test('the ids that clients have stay the same, although an older version made them with it', async () => {
    const dataDir = newFolder();
    const path = join(dataDir, 'secrets.json');
    const store = fileSecretStore(dataDir);
    const secrets = await loadSecrets(store);
    const { idSecret, ...older } = JSON.parse(readFileSync(path, 'utf8'));
    assert.notEqual(idSecret, older.linkSecret);
    writeFileSync(path, JSON.stringify(older));
    await rotateSecret(store, 'linkSecret');
    await dropOldValues(store, 'linkSecret');
    assert.deepEqual((await loadSecrets(store)).idSecret, secrets.linkSecret);
  });

  test('is not made where there are none', async () => {
    const dataDir = newFolder();
    await assert.rejects(rotateSecret(fileSecretStore(dataDir), 'jwtSecret'), (error) => {
      assert.ok(error instanceof ConfigError);
      assert.match(error.message, /first start of the service/);
      return true;
    });
    assert.deepEqual(readdirSync(dataDir), []);
  });
});
