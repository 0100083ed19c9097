import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Refusal } from '../../platform/errors/errors.ts';
import { checkRoute, type RouteSettings } from './routes.ts';

const hook = 'https://hooks.test/in?a=1';

function columns(settings: RouteSettings) {
  const row = checkRoute('acme.test', settings);
  return [row.forward_mode, row.webhook_url, row.webhook_secret, row.forward_to_email];
}

test('store clears every other field, whatever it holds', () => {
  const settings = { webhookUrl: 'no url', webhookSecret: 'whsec_?', forwardToEmail: 'nobody' };
  assert.deepEqual(columns({ forwardMode: 'store', ...settings }), ['store', null, null, null]);
});

test('a field left out or empty is cleared', () => {
  assert.deepEqual(
    columns({ forwardMode: 'webhook', webhookUrl: hook, webhookSecret: '', forwardToEmail: '' }),
    ['webhook', hook, null, null],
  );
  assert.deepEqual(columns({ forwardMode: 'forward_email', forwardToEmail: 'Ann@Else.test' }), [
    'forward_email',
    null,
    null,
    'Ann@Else.test',
  ]);
});

test('fields that the mode does not use are kept', () => {
  assert.deepEqual(
    columns({ forwardMode: 'webhook_then_store', webhookUrl: hook, forwardToEmail: 'a@b.test' }),
    ['webhook_then_store', hook, null, 'a@b.test'],
  );
});

test('valid URLs are stored unchanged', () => {
  const urls = [
    'http://127.0.0.1:9/x',
    'HTTPS://Hooks.test',
    'https://[::1]/',
    'https://hooks.test/ü?q=%20#f',
    `https://hooks.test/${'a'.repeat(2048 - 19)}`,
  ];
  for (const url of urls) {
    assert.equal(
      checkRoute('acme.test', { forwardMode: 'webhook', webhookUrl: url }).webhook_url,
      url,
    );
  }
});

test('valid secrets are stored unchanged', () => {
  const secrets = [
    'x',
    'ünïcode',
    's'.repeat(255),
    `whsec_${Buffer.alloc(24).toString('base64')}`,
    `whsec_${Buffer.alloc(32, 255).toString('base64')}`,
    `whsec_${Buffer.alloc(64).toString('base64')}`,
    'WHSEC_not ours',
  ];
  for (const webhookSecret of secrets) {
    const row = checkRoute('acme.test', {
      forwardMode: 'webhook',
      webhookUrl: hook,
      webhookSecret,
    });
    assert.equal(row.webhook_secret, webhookSecret);
  }
});

const badUrls = [
  'hooks.test/in',
  'ftp://hooks.test/',
  'javascript:alert(1)',
  'http:hooks.test',
  'http:///x',
  'https://',
  'https://user@hooks.test/',
  'https://user:pass@hooks.test/',
  'https://:pass@hooks.test/',
  ' https://hooks.test/',
  'https://hooks.test/a b',
  'https://hooks.test/\n',
  'https://hooks.test/\0',
  'https://hooks.test:99999/',
  'https://ho_%00ks.test/',
  'https://hooks.test/\ud800',
  `https://hooks.test/${'a'.repeat(2048 - 18)}`,
];

const refused: [string, RouteSettings][] = [
  ['webhook_url', { forwardMode: 'webhook' }],
  ['webhook_url', { forwardMode: 'webhook_then_store', webhookUrl: '' }],
  ['webhook_url', { forwardMode: 'webhook', forwardToEmail: 'a@b.test' }],
  ['forward_to_email', { forwardMode: 'forward_email' }],
  ['forward_to_email', { forwardMode: 'forward_email', webhookUrl: hook }],
  ...badUrls.map((webhookUrl): [string, RouteSettings] => [
    'webhook_url',
    { forwardMode: 'webhook', webhookUrl },
  ]),
  ...[
    'whsec_',
    `whsec_${Buffer.alloc(23).toString('base64')}`,
    `whsec_${Buffer.alloc(65).toString('base64')}`,
    `whsec_${Buffer.alloc(32).toString('base64').replace('=', '')}`,
    `whsec_${Buffer.alloc(33, 255).toString('base64url')}`,
    `whsec_ ${Buffer.alloc(24).toString('base64')}`,
    's'.repeat(256),
    'a\0b',
    '\ud800',
  ].map((webhookSecret): [string, RouteSettings] => [
    'webhook_secret',
    { forwardMode: 'webhook', webhookUrl: hook, webhookSecret },
  ]),
  ...[
    'ann',
    'ann@',
    '@else.test',
    'Ann <ann@else.test>',
    'ann@else.test, bob@else.test',
    'ann@[127.0.0.1]',
    'ann@else.test\r\nBcc: x@y.test',
    'ann@acme.test',
    'ann@ACME.test',
  ].map((forwardToEmail): [string, RouteSettings] => [
    'forward_to_email',
    { forwardMode: 'forward_email', forwardToEmail },
  ]),
];

for (const [field, settings] of refused) {
  test(`${field} is refused in ${JSON.stringify(settings).slice(0, 100)}`, () => {
    assert.throws(
      () => checkRoute('acme.test', settings),
      (error) =>
        error instanceof Refusal &&
        error.code === 'invalid_request' &&
        error.errors?.[0]?.field === field,
    );
  });
}
