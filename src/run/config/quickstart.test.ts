import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type BoundAddresses,
  describeStart,
  readConfig,
  type Secrets,
  type Start,
} from './config.ts';

const secrets: Secrets = {
  apiKey: [`pr_${'A'.repeat(43)}`],
  jwtSecret: ['B'.repeat(43)],
  mailserverWebhookSecret: ['C'.repeat(43)],
  srsSecret: ['D'.repeat(43)],
  linkSecret: ['E'.repeat(43)],
  idSecret: ['F'.repeat(43)],
};
const ownKey = 'a-key-of-the-operator';
const databasePassword = 's3cr3t';
const addresses: BoundAddresses = {
  http: { host: '127.0.0.1', port: 8080 },
  smtp: { host: '0.0.0.0', port: 2525 },
};

function startOf(changes: Partial<Omit<Start, 'config'>>, env: NodeJS.ProcessEnv = {}): Start {
  const config = readConfig({ DATA_DIR: '/srv/postroom', ...env }, '/nowhere');
  return { config, secrets, isFirst: true, stdoutIsTty: true, addresses, ...changes };
}

describe('what a start may print', () => {
  const secretsOf = (text: string) =>
    [...Object.values(secrets).flat(), ownKey, databasePassword].filter((secret) =>
      text.includes(secret),
    );
  const onPostgres = { DATABASE_URL: `postgres://me:${databasePassword}@db:5432/mail` };

  test('the API key, at the first start on a terminal', () => {
    assert.deepEqual(secretsOf(describeStart(startOf({}))), [...secrets.apiKey]);
    assert.deepEqual(secretsOf(describeStart(startOf({}, onPostgres))), [...secrets.apiKey]);
  });

  test('no secret, where the operator set the keys', () => {
    const description = describeStart(startOf({}, { API_KEYS: ownKey }));
    assert.deepEqual(secretsOf(description), []);
    assert.match(description, /^ {2}API key +one of API_KEYS$/m);
  });

  for (const [isFirst, stdoutIsTty] of [
    [true, false],
    [false, true],
    [false, false],
  ] as const) {
    const settings: Record<string, string>[] = [{}, onPostgres, { API_KEYS: ownKey }];
    for (const env of settings) {
      const place = `${isFirst ? 'a first' : 'a later'} start, ${stdoutIsTty ? 'a' : 'no'} terminal`;
      test(`${place}, ${Object.keys(env)[0] ?? 'defaults'}: lines without a secret`, () => {
        const description = describeStart(startOf({ isFirst, stdoutIsTty }, env));
        assert.deepEqual(secretsOf(description), []);
        assert.match(description, isFirst ? /^(?:[^\n]+\n){3}$/ : /^(?:[^\n]+\n){2}$/);
        const namesKey = isFirst && env.API_KEYS === undefined;
        assert.equal(description.includes('"apiKey" is the API key'), namesKey);
        const where = env === onPostgres ? 'the PostgreSQL database' : '/srv/postroom/secrets.json';
        assert.ok(description.includes(where), description);
      });
    }
  }
});

test('the listeners with their addresses, and the data folder', () => {
  const all: BoundAddresses = {
    http: { host: '::', port: 80 },
    smtp: { host: '::1', port: 25 },
    lmtp: { host: '127.0.0.1', port: 24 },
    metrics: { host: '127.0.0.1', port: 9090 },
  };
  const later = { isFirst: false, addresses: all };
  assert.equal(
    describeStart(startOf(later, { DATABASE_URL: 'postgres://me:s3cr3t@db/mail?ssl=true' })),
    'Postroom listens: HTTP http://[::]:80, SMTP [::1]:25, LMTP 127.0.0.1:24, metrics 127.0.0.1:9090\n' +
      'Data: /srv/postroom, PostgreSQL at postgres://***@db/mail; secrets: the PostgreSQL database (table settings, name secrets)\n',
  );
  assert.match(
    describeStart(startOf(later, { S3_URL: 'https://me:s3cr3t@s3.example.com/mail' })),
    /^Data: \/srv\/postroom \(SQLite\), messages above 64 KiB in https:\/\/s3\.example\.com\/mail; secrets: /m,
  );
  assert.equal(
    describeStart(startOf({ isFirst: false, addresses: { http: addresses.http } })),
    'Postroom listens: HTTP http://127.0.0.1:8080\n' +
      'Data: /srv/postroom (SQLite); secrets: /srv/postroom/secrets.json\n',
  );
});

test('the first start suggests what to try, and names what is off', () => {
  const description = describeStart(startOf({ addresses: { http: addresses.http } }));
  assert.match(description, /^ {2}SMTP +off$/m);
  assert.match(description, /^ {2}Webmail +http:\/\/127\.0\.0\.1:8080\/webmail \(sign in /m);
  assert.match(describeStart(startOf({}, { WEBMAIL: 'false' })), /^ {2}Webmail +off$/m);
  assert.match(description, /^\.\/postroom demo$/m);
});
