import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { authenticate, sealMessage } from 'mailauth';
import { makeKey, resolverOf } from '../../../test/support/outbound/dkim.ts';
import { collect, sourceOf } from '../../../test/support/outbound/far-end.ts';
import { check } from '../../../test/support/sender-checks/checking.ts';
import { prepareForward, type SenderVerdict } from './outbound.ts';
import { sealArc } from './sign-message.ts';

const [key, other] = [makeKey('acme.test'), makeKey('list.test')];
const RESULTS = 'mail.acme.test;\r\n spf=pass smtp.mailfrom=example.com;\r\n dkim=none';
const ARRIVED =
  `Return-Path: <ann@example.com>\r\nAuthentication-Results: ${RESULTS}\r\n` +
  'Received: from a\r\n by mail.acme.test; Mon\r\n';
const MESSAGE =
  'From: Ann <ann@example.com>\r\nTo: info@acme.test\r\nSubject: hi\r\n\r\n.\r\nBody \t text\r\n';

async function forward(source: string, arc?: SenderVerdict['arc']): Promise<Buffer> {
  const prepared = await prepareForward({
    open: sourceOf(Buffer.from(source), 100),
    address: 'info@acme.test',
    domain: 'acme.test',
    dkimKey: key,
    verdict: { policy: 'none', aligned: true, dkimAligned: true, ...(arc && { arc }) },
    now: Date.now(),
  });
  const sent = await collect(prepared.open());
  assert.equal(sent.length, prepared.size);
  return sent;
}

/** What two implementations find of the chain. */
async function chainOf(message: Buffer): Promise<string[]> {
  const records = Object.fromEntries(
    [key, other].map(({ domain, record }) => [`TXT pr1._domainkey.${domain}`, [record]]),
  );
  const { verdicts } = await check({ message, zone: { records } });
  const { arc } = await authenticate(message, {
    ip: '192.0.2.1',
    helo: 'a.test',
    sender: 'ann@example.com',
    mta: 'far.test',
    disableDmarc: true,
    disableBimi: true,
    resolver: resolverOf(key, other),
  });
  const { result, instance, domain } = verdicts.arc;
  return [`${result} ${instance} ${domain}`, arc ? arc.status.result : 'none'];
}

async function sealedBefore(cv: string, message: string): Promise<string> {
  const set = await sealMessage(Buffer.from(message), {
    signingDomain: 'list.test',
    selector: 'pr1',
    privateKey: other.privateKey,
    cv,
    authResults: 'list.test; spf=pass smtp.mailfrom=example.com',
  });
  return set.toString() + message;
}

suite('an ARC set', () => {
  test('begins a chain with what we found, under our seal', async () => {
    const sent = await forward(ARRIVED + MESSAGE, 'none');
    assert.match(
      sent.toString(),
      /^ARC-Seal: i=1; a=rsa-sha256; cv=none; [\s\S]*?\r\nARC-Message-Signature: i=1; [\s\S]*?\r\nARC-Authentication-Results: i=1; mail\.acme\.test;\r\n spf=pass smtp\.mailfrom=example\.com;\r\n dkim=none\r\nDKIM-Signature: /,
    );
    assert.deepEqual(await chainOf(sent), ['pass 1 acme.test', 'pass']);
  });

  test('continues a chain that passed', async () => {
    const twice = await sealedBefore('pass', await sealedBefore('none', MESSAGE));
    const sent = await forward(ARRIVED + twice, 'pass');
    assert.match(sent.toString(), /^ARC-Seal: i=3; a=rsa-sha256; cv=pass; /);
    assert.deepEqual(await chainOf(sent), ['pass 3 acme.test', 'pass']);
  });

  test('covers the message as we send it, From and our DKIM-Signature included', async () => {
    const sent = (await forward(ARRIVED + MESSAGE, 'none')).toString();
    const changes: [what: string, changed: string][] = [
      ['the body', sent.replace('text', 'next')],
      ['a field', sent.replace('Subject: hi', 'Subject: ho')],
      ['one more From', `From: eve@evil.test\r\n${sent}`],
      ['our signature', sent.replace('DKIM-Signature: v=1', 'DKIM-Signature: v=2')],
      ['our results', sent.replace('i=1; mail.acme.test', 'i=1; far.test')],
    ];
    for (const [what, changed] of changes) {
      const [ours, theirs] = await chainOf(Buffer.from(changed));
      assert.deepEqual([ours, theirs], ['fail 1 acme.test', 'fail'], what);
    }
  });

  test('is left out where a chain was broken, or nothing was checked', async () => {
    const sealed = await sealedBefore('none', MESSAGE);
    const sources: [what: string, source: string, arc: SenderVerdict['arc']][] = [
      ['a broken chain', ARRIVED + sealed, 'fail'],
      ['a part of a chain', ARRIVED + sealed.replace(/^ARC-Seal/, 'X-Seal'), 'pass'],
      ['a chain that was not seen', ARRIVED + sealed, 'none'],
      ['mail by LMTP', ARRIVED + MESSAGE, undefined],
      [
        'results below our Received',
        `Received: a\r\nAuthentication-Results: x; spf=pass\r\n${MESSAGE}`,
        'none',
      ],
    ];
    for (const [what, source, arc] of sources) {
      const sent = (await forward(source, arc)).toString();
      assert.match(sent, /^DKIM-Signature: /, what);
    }
  });

  test('costs no more for each field of a longer chain: anybody may write one of fifty sets', async () => {
    const readsOf = async (sets: number) => {
      let reads = 0;
      const set = (at: number) =>
        ['ARC-Seal', 'ARC-Message-Signature', 'ARC-Authentication-Results'].map((name) => ({
          name: name.toLowerCase(),
          get text() {
            reads++;
            return `${name}: i=${at + 1}; list.test`;
          },
        }));
      const chain = Array.from({ length: sets }, (_, at) => set(at)).flat();
      const from = { name: 'from', text: 'From: ann@example.com' };
      const signing = { key, domain: 'acme.test', bodyHash: '', now: Date.now() };
      const sealed = await sealArc([...chain, from], ` ${RESULTS}`, 'pass', signing);
      assert.equal(sealed.length, 3);
      return reads / chain.length;
    };
    assert.equal(await readsOf(49), await readsOf(1));
  });
});
