import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { before, suite, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { setDefaultCACertificates } from 'node:tls';
import { readCertificate } from '../../../test/support/certificate.ts';
import { freePort } from '../../../test/support/free-port.ts';
import {
  dnsOf,
  outgoing,
  polite,
  refusal,
  replies,
  senderTo,
  startFarEnd,
  startScript,
  type Zone,
} from '../../../test/support/outbound/far-end.ts';
import {
  MessageSender,
  type MessageSenderOptions,
  type SendOutcome,
  type Smarthost,
} from './outbound.ts';

const MESSAGE = 'From: a@acme.test\r\nSubject: hi\r\n\r\n.\r\n..\r\nBody\r\n';
const HOST = 'mx.far.test';

/** Result, codes and host, without the text. */
function codes(outcome: SendOutcome) {
  if (outcome.result === 'delivered') return [outcome.result];
  const { status, enhancedStatus } = outcome.error;
  return [outcome.result, status, enhancedStatus];
}

function textOf(outcome: SendOutcome): string {
  return outcome.result === 'delivered' ? outcome.detail : outcome.error.text;
}

/** Sends to a listener that follows a script: it accepts all except where the test overrides an answer. */
async function sendTo(
  answers: Parameters<typeof replies>[0],
  options: Partial<MessageSenderOptions> = {},
  source: string | Buffer = MESSAGE,
) {
  const port = await startScript(replies({ ...polite, ...answers }));
  return senderTo(port, options).sendMessage(outgoing(source));
}

suite('a message that is accepted', () => {
  test('arrives as it was, with its envelope and our name', async () => {
    const far = await startFarEnd({ size: 1_000 });
    const outcome = await senderTo(far.port).sendMessage(outgoing(MESSAGE));
    assert.deepEqual(outcome, {
      result: 'delivered',
      host: HOST,
      detail: '250 2.0.0 queued as 4711',
    });
    const [arrived] = far.received;
    assert.equal(arrived?.source.toString(), MESSAGE);
    assert.deepEqual([arrived?.from, arrived?.to], ['bob@acme.test', ['ann@far.test']]);
    assert.equal(arrived?.heloName, 'mail.postroom.test');
    assert.equal(arrived?.parameters.SIZE, String(MESSAGE.length));
  });

  test('may come from the null sender', async () => {
    const far = await startFarEnd();
    await senderTo(far.port).sendMessage({ ...outgoing(MESSAGE), from: '' });
    assert.equal(far.received[0]?.from, '');
  });

  test('goes to a domain outside ASCII by its A-label, without SMTPUTF8', async () => {
    const far = await startFarEnd();
    const outcome = await senderTo(far.port, {
      dns: dnsOf({ 'xn--bcher-kva.test': { A: ['127.0.0.1'] } }),
    }).sendMessage(outgoing(MESSAGE, 'ann@Bücher.test'));
    assert.equal(outcome.result, 'delivered');
    // smtp-server shows the U-label again.
    assert.equal(far.received[0]?.parameters.SMTPUTF8, undefined);
  });

  test('is sent after HELO where EHLO is unknown', async () => {
    const outcome = await sendTo({ EHLO: '502 what?', HELO: '250 far.test' });
    assert.deepEqual(codes(outcome), ['delivered']);
  });

  test('to a recipient that is not an address is refused at once', async () => {
    const outcome = await senderTo(1).sendMessage(outgoing(MESSAGE, 'nobody'));
    assert.deepEqual(codes(outcome), ['permanent', undefined, '5.1.3']);
  });

  test('from an address that no command can contain is refused', async () => {
    const far = await startFarEnd();
    const message = { ...outgoing(MESSAGE), from: '"a<b"@acme.test' };
    const outcome = await senderTo(far.port).sendMessage(message);
    // It is not a failure of the recipient.
    assert.deepEqual(codes(outcome), ['permanent', undefined, '5.1.7']);
  });
});

suite('STARTTLS', () => {
  test('is used where it is offered, with whatever certificate', async () => {
    const far = await startFarEnd({ disabledCommands: ['AUTH'] });
    assert.equal((await senderTo(far.port).sendMessage(outgoing(MESSAGE))).result, 'delivered');
    assert.equal(far.received[0]?.secure, true);
    assert.equal(far.connections.count, 1);
  });

  const broken: [what: string, answer: Parameters<typeof replies>[0][string]][] = [
    ['is refused', '454 4.7.0 no TLS today'],
    ['is followed by garbage', (socket) => socket.write('220 go\r\nthis is no TLS at all\r\n')],
    ['is followed by the end', (socket) => socket.end('220 go\r\n')],
    [
      'is followed by a reset',
      (socket) => socket.write('220 go\r\n', () => socket.resetAndDestroy()),
    ],
  ];
  // Only silence is ended by the clock.
  const endings = [
    ...broken.map((ending) => [...ending, {}] as const),
    ['is followed by nothing', '220 go', { reply: 2_000 }] as const,
  ];
  for (const [what, answer, timeouts] of endings) {
    test(`that ${what} is given up, and the mail is sent in plaintext`, async () => {
      let connections = 0;
      const outcome = await sendTo(
        {
          GREETING: (socket) => {
            connections++;
            socket.write('220 far.test\r\n');
          },
          EHLO: '250-far.test\r\n250-8BITMIME\r\n250 STARTTLS',
          STARTTLS: answer,
        },
        { timeouts },
      );
      assert.deepEqual([codes(outcome), connections], [['delivered'], 2]);
    });
  }
});

suite('SMTP extensions', () => {
  const utf8 = Buffer.from('From: a@acme.test\r\nSubject: ä\r\n\r\nhi\r\n');

  test('8BITMIME is asked for where there is something in 8 bits', async () => {
    const far = await startFarEnd();
    await senderTo(far.port).sendMessage({ ...outgoing(utf8), eightBit: true });
    assert.equal(far.received[0]?.parameters.BODY, '8BITMIME');
  });

  test('without 8BITMIME the message is sent unchanged', async () => {
    const seen: string[] = [];
    const port = await startScript((socket) => {
      socket.on('data', (chunk: Buffer) => seen.push(chunk.toString()));
      replies({ ...polite, EHLO: '250 far.test' })(socket);
    });
    const outcome = await senderTo(port).sendMessage({ ...outgoing(utf8), eightBit: true });
    assert.deepEqual(codes(outcome), ['delivered']);
    assert.match(seen.join(''), /^MAIL FROM:<bob@acme\.test>\r$/m);
    assert.match(seen.join(''), /^Subject: ä\r$/m);
  });

  test('SMTPUTF8 is asked for where the header needs it', async () => {
    const far = await startFarEnd();
    await senderTo(far.port).sendMessage({ ...outgoing(utf8), eightBit: true, smtpUtf8: true });
    assert.equal(far.received[0]?.parameters.SMTPUTF8, true);
    assert.equal(far.received[0]?.parameters.BODY, '8BITMIME');
  });

  test('SMTPUTF8 is asked for once where an address needs it, too', async () => {
    const seen: string[] = [];
    const port = await startScript((socket) => {
      socket.on('data', (chunk: Buffer) => seen.push(chunk.toString()));
      replies(polite)(socket);
    });
    await senderTo(port).sendMessage({ ...outgoing(utf8, 'юзер@far.test'), smtpUtf8: true });
    assert.match(seen.join(''), /^MAIL FROM:<bob@acme\.test> SIZE=\d+ SMTPUTF8\r$/m);
  });

  for (const [what, message, enhancedStatus] of [
    ['a header', { ...outgoing(utf8), smtpUtf8: true }, '5.6.9'],
    ['a recipient', outgoing(utf8, 'юзер@far.test'), '5.6.7'],
    ['a sender', { ...outgoing(utf8), from: 'юзер@acme.test' }, '5.6.7'],
  ] as const) {
    test(`without SMTPUTF8 ${what} outside ASCII is refused`, async () => {
      const port = await startScript(replies({ ...polite, EHLO: '250 far.test' }));
      const outcome = await senderTo(port).sendMessage(message);
      assert.deepEqual(codes(outcome), ['permanent', undefined, enhancedStatus]);
    });
  }

  test('a message larger than SIZE is not sent', async () => {
    const outcome = await sendTo({ EHLO: `250-far.test\r\n250 SIZE ${MESSAGE.length - 1}` });
    assert.deepEqual(codes(outcome), ['permanent', undefined, '5.3.4']);
    assert.deepEqual(codes(await sendTo({ EHLO: '250-far.test\r\n250 SIZE 0' })), ['delivered']);
    const fits = await sendTo({ EHLO: `250-far.test\r\n250 SIZE ${MESSAGE.length}` });
    assert.deepEqual(codes(fits), ['delivered']);
  });
});

suite('replies', () => {
  const cases: [what: string, answers: Parameters<typeof replies>[0], expected: unknown[]][] = [
    ['greylisting', { RCPT: '451 4.7.1 come back in 5 minutes' }, ['temporary', 451, '4.7.1']],
    ['an unknown user', { RCPT: '550 5.1.1 no such user' }, ['permanent', 550, '5.1.1']],
    ['a reply without an enhanced code', { RCPT: '550 go away' }, ['permanent', 550, '5.0.0']],
    ['a refused sender', { MAIL: '553 5.1.8 bad sender' }, ['permanent', 553, '5.1.8']],
    ['a full disk', { MAIL: '452 4.3.1 full' }, ['temporary', 452, '4.3.1']],
    ['a refused message', { MESSAGE: '554 5.7.1 spam' }, ['permanent', 554, '5.7.1']],
    ['a message put off', { MESSAGE: '451 4.3.0 later' }, ['temporary', 451, '4.3.0']],
    ['DATA refused', { DATA: '554 5.5.1 no' }, ['permanent', 554, '5.5.1']],
    ['421 in between', { RCPT: '421 4.3.2 shutting down' }, ['temporary', 421, '4.3.2']],
    ['commands out of order', { RCPT: '503 5.5.1 what?' }, ['temporary', 503, '5.5.1']],
    ['TLS demanded', { MAIL: '530 5.7.0 STARTTLS first' }, ['temporary', 530, '5.7.0']],
    [
      'a greeting that refuses',
      { GREETING: '554 5.7.1 you are listed' },
      ['permanent', 554, '5.7.1'],
    ],
    ['a busy host', { GREETING: '421 4.3.2 busy' }, ['temporary', 421, '4.3.2']],
    ['several lines', { RCPT: '550-5.7.1 one\r\n550 5.7.1 two' }, ['permanent', 550, '5.7.1']],
  ];
  for (const [what, answers, expected] of cases) {
    test(`${what}: ${expected.join(' ')}`, async () => {
      const outcome = await sendTo(answers);
      assert.deepEqual(codes(outcome), expected);
      assert.equal(outcome.result !== 'delivered' && outcome.error.host, HOST);
    });
  }

  test('with PIPELINING the reply is that to the recipient', async () => {
    const pipelining = '250-far.test\r\n250 PIPELINING';
    const cases: [string, string, unknown[]][] = [
      ['550 5.1.1 no such user', '554 5.5.1 no valid recipients', ['permanent', 550, '5.1.1']],
      ['451 4.7.1 later', '554 5.5.1 no valid recipients', ['temporary', 451, '4.7.1']],
      ['550 5.1.1 no such user', '354 go on', ['permanent', 550, '5.1.1']],
    ];
    for (const [RCPT, DATA, expected] of cases) {
      assert.deepEqual(codes(await sendTo({ EHLO: pipelining, RCPT, DATA })), expected);
    }
  });

  test('to RCPT are distinguished from those to the sender and the message', async () => {
    const cases: [answers: Parameters<typeof replies>[0], isToRcpt: boolean][] = [
      [{ RCPT: '550 5.1.1 no such user' }, true],
      [{ EHLO: '250-far.test\r\n250 PIPELINING', RCPT: '550 5.1.1 no such user' }, true],
      [{ MAIL: '550 5.1.1 who are you?' }, false],
      [{ DATA: '550 5.1.1 no' }, false],
      [{ MESSAGE: '550 5.1.1 no' }, false],
    ];
    for (const [answers, isToRcpt] of cases) {
      const outcome = await sendTo(answers);
      assert.equal(outcome.result, 'permanent');
      const said = outcome.result === 'permanent' && outcome.error.answers === 'recipient';
      assert.equal(said, isToRcpt, JSON.stringify(answers));
    }
  });

  test('of smtp-server mean the same', async () => {
    const far = await startFarEnd({
      onRcptTo: (address, _session, callback) =>
        callback(address.address.startsWith('ann') ? refusal(450, '4.2.1 greylisted') : null),
    });
    const sender = senderTo(far.port);
    const first = await sender.sendMessage(outgoing(MESSAGE));
    assert.deepEqual(codes(first), ['temporary', 450, '4.2.1']);
    const second = await sender.sendMessage(outgoing(MESSAGE, 'bob@far.test'));
    assert.deepEqual(codes(second), ['delivered']);
  });
});

suite('a far end that breaks off', () => {
  const quick = { timeouts: { reply: 500, message: 500 } };

  const endings: [what: string, answer: Parameters<typeof replies>[0][string]][] = [
    ['vanishes', (socket) => socket.destroy()],
    ['falls silent', () => {}],
    ['says half an answer', (socket) => socket.end('250 2.0')],
  ];
  for (const [what, answer] of endings) {
    test(`${what} after the message, before its answer: it may have been accepted`, async () => {
      const outcome = await sendTo({ MESSAGE: answer }, { timeouts: { message: 500 } });
      assert.deepEqual(codes(outcome), ['temporary', undefined, '4.4.2']);
      assert.match(textOf(outcome), /may have been accepted/);
    });
  }

  test('vanishes in the message', async () => {
    const outcome = await sendTo(
      { DATA: (socket) => socket.write('354 go on\r\n', () => socket.resetAndDestroy()) },
      quick,
      `From: a@b.test\r\n\r\n${'x'.repeat(5_000_000)}`,
    );
    assert.deepEqual(codes(outcome), ['temporary', undefined, '4.4.2']);
    assert.doesNotMatch(textOf(outcome), /may have been accepted/);
  });

  test('stops reading the message', async () => {
    const outcome = await sendTo(
      { DATA: (socket) => socket.pause().write('354 go on\r\n') },
      quick,
      `From: a@b.test\r\n\r\n${'x'.repeat(20_000_000)}`,
    );
    assert.deepEqual(codes(outcome), ['temporary', undefined, '4.4.2']);
  });

  const silent: [what: string, answers: Parameters<typeof replies>[0]][] = [
    ['never greets', { GREETING: () => {} }],
    ['hangs up before its greeting', { GREETING: (socket) => socket.end() }],
    ['greets with garbage', { GREETING: 'HTTP/1.1 400 Bad Request' }],
    ['never answers EHLO', { EHLO: () => {} }],
    ['never answers RCPT', { RCPT: () => {} }],
    ['hangs up at RCPT', { RCPT: (socket) => socket.end() }],
    ['says half a reply and hangs up', { RCPT: (socket) => socket.end('550 5.1.1 no su') }],
    ['answers in nonsense', { RCPT: 'yes' }],
    [
      'sends a line without end',
      { RCPT: (socket) => socket.write(`250 ${'x'.repeat(1_000_000)}`) },
    ],
    ['sends a reply without end', { RCPT: (socket) => socket.write('250-x\r\n'.repeat(100_000)) }],
  ];
  for (const [what, answers] of silent) {
    test(`${what}: temporary`, async () => {
      const outcome = await sendTo(answers, quick);
      assert.equal(outcome.result, 'temporary', JSON.stringify(outcome));
    });
  }

  /**
   * A slot for which others wait, or nobody.
   *
   * @param isReached ends when the host has the connection, where it is not ended before that
   */
  const slotOf = (isWanted: boolean, entered: string[] = [], isReached = async () => {}) => ({
    isWanted,
    enter: (address: string) => void entered.push(address),
    whenWanted: (end: () => void) => {
      if (isWanted) void isReached().then(end);
      return () => {};
    },
  });
  const patience = { handover: 100, answer: 100 };
  const impatient = { timeouts: { patience, reply: 2_000, whole: 10_000 } };
  const deaf = { GREETING: () => {} };

  test('never greets, and others wait: it ends early, after two hosts of many', async () => {
    const connections: Socket[] = [];
    const port = await startScript((socket) => connections.push(socket));
    const names = ['one.far.test', 'two.far.test', 'three.far.test'];
    const zone = Object.fromEntries(names.map((name) => [name, { A: ['127.0.0.1'] }]));
    const dns = dnsOf({ 'far.test': { MX: names.map((name) => `10 ${name}`) }, ...zone });
    const entered: string[] = [];
    // On a busy machine the time of a silent host may be over before the connection is made.
    const isReached = async () => {
      while (connections.length < entered.length) await setImmediate();
      // The host may know of it a turn before us.
      await setImmediate();
      await setImmediate();
    };
    const message = { ...outgoing(MESSAGE), slot: slotOf(true, entered, isReached) };
    const times = { timeouts: { patience } };
    const outcome = await senderTo(port, { ...times, dns }).sendMessage(message);
    assert.deepEqual(codes(outcome), ['temporary', undefined, '4.4.2']);
    assert.match(textOf(outcome), /took too long, and other mail waited/);
    assert.deepEqual([connections.length, entered], [2, ['127.0.0.1', '127.0.0.1']]);
  });

  test('never greets, and nobody waits: it has the time of RFC 5321', async () => {
    const port = await startScript(replies(deaf));
    const message = { ...outgoing(MESSAGE), slot: slotOf(false) };
    const outcome = await senderTo(port, impatient).sendMessage(message);
    assert.match(textOf(outcome), /did not answer in time/);
  });

  /** Answers in lines that never end. */
  const drip = (socket: Socket) => {
    const timer = setInterval(() => socket.write('250-wait\r\n'), 20);
    socket.on('close', () => clearInterval(timer));
  };
  const stages: [stage: string, answers: Parameters<typeof replies>[0], text: RegExp][] = [
    ['EHLO', { EHLO: drip }, /^the server took too long, and other mail waited$/],
    ['RCPT', { RCPT: drip }, /^the server took too long, and other mail waited$/],
    ['DATA', { DATA: drip }, /^the server took too long, and other mail waited$/],
    ['the message', { MESSAGE: drip }, /other mail waited, after the whole message was sent/],
  ];
  for (const [stage, answers, text] of stages) {
    test(`has answered before, drips its answer to ${stage}, and others wait: it ends early`, async () => {
      let count = 0;
      const port = await startScript((socket) =>
        replies(count++ === 0 ? polite : { ...polite, ...answers })(socket),
      );
      const sender = senderTo(port, { timeouts: { patience } });
      const message = (isWanted: boolean) => ({ ...outgoing(MESSAGE), slot: slotOf(isWanted) });
      assert.equal((await sender.sendMessage(message(false))).result, 'delivered');
      assert.match(textOf(await sender.sendMessage(message(true))), text);
    });
  }

  test('greets late, and others wait: the message still gets there', async () => {
    const port = await startScript((socket) => {
      setTimeout(() => replies(polite)(socket), 50);
    });
    const message = { ...outgoing(MESSAGE), slot: slotOf(true) };
    assert.equal((await senderTo(port).sendMessage(message)).result, 'delivered');
  });

  test('is full: what its slot throws ends the attempt before a connection', async () => {
    let connections = 0;
    const port = await startScript(() => connections++);
    const full = new Error('full');
    const enter = () => {
      throw full;
    };
    const message = { ...outgoing(MESSAGE), slot: { ...slotOf(true), enter } };
    await assert.rejects(senderTo(port).sendMessage(message), full);
    assert.equal(connections, 0);
  });

  test('sends one byte at a time: the attempt still ends', async () => {
    const outcome = await sendTo(
      {
        RCPT: (socket) => {
          const timer = setInterval(() => socket.write('2'), 20);
          socket.on('close', () => clearInterval(timer));
        },
      },
      { timeouts: { whole: 1_000 } },
    );
    assert.deepEqual(codes(outcome), ['temporary', undefined, '4.4.2']);
    assert.match(textOf(outcome), /took too long/);
  });

  test('does not exist', async () => {
    const outcome = await senderTo(await freePort()).sendMessage(outgoing(MESSAGE));
    assert.deepEqual(codes(outcome), ['temporary', undefined, '4.4.1']);
    assert.match(textOf(outcome), /ECONNREFUSED/);
  });

  test('gets no answer of DNS: the attempt still ends', async () => {
    const never = () => new Promise<never>(() => {});
    const outcome = await senderTo(1, {
      dns: { lookup: never },
      timeouts: { whole: 50 },
    }).sendMessage(outgoing(MESSAGE));
    assert.deepEqual(codes(outcome), ['temporary', undefined, '4.4.2']);
  });
});

suite('several hosts', () => {
  const zone: Zone = {
    'far.test': { MX: ['10 mx.far.test', '20 second.far.test', '30 third.far.test'] },
    'mx.far.test': { A: ['127.0.0.1'] },
    'second.far.test': { A: ['127.0.0.2'] },
    'third.far.test': { A: ['127.0.0.3'] },
  };

  /** Starts a far end that accepts mail on each address, and one that follows the script on the first. */
  async function startHosts(answers: Parameters<typeof replies>[0]) {
    const port = await startScript(replies({ ...polite, ...answers }));
    const second = await startFarEnd({}, '127.0.0.2', port);
    return { port, second };
  }

  const next: [what: string, answers: Parameters<typeof replies>[0]][] = [
    ['refuses to talk', { GREETING: '554 5.7.1 no' }],
    ['hangs up', { GREETING: (socket) => socket.destroy() }],
    ['puts the message off', { RCPT: '452 4.3.1 full' }],
    ['breaks off before the message', { RCPT: (socket) => socket.destroy() }],
    ['has no room', { EHLO: '250-far.test\r\n250 SIZE 10' }],
  ];
  for (const [what, answers] of next) {
    test(`the next is tried where the first ${what}`, async () => {
      const { port, second } = await startHosts(answers);
      const outcome = await senderTo(port, { dns: dnsOf(zone) }).sendMessage(outgoing(MESSAGE));
      assert.equal(outcome.result === 'delivered' && outcome.host, 'second.far.test');
      assert.equal(second.received.length, 1);
    });
  }

  const last: [what: string, answers: Parameters<typeof replies>[0]][] = [
    ['refuses the message', { RCPT: '550 5.1.1 no such user' }],
    ['may have the message', { MESSAGE: (socket) => socket.destroy() }],
  ];
  for (const [what, answers] of last) {
    test(`no other is tried where the first ${what}`, async () => {
      const { port, second } = await startHosts(answers);
      const outcome = await senderTo(port, { dns: dnsOf(zone) }).sendMessage(outgoing(MESSAGE));
      assert.notEqual(outcome.result, 'delivered');
      assert.equal(second.connections.count, 0);
    });
  }

  test('two that defer the message are enough', async () => {
    const port = await startScript(replies({ ...polite, RCPT: '451 4.7.1 later' }));
    const later = {
      onRcptTo: (_a: unknown, _s: unknown, done: (error: Error) => void) =>
        done(refusal(452, 'full')),
    };
    await startFarEnd(later, '127.0.0.2', port);
    const third = await startFarEnd({}, '127.0.0.3', port);
    const outcome = await senderTo(port, { dns: dnsOf(zone) }).sendMessage(outgoing(MESSAGE));
    assert.deepEqual(codes(outcome), ['temporary', 451, '4.7.1']);
    assert.equal(third.connections.count, 0);
  });

  test('every address of a host is tried', async () => {
    const port = await freePort();
    const far = await startFarEnd({}, '127.0.0.2', port);
    const dns = dnsOf({ 'far.test': { A: ['127.0.0.1', '127.0.0.2', '127.0.0.3'] } });
    const outcome = await senderTo(port, { dns }).sendMessage(outgoing(MESSAGE));
    assert.equal(outcome.result, 'delivered');
    assert.equal(far.received.length, 1);
  });

  test('a host without an answer of DNS makes it temporary, one without an address does not', async () => {
    const MX = ['10 mx.far.test', '20 second.far.test'];
    const silent = dnsOf({ 'far.test': { MX }, 'mx.far.test': { A: '!' } });
    const one = await senderTo(1, { dns: silent }).sendMessage(outgoing(MESSAGE));
    assert.deepEqual(codes(one), ['temporary', undefined, '4.4.3']);
    const none = await senderTo(1, { dns: dnsOf({ 'far.test': { MX } }) }).sendMessage(
      outgoing(MESSAGE),
    );
    assert.deepEqual(codes(none), ['permanent', undefined, '5.4.4']);
  });

  test('no more than ten connections are tried', async () => {
    let connections = 0;
    const port = await startScript((socket) => {
      connections++;
      socket.destroy();
    });
    const A = Array.from({ length: 9 }, () => '127.0.0.1');
    const dns = dnsOf({
      'far.test': { MX: ['1 a.test', '2 b.test'] },
      'a.test': { A },
      'b.test': { A },
    });
    const outcome = await senderTo(port, { dns }).sendMessage(outgoing(MESSAGE));
    assert.deepEqual([outcome.result, connections], ['temporary', 10]);
  });
});

suite('addresses that are refused', () => {
  test('are not connected to', async () => {
    const far = await startFarEnd();
    const sender = senderTo(far.port, { isAllowedAddress: () => false });
    const outcome = await sender.sendMessage(outgoing(MESSAGE));
    assert.deepEqual(codes(outcome), ['permanent', undefined, '5.4.4']);
    assert.match(textOf(outcome), /127\.0\.0\.1/);
    assert.equal(far.connections.count, 0);
  });

  test('do not keep the others from being tried', async () => {
    const port = await freePort();
    const first = await startFarEnd({}, '127.0.0.1', port);
    const second = await startFarEnd({}, '127.0.0.2', port);
    const dns = dnsOf({ 'far.test': { A: ['127.0.0.1', '127.0.0.2'] } });
    const isAllowedAddress = (address: string) => address !== '127.0.0.1';
    const outcome = await senderTo(port, { dns, isAllowedAddress }).sendMessage(outgoing(MESSAGE));
    assert.equal(outcome.result, 'delivered');
    assert.deepEqual([first.connections.count, second.connections.count], [0, 1]);
  });

  test('names are not looked up again: the checked address is the one that is connected to', async () => {
    const far = await startFarEnd();
    let asked = 0;
    const rebinding: MessageSenderOptions['dns'] = {
      lookup(name, type) {
        if (type === 'A') asked++;
        const address = asked === 1 ? '127.0.0.1' : '127.0.0.9';
        return dnsOf({ 'far.test': { A: [address] } }).lookup(name, type);
      },
    };
    await senderTo(far.port, { dns: rebinding }).sendMessage(outgoing(MESSAGE));
    assert.deepEqual([asked, far.received.length], [1, 1]);
  });
});

suite('limits', () => {
  test('limited sessions at a time, the others wait', async () => {
    let now = 0;
    let most = 0;
    const far = await startFarEnd({
      onMailFrom: (_address, _session, callback) => {
        most = Math.max(most, ++now);
        setTimeout(callback, 20);
      },
      onRcptTo: (_address, _session, callback) => {
        now--;
        callback();
      },
    });
    const sender = senderTo(far.port, { maxSessions: 3 });
    const outcomes = await Promise.all(
      Array.from({ length: 12 }, () => sender.sendMessage(outgoing(MESSAGE))),
    );
    assert.ok(outcomes.every(({ result }) => result === 'delivered'));
    assert.ok(most <= 3, `${most} at a time`);
  });

  test('waiting too long counts as an attempt', async () => {
    const port = await startScript(replies({ ...polite, GREETING: () => {} }));
    const sender = senderTo(port, { maxSessions: 1, timeouts: { whole: 100 } });
    const outcomes = await Promise.all([1, 2, 3].map(() => sender.sendMessage(outgoing(MESSAGE))));
    assert.deepEqual(outcomes.map(codes), Array(3).fill(['temporary', undefined, '4.4.2']));
  });

  test('a stop ends sessions under way, and waiting ones', async () => {
    const started = Promise.withResolvers<void>();
    const port = await startScript(replies({ ...polite, RCPT: () => started.resolve() }));
    const sender = senderTo(port, { maxSessions: 1 });
    const stop = new AbortController();
    const sending = [1, 2].map(() => sender.sendMessage(outgoing(MESSAGE), stop.signal));
    await started.promise;
    stop.abort();
    const outcomes = await Promise.all(sending);
    assert.deepEqual(outcomes.map(codes), Array(2).fill(['temporary', undefined, '4.4.2']));
    assert.match(textOf(outcomes[0] ?? assert.fail()), /was stopped/);
  });

  test('a source that fails is not the far end’s fault: it throws, and the slot is free again', async () => {
    const far = await startFarEnd();
    const sender = senderTo(far.port, { maxSessions: 1 });
    const open = async function* () {
      yield Buffer.from('From: a@b.test\r\n');
      await setImmediate();
      throw new Error('the disk is gone');
    };
    const attempt = sender.sendMessage({ ...outgoing(MESSAGE), open });
    await assert.rejects(attempt, { message: 'the disk is gone' });
    assert.equal(far.received.length, 0);
    assert.equal((await sender.sendMessage(outgoing(MESSAGE))).result, 'delivered');
  });

  test('a source is closed when the message is refused', async () => {
    let closed = false;
    const open = async function* () {
      try {
        for (;;) yield Buffer.alloc(100_000, 'x');
      } finally {
        closed = true;
      }
    };
    const port = await startScript(
      replies({ ...polite, DATA: (socket) => socket.write('354 go\r\n552 5.3.4 too much\r\n') }),
    );
    const outcome = await senderTo(port).sendMessage({ ...outgoing(MESSAGE), open });
    assert.deepEqual(codes(outcome), ['permanent', 552, '5.3.4']);
    assert.equal(closed, true);
  });
});

suite('domains of our own', () => {
  test('are reached at our own listener, without DNS', async () => {
    const own = await startFarEnd();
    const sender = new MessageSender({
      hostname: 'mail.postroom.test',
      dns: dnsOf({}),
      isAllowedAddress: () => false,
      ownListener: {
        host: '127.0.0.1',
        port: own.port,
        hosts: async (domain) => domain === 'b.test',
      },
    });
    const outcome = await sender.sendMessage(outgoing(MESSAGE, 'info@B.test'));
    assert.equal(outcome.result === 'delivered' && outcome.host, 'mail.postroom.test');
    assert.deepEqual(codes(await sender.sendMessage(outgoing(MESSAGE))), [
      'permanent',
      undefined,
      '5.1.2',
    ]);
  });

  test('get no more sessions at a time than the listener accepts of one client', async () => {
    const far = await startFarEnd({ maxClients: 50 });
    const sender = new MessageSender({
      hostname: 'mail.postroom.test',
      dns: dnsOf({}),
      isAllowedAddress: () => false,
      ownListener: { host: '127.0.0.1', port: far.port, hosts: async () => true },
    });
    const outcomes = await Promise.all(
      Array.from({ length: 150 }, () => sender.sendMessage(outgoing(MESSAGE))),
    );
    assert.ok(outcomes.every(({ result }) => result === 'delivered'));
  });
});

const SHORT_MESSAGE = 'From: a@acme.test\r\nSubject: hi\r\n\r\nBody\r\n';
const login = { user: 'postroom', password: 'p:ä"ss' };

/** Certificates for localhost: one from an authority that is trusted in this process, one not. */
const [trusted, stranger] = [readCertificate('one'), readCertificate('other')];

before(() => setDefaultCACertificates([trusted.cert]));

function senderBy(smarthost: Partial<Smarthost>, options: Partial<MessageSenderOptions> = {}) {
  return new MessageSender({
    hostname: 'mail.postroom.test',
    dns: dnsOf({}),
    isAllowedAddress: () => false,
    smarthost: { host: 'localhost', port: 0, implicitTls: false, login: undefined, ...smarthost },
    ...options,
  });
}

const checksLogin = {
  authOptional: false,
  disabledCommands: [],
  onAuth(
    { username, password }: { username?: string | undefined; password?: string | null | undefined },
    _session: unknown,
    callback: (error: Error | null | undefined, response?: { user: string }) => void,
  ) {
    if (username === login.user && password === login.password)
      callback(null, { user: 'postroom' });
    else callback(Object.assign(new Error('5.7.8 bad login'), { responseCode: 535 }));
  },
};

suite('a smarthost', () => {
  test('accepts mail without DNS and without a check of its address', async () => {
    const far = await startFarEnd();
    const outcome = await senderBy({ port: far.port }).sendMessage(outgoing(SHORT_MESSAGE));
    assert.deepEqual(outcome, {
      result: 'delivered',
      host: 'localhost',
      detail: '250 2.0.0 queued as 4711',
    });
    assert.equal(far.received[0]?.secure, false);
  });

  test('is used with STARTTLS where it offers that, and its certificate is verified', async () => {
    const far = await startFarEnd({ disabledCommands: ['AUTH'], ...trusted });
    const outcome = await senderBy({ port: far.port }).sendMessage(outgoing(SHORT_MESSAGE));
    assert.equal(outcome.result, 'delivered', JSON.stringify(outcome));
    assert.equal(far.received[0]?.secure, true);
  });

  test('gets the login over STARTTLS', async () => {
    const far = await startFarEnd({ ...checksLogin, ...trusted });
    const outcome = await senderBy({ port: far.port, login }).sendMessage(outgoing(SHORT_MESSAGE));
    assert.equal(outcome.result, 'delivered', JSON.stringify(outcome));
  });

  test('gets the login over TLS from the first byte', async () => {
    const far = await startFarEnd({ ...checksLogin, ...trusted, secure: true });
    const sender = senderBy({ port: far.port, login, implicitTls: true });
    const outcome = await sender.sendMessage(outgoing(SHORT_MESSAGE));
    assert.equal(outcome.result, 'delivered', JSON.stringify(outcome));
    assert.equal(far.received[0]?.secure, true);
  });

  for (const implicitTls of [false, true]) {
    test(`with an untrusted certificate gets nothing${implicitTls ? ', from the first byte' : ''}`, async () => {
      const disabledCommands = implicitTls ? ['AUTH', 'STARTTLS'] : ['AUTH'];
      const far = await startFarEnd({ disabledCommands, ...stranger, secure: implicitTls });
      const outcome = await senderBy({ port: far.port, implicitTls }).sendMessage(
        outgoing(SHORT_MESSAGE),
      );
      assert.equal(outcome.result, 'temporary');
      assert.match(outcome.error.text, /certificate/);
      assert.deepEqual([far.received.length, far.connections.count <= 1], [0, true]);
    });
  }

  test('without STARTTLS never sees the password', async () => {
    const said: string[] = [];
    const port = await startScript((socket) => {
      socket.on('data', (chunk: Buffer) => said.push(chunk.toString()));
      replies({ ...polite, EHLO: '250-far\r\n250 AUTH PLAIN LOGIN', STARTTLS: '502 what?' })(
        socket,
      );
    });
    const outcome = await senderBy({ port, login }).sendMessage(outgoing(SHORT_MESSAGE));
    assert.equal(outcome.result, 'temporary');
    assert.doesNotMatch(said.join(''), /AUTH/);
  });

  test('that does not accept the login needs the operator', async () => {
    const far = await startFarEnd({ ...checksLogin, ...trusted });
    const wrong = { user: 'postroom', password: 'wrong' };
    const faults: (string | undefined)[] = [];
    const onSmarthost = (fault: string | undefined) => faults.push(fault);
    const outcome = await senderBy({ port: far.port, login: wrong }, { onSmarthost }).sendMessage(
      outgoing(SHORT_MESSAGE),
    );
    assert.equal(outcome.result, 'temporary');
    assert.equal(outcome.error.status, 535);
    assert.doesNotMatch(outcome.error.text, /wrong/);
    // The receiver did not say it.
    assert.match(outcome.error.text, / \(our mail relay\)$/);
    await senderBy({ port: far.port, login }, { onSmarthost }).sendMessage(outgoing(SHORT_MESSAGE));
    assert.match(faults[0] ?? '', /^535 .*bad login/);
    assert.deepEqual(faults.slice(1), [undefined]);
  });

  const answers: [what: string, answers: Parameters<typeof replies>[0], expected: string][] = [
    ['wants a login', { MAIL: '530 5.7.0 authentication required' }, 'temporary'],
    ['refuses to talk', { GREETING: '554 5.7.1 not you' }, 'temporary'],
    ['refuses the recipient', { RCPT: '550 5.1.1 no such user' }, 'permanent'],
    ['is busy', { RCPT: '451 4.3.0 later' }, 'temporary'],
    ['has no room for it', { EHLO: '250-far\r\n250 SIZE 10' }, 'permanent'],
  ];
  for (const [what, script, expected] of answers) {
    test(`that ${what}: ${expected}`, async () => {
      const port = await startScript(replies({ ...polite, ...script }));
      let isOpened = false;
      const onSmarthost = (fault: string | undefined) => {
        isOpened = fault === undefined;
      };
      const sender = senderBy({ port }, { onSmarthost });
      const outcome = await sender.sendMessage(outgoing(SHORT_MESSAGE));
      assert.equal(outcome.result, expected);
      assert.equal(isOpened, !('GREETING' in script), 'an answer to the message is none to us');
    });
  }
});
