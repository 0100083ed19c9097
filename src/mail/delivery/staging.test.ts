/** Staging in the thread gives what the event loop gives, and mail is deferred where the thread ends. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startDnsServer } from '../../../test/support/dns-server.ts';
import { rsaKey, sign } from '../../../test/support/sender-checks/signed-mail.ts';
import { cutAt, streamOf } from '../../../test/support/sender-checks/stream.ts';
import { GrowingBuffer, INLINE_MAX } from '../../mailboxes/bodies/bodies.ts';
import { readTerms } from '../../mailboxes/search/search.ts';
import { Unanswered } from './sender-checks/lookups.ts';
import { openSenderChecks } from './sender-checks/open-checks.ts';
import { type StagingOptions, stageMail } from './stage-mail.ts';
import { type Asked, type MailToCheck, StagingThread } from './staging.ts';

const dns = await startDnsServer([
  ['bank.test', 'TXT', 'v=spf1 ip4:192.0.2.1 -all'],
  ['_dmarc.bank.test', 'TXT', 'v=DMARC1; p=reject'],
  ['key1._domainkey.bank.test', 'TXT', rsaKey.record.match(/.{1,255}/g) ?? []],
]);
const settings = {
  servers: [dns.address],
  hostname: 'mx.test',
  enforce: true,
  trustedNetworks: [],
  hasSpamFilter: false,
  unanswered: Unanswered.memory(),
};
const asked: Asked[] = [];
const warnings: string[] = [];
const outages: boolean[] = [];
const thread = new StagingThread({
  settings: { ...settings, readsTerms: true },
  log: { warn: ({ err }: { err?: unknown }, message) => warnings.push(`${message} ${err}`) },
  onAsked: (...question) => asked.push(question),
  onOutage: (isOut) => outages.push(isOut),
});
const here = openSenderChecks(settings, { onAsked: () => {}, onOutage: () => {} });
after(() => {
  thread.close();
  here.close();
});

/** Bodies in memory. */
const bodies = {
  async stage(source: AsyncIterable<Uint8Array>, observe: (chunk: Uint8Array) => void) {
    const held = new GrowingBuffer();
    for await (const chunk of source) {
      observe(chunk);
      held.add(chunk);
    }
    const { size } = held;
    return { size, content: held.take() };
  },
  discard: async () => {},
  read: () => assert.fail('no spam filter reads the body'),
};
const arrived = {
  envelope: {
    id: 'id-1',
    from: 'ann@bank.test',
    to: ['bob@acme.test'],
    arrival: {
      protocol: 'ESMTP',
      heloName: 'out.bank.test',
      remoteAddress: '192.0.2.1',
      sessionId: 's',
    },
  },
  receivedAt: 0,
};

const letter =
  'From: ann@bank.test\r\nSubject: Hi\r\nAuthentication-Results: mx.test; spf=pass\r\n';
/** The thread gets messages also while it is not ready yet, so that what is tested is the thread. */
const always = { isReady: () => true, check: (mail: MailToCheck) => thread.check(mail) };
const stage = (message: string, isAlone: boolean, beside: StagingOptions['thread'] = always) =>
  stageMail(
    { bodies, checks: here.checks, thread: beside, hostname: 'mx.test' },
    arrived,
    streamOf(cutAt(Buffer.from(message), [10, 700, 70_000])),
    isAlone,
  );

test('the thread finds what the event loop finds', async () => {
  const parts = `${letter}Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nOne\r\n--b--\r\n`;
  const messages = {
    signed: await sign(parts, { domain: 'bank.test' }),
    'with a broken signature': (await sign(parts, { domain: 'bank.test' })).replace('One', 'Two'),
    'without a header': 'no field\r\n',
    empty: '',
    'larger than what is held in memory': `${letter}\r\n${'x'.repeat(INLINE_MAX)}\r\n`,
  };
  // The first waits until the thread is loaded: on a busy machine that takes longer than a check may.
  await stage('', false);
  for (const [kind, message] of Object.entries(messages)) {
    const [{ message: found, ...rest }, here] = [
      await stage(message, false),
      await stage(message, true),
    ];
    const { terms, ...read } = found;
    assert.deepEqual({ message: read, ...rest }, here, kind);
    const isLarge = message.length > INLINE_MAX;
    const expected = isLarge
      ? undefined
      : await readTerms(here.message.parsed, here.message.body.content);
    assert.equal(terms, expected, kind);
  }
  const { verdicts } = await stage(messages.signed, false);
  assert.deepEqual(
    verdicts?.dkim.map(({ result }) => result),
    ['pass'],
  );
  const kinds = asked.map(([kind]) => kind);
  assert.ok(kinds.includes('records') && kinds.includes('kept'), 'metrics count its questions');
});

test('what the checks refuse is refused by the thread, too', async () => {
  const message = `${'X: y\r\n'.repeat(1_001)}From: ann@bank.test\r\n\r\nHi`;
  for (const isAlone of [true, false]) {
    await assert.rejects(stage(message, isAlone), {
      name: 'Refusal',
      code: 'sender_rejected',
      message: /header is too long/,
    });
  }
});

test('a message that is larger than a body in a row does not come into the thread', async () => {
  const beside = { isReady: () => true, check: () => assert.fail('it is too large') };
  for (const octets of [INLINE_MAX, 3 * INLINE_MAX]) {
    const message = `${letter}\r\n${'x'.repeat(octets)}\r\n`;
    assert.deepEqual(await stage(message, false, beside), await stage(message, true));
  }
});

/** Stages letters, and waits until the thread asks DNS about them, which does not answer. */
async function stageUnanswered(domain: string, count = 2): Promise<Promise<unknown>[]> {
  const isAsked = Promise.withResolvers<void>();
  dns.faults = (name) => {
    if (!name.endsWith(domain)) return undefined;
    isAsked.resolve();
    return 'silent';
  };
  const from = `From: ann@${domain}\r\n\r\n`;
  const letters = Array.from({ length: count }, (_, n) => stage(`${from}${n}`, false));
  for (const one of letters) one.catch(() => {});
  await isAsked.promise;
  return letters;
}

async function isDeferred(letters: readonly Promise<unknown>[], why: RegExp): Promise<void> {
  for (const one of letters) await assert.rejects(one, { code: 'unavailable' });
  assert.match(warnings.splice(0).join(), why);
  const { verdicts } = await stage(`${letter}\r\nAgain`, false);
  assert.equal(verdicts?.spf.result, 'pass', 'the next message gets a new thread');
}

test('mail in a thread that ends is deferred, and the next gets a new thread', async () => {
  const letters = await stageUnanswered('ends.test');
  thread.close();
  await isDeferred(letters, /the thread that checks mail ended: the messages in it are deferred/);
});

test('the event loop checks what comes while the thread has enough', async () => {
  const letters = await stageUnanswered('many.test', 64);
  const beside = {
    isReady: () => thread.isReady(),
    check: () => assert.fail('it is full'),
  };
  const { verdicts } = await stage(`${letter}\r\nE`, false, beside);
  assert.equal(verdicts?.spf.result, 'pass');
  thread.close();
  await isDeferred(letters, /ended/);
});

test('a thread that cannot start is told once', async () => {
  const told = Promise.withResolvers<unknown>();
  const lines: string[] = [];
  const broken = new StagingThread({
    settings: { ...settings, readsTerms: false, trustedNetworks: ['nowhere'] },
    log: {
      warn(_, line) {
        lines.push(line);
        told.resolve(undefined);
      },
    },
    onAsked: () => {},
    onOutage: () => {},
  });
  assert.equal(broken.isReady(), false);
  await told.promise;
  assert.equal(broken.isReady(), false);
  assert.deepEqual(lines, [
    'the thread that checks mail could not start: the event loop checks all of it',
  ]);
});

test('mail in a thread that does not answer is deferred, and the next gets a new thread', async (t) => {
  const giveUp: (() => void)[] = [];
  const { setTimeout: start } = globalThis;
  t.mock.method(globalThis, 'setTimeout', (act: () => void, ms: number, ...values: []) => {
    if (ms === 30_000) giveUp.push(() => act(...values));
    return start(act, ms, ...values);
  });
  const letters = await stageUnanswered('stuck.test');
  for (const act of giveUp) act();
  await isDeferred(letters, /did not answer/);
});

test('mail is not kept waiting for a thread that is not ready, or cannot start', async () => {
  const beside = {
    isReady: () => false,
    check: () => assert.fail('it is not ready'),
  };
  const { verdicts } = await stage(`${letter}\r\nD`, false, beside);
  assert.equal(verdicts?.spf.result, 'pass');
  assert.equal(thread.isReady(), true);
  thread.close();
});
