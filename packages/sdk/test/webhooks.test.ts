/** Webhooks as the server signs them, checked by the SDK. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signRequest } from '../../../src/mail/webhooks/send-webhook.ts';
import { SignatureError, verifyEvent, verifyWebhook } from '../src/webhooks.ts';

const NOW = 1_770_000_000_000;
const SECRETS = {
  plain: 'hook-secret with ünïcode',
  base64: `whsec_${Buffer.from('some bytes of a key').toString('base64')}`,
};
const event = { type: 'message.received', timestamp: '2026-01-31T12:00:00.000Z', data: {} };
const body = JSON.stringify(event);

function sign(secrets: string[], text = body, now = NOW) {
  return signRequest({ secrets, id: 'del_7', body: text }, now);
}

const isProblem = (problem: string) => (error: unknown) =>
  error instanceof SignatureError && error.problem === problem;

for (const [kind, secret] of Object.entries(SECRETS)) {
  test(`reads what was signed with a ${kind} secret`, async () => {
    const read = await verifyWebhook(Buffer.from(body), sign([secret]), secret, { now: NOW });
    assert.deepEqual(read, { ...event, id: 'del_7' });
  });

  test(`reads a large body with a ${kind} secret, from the headers of fetch`, async () => {
    const large = JSON.stringify({ ...event, data: { text: 'ä'.repeat(100_000) } });
    const headers = new Headers(sign([secret], large));
    const read = await verifyWebhook(Buffer.from(large), headers, secret, { now: NOW });
    assert.equal(read.id, 'del_7');
  });
}

test('accepts the previous secret beside the new one, on either side', async () => {
  const { plain, base64 } = SECRETS;
  const options = { now: NOW };
  await verifyWebhook(body, sign([plain, base64]), base64, options);
  await verifyWebhook(body, sign([base64]), [plain, base64, undefined], options);
});

test('headers of Node are found in any spelling', async () => {
  const headers = Object.fromEntries(
    Object.entries(sign([SECRETS.plain])).map(([name, value]) => [name.toUpperCase(), value]),
  );
  await verifyWebhook(body, headers, SECRETS.plain, { now: NOW });
});

test('refuses other bytes, another secret and another id', async () => {
  const headers = sign([SECRETS.plain]);
  const wrong = isProblem('wrong');
  const verify = (text: string, changed: object, secret: string) =>
    verifyWebhook(text, { ...headers, ...changed }, secret, { now: NOW });
  await assert.rejects(verify(`${body} `, {}, SECRETS.plain), wrong);
  await assert.rejects(verify(body, {}, SECRETS.base64), wrong);
  await assert.rejects(verify(body, { 'webhook-id': 'del_8' }, SECRETS.plain), wrong);
  await assert.rejects(
    verify(body, { 'webhook-signature': 'v1,%%% v1, v2,x' }, SECRETS.plain),
    wrong,
  );
});

test('refuses another time, in both directions, and a time that is none', async () => {
  const old = isProblem('old');
  for (const shift of [-301_000, 301_000]) {
    const headers = sign([SECRETS.plain], body, NOW + shift);
    await assert.rejects(verifyWebhook(body, headers, SECRETS.plain, { now: NOW }), old);
  }
  const headers = { ...sign([SECRETS.plain]), 'webhook-timestamp': 'NaN' };
  await assert.rejects(verifyWebhook(body, headers, SECRETS.plain, { now: NOW }), old);
});

test('a request without a signature is missing one', async () => {
  await assert.rejects(
    verifyWebhook(body, sign([]), SECRETS.plain, { now: NOW }),
    isProblem('missing'),
  );
});

test('a body that was parsed, and an absent secret, are mistakes of the program', async () => {
  const headers = sign([SECRETS.plain]);
  const parsed: unknown = event;
  await assert.rejects(
    verifyWebhook(parsed as string, headers, SECRETS.plain, { now: NOW }),
    /TypeError: the body was already parsed/,
  );
  await assert.rejects(verifyWebhook(body, headers, [undefined, ''], { now: NOW }), TypeError);
});

test('what an event hook posts is checked in the same way', async () => {
  const told = { cursor: 'c1', type: 'domain.deleted', timestamp: '', data: { domain: 'a.test' } };
  const posted = JSON.stringify(told);
  const headers = sign([SECRETS.plain], posted);
  const found = await verifyEvent(posted, headers, SECRETS.plain, { now: NOW });
  assert.deepEqual(found, { ...told, id: headers['webhook-id'] });
  await assert.rejects(verifyEvent(body, headers, SECRETS.plain, { now: NOW }), isProblem('wrong'));
});
