/** One message to several recipients of one domain: one transfer, and an outcome for each. */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { suite, test } from 'node:test';
import {
  dnsOf,
  outgoing,
  polite,
  replies,
  senderTo,
  startFarEnd,
  startScript,
  type Zone,
} from '../../../test/support/outbound/far-end.ts';
import type { SendOutcome } from './outbound.ts';

const MESSAGE = 'From: a@acme.test\r\nSubject: hi\r\n\r\nBody\r\n';

/** Answers RCPT by the local part; those that are not named are accepted. */
const byRecipient = (answers: Record<string, string>) => (socket: Socket, line: string) => {
  const [, local = ''] = /<([^@]*)@/.exec(line) ?? [];
  socket.write(`${answers[local] ?? '250 2.1.5 ok'}\r\n`);
};

const message = (...names: string[]) => ({
  ...outgoing(MESSAGE),
  to: names.map((name) => `${name}@far.test`),
});

/** In short: the reply code, and whether it was put off. */
function codeOf(outcome: SendOutcome): string | number {
  if (outcome.result === 'delivered') return 'delivered';
  return outcome.isPutOff ? 'put off' : (outcome.error.status ?? outcome.error.enhancedStatus);
}

async function sendTo(answers: Parameters<typeof replies>[0], ...names: string[]) {
  const port = await startScript(replies({ ...polite, ...answers }));
  const outcomes = await senderTo(port).sendToAll(message(...names));
  return outcomes.map(codeOf);
}

suite('several recipients', () => {
  test('get one transfer', async () => {
    const far = await startFarEnd();
    const names = Array.from({ length: 20 }, (_, at) => `r${at}`);
    const outcomes = await senderTo(far.port).sendToAll(message(...names));
    assert.deepEqual(new Set(outcomes.map(codeOf)), new Set(['delivered']));
    assert.equal(far.connections.count, 1);
    assert.deepEqual(
      far.received.map(({ to }) => to),
      [message(...names).to],
    );
  });

  for (const pipelining of ['', '250-PIPELINING\r\n']) {
    test(`are each decided by the reply to RCPT${pipelining && ', also to pipelined ones'}`, async () => {
      const RCPT = byRecipient({ b: '450 4.2.1 busy', c: '550 5.1.1 no such user' });
      const EHLO = `250-far.test\r\n${pipelining}250 8BITMIME`;
      const codes = await sendTo({ EHLO, RCPT }, 'a', 'b', 'c', 'd', 'not an address');
      assert.deepEqual(codes, ['delivered', 450, 550, 'delivered', '5.1.3']);
    });
  }

  test('who are accepted share the reply to the message', async () => {
    const RCPT = byRecipient({ b: '550 5.1.1 no such user' });
    const MESSAGE = '451 4.7.1 later';
    assert.deepEqual(await sendTo({ RCPT, MESSAGE }, 'a', 'b', 'c'), [451, 550, 451]);
  });

  test('who were refused stay refused where the connection breaks', async () => {
    const RCPT = byRecipient({ b: '550 5.1.1 no such user' });
    const DATA = (socket: Socket) => socket.destroy();
    assert.deepEqual(await sendTo({ RCPT, DATA }, 'a', 'b'), ['4.4.2', 550]);
  });

  const full: [reply: string, what: string | number][] = [
    ['452 4.5.3 too many recipients', 'put off'],
    ['452 no more', 'put off'],
    ['552 no more', 'put off'],
    ['450 4.5.3 no more', 'put off'],
    ['550 5.5.3 no more', 'put off'],
    ['550 5.7.1 Too many recipients', 'put off'],
    ['452 4.2.2 mailbox full', 452],
    ['552 5.2.2 mailbox full', 552],
    ['550 5.1.1 no such user', 550],
  ];
  for (const [reply, what] of full) {
    test(`${reply}: after others ${what}, and alone the answer`, async () => {
      const code = Number(reply.slice(0, 3));
      const RCPT = byRecipient({ b: reply, c: reply });
      assert.deepEqual(await sendTo({ RCPT }, 'a', 'b', 'c'), ['delivered', what, what]);
      assert.deepEqual(await sendTo({ RCPT }, 'b', 'c'), [code, code]);
    });
  }

  test('are put off where the host lacks what the others do not need', async () => {
    const EHLO = '250-far.test\r\n250 8BITMIME';
    assert.deepEqual(await sendTo({ EHLO }, 'a', 'ü'), ['delivered', 'put off']);
    assert.deepEqual(await sendTo({ EHLO }, 'ü'), ['5.6.7']);
  });
});

suite('several recipients and hosts', () => {
  const zone: Zone = {
    'far.test': { MX: ['10 mx.far.test', '20 second.far.test'] },
    'mx.far.test': { A: ['127.0.0.1'] },
    'second.far.test': { A: ['127.0.0.2'] },
  };

  async function sendToTwo(answers: Parameters<typeof replies>[0], ...names: string[]) {
    const port = await startScript(replies({ ...polite, ...answers }));
    const second = await startFarEnd({}, '127.0.0.2', port);
    const outcomes = await senderTo(port, { dns: dnsOf(zone) }).sendToAll(message(...names));
    return { codes: outcomes.map(codeOf), second: second.received.map(({ to }) => to) };
  }

  test('the next host gets those whom the first one deferred', async () => {
    const RCPT = byRecipient({ a: '450 later', b: '550 5.1.1 no such user', c: '450 later' });
    const { codes, second } = await sendToTwo({ RCPT }, 'a', 'b', 'c');
    assert.deepEqual(codes, ['delivered', 550, 'delivered']);
    assert.deepEqual(second, [['a@far.test', 'c@far.test']]);
  });

  test('none is tried after a host has the message, or may have it: that is written first', async () => {
    const RCPT = byRecipient({ b: '450 later' });
    const taken = await sendToTwo({ RCPT }, 'a', 'b');
    assert.deepEqual(taken, { codes: ['delivered', 450], second: [] });
    const MESSAGE = (socket: Socket) => socket.destroy();
    const unknown = await sendToTwo({ RCPT, MESSAGE }, 'a', 'b');
    assert.deepEqual(unknown, { codes: ['4.4.2', 450], second: [] });
  });

  test('not all are put off, whatever the hosts answer', async () => {
    // The first lacks SMTPUTF8 and breaks off; the second takes one recipient at a time, and breaks off as well.
    const breaksOff = { DATA: (socket: Socket) => socket.destroy() };
    const EHLO = '250-far.test\r\n250 8BITMIME';
    const port = await startScript((socket) => {
      const isFirst = socket.localAddress === '127.0.0.1';
      const own = isFirst ? { EHLO } : { RCPT: byRecipient({ b: '452 4.5.3 too many' }) };
      replies({ ...polite, ...breaksOff, ...own })(socket);
    }, '0.0.0.0');
    const outcomes = await senderTo(port, { dns: dnsOf(zone) }).sendToAll(message('ü', 'b'));
    assert.deepEqual(outcomes.map(codeOf), ['4.4.2', 'put off']);
  });
});
