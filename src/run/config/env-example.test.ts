import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { parseEnv } from 'node:util';
import { configKeys, readConfig } from './config.ts';

const text = readFileSync(new URL('../../../.env.example', import.meta.url), 'utf8');
const empty = mkdtempSync(join(tmpdir(), 'postroom-env-example-'));
after(() => rmSync(empty, { recursive: true }));

/** The lines `#KEY=value`, in contrast to comments, which begin with `# `. */
const settingLines = text.split('\n').filter((line) => /^#[A-Z]/.test(line));

test('.env.example lists exactly the keys that are read, each once', () => {
  const listed = settingLines.map((line) => line.slice(1, line.indexOf('=')));
  assert.deepEqual(listed.toSorted(), [...configKeys].toSorted());
});

test('an unchanged .env.example sets nothing', () => {
  assert.deepEqual(Object.keys(parseEnv(text)), []);
});

test('.env.example uncommented gives the defaults', () => {
  const uncommented = parseEnv(text.replace(/^#(?=[A-Z])/gm, ''));
  assert.equal(Object.keys(uncommented).length, configKeys.length);
  // The list of set keys, which is shown to operators, differs.
  const valuesOf = (env: NodeJS.Dict<string>) => ({ ...readConfig(env, empty), shown: [] });
  assert.deepEqual(valuesOf(uncommented), valuesOf({}));
});

test('.env.example leaves a key blank only if it has no default, or one made of other keys', () => {
  const blank = settingLines.filter((line) => line.endsWith('=')).map((line) => line.slice(1, -1));
  assert.deepEqual(blank.toSorted(), [
    'API_KEYS',
    'DATABASE_URL',
    'IMAP_HOST',
    'JWT_AUDIENCE',
    'JWT_ISSUER',
    'JWT_JWKS_URL',
    'JWT_PUBLIC_KEY',
    'JWT_SECRET',
    'LMTP_URL',
    'MAILSERVER_WEBHOOK_SECRET',
    'NOTIFIER_URL',
    'PUBLIC_URL',
    'REDIS_URL',
    'RSPAMD_URL',
    'S3_URL',
    'SMTP_RELAY_URL',
    'SPF_INCLUDE',
    'SUBMISSION_HOST',
    'TLS_CERT',
    'TLS_KEY',
    'WEBMAIL_COLOR',
  ]);
});

test('.env.example explains each key in one line', () => {
  const lines = text.split('\n');
  for (const line of settingLines) {
    const index = lines.indexOf(line);
    assert.match(lines[index - 1] ?? '', /^# .{10,98}$/, line);
    assert.equal(lines[index - 2], '', line);
  }
});
