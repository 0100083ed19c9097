/** LMTP with any server, and any message. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import {
  type Answer,
  polite,
  startLmtpServer,
  startScript,
} from '../../../test/support/lmtp-server.ts';
import { LineEnds } from '../../protocols/message/message.ts';
import { DotTransparency, stuffDots } from '../../protocols/smtp-client/text.ts';
import type { MailboxResult, ServerMail } from '../mailstore/mailstore.ts';
import { LmtpClient, type LmtpClientOptions, withLineEnds, withoutReturnPath } from './lmtp.ts';

/** The timeout where a server does not answer; the others allow for a busy machine. */
const FAST = { reply: 1_000, message: 1_000 };
const SOURCE = 'Subject: s\r\n\r\nHello.\r\n';

async function* chunksOf(source: string | Buffer, cut = 7): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(source);
  for (let at = 0; at < bytes.length; at += cut) yield bytes.subarray(at, at + cut);
}

function client(port: number, options: Partial<LmtpClientOptions> = {}): LmtpClient {
  const server = { host: '127.0.0.1', port };
  return new LmtpClient({ server, hostname: 'postroom.test', ...options });
}

function message(
  to: readonly string[],
  source = SOURCE,
  from = 'bob@sender.test',
): [ServerMail, readonly string[]] {
  return [{ from, size: Buffer.byteLength(source), open: () => chunksOf(source) }, to];
}

/** In short: the result of each recipient. */
function shown(results: readonly MailboxResult[]): string[] {
  return results.map((one) =>
    one.result === 'delivered'
      ? 'delivered'
      : `${one.result} ${one.error.status ?? one.error.text}`,
  );
}

async function deliver(
  port: number,
  to: readonly string[],
  options: Partial<LmtpClientOptions> = {},
): Promise<string[]> {
  const sender = client(port, options);
  const results = await sender.deliver(...message(to));
  sender.close();
  return shown(results);
}

const TWO = ['a@x.test', 'b@x.test'];

void suite('a message by LMTP', () => {
  test('reaches every recipient in one transaction, with the parameters the server knows', async () => {
    const server = await startLmtpServer();
    assert.deepEqual(await deliver(server.port, TWO), ['delivered', 'delivered']);
    assert.deepEqual(
      server.kept.map(({ to, from }) => [to, from]),
      TWO.map((to) => [to, 'bob@sender.test']),
    );
    assert.equal(server.counts.messages, 1);
    assert.equal(server.kept[0]?.source, SOURCE);
    const { SIZE, BODY, SMTPUTF8 } = server.kept[0]?.parameters ?? {};
    assert.deepEqual([SIZE, BODY, SMTPUTF8], [String(SOURCE.length), '8BITMIME', true]);
  });

  test('arrives unchanged, whatever its dots and line ends', async () => {
    const server = await startLmtpServer();
    const sender = client(server.port);
    for (const [source, expected] of [
      ['.\r\n..\r\n.a\r\n\r\n.\r\n', undefined],
      ['a\r\n.\r\nMAIL FROM:<x>\r\n', undefined],
      ['no end', 'no end\r\n'],
      ['bare\n.\nlf', 'bare\r\n.\r\nlf\r\n'],
      ['cr\r.\r', 'cr\r\n.\r\n'],
      ['\r\n.', '\r\n.\r\n'],
      ['', ''],
    ] as const) {
      await sender.deliver(...message(['a@x.test'], source));
      assert.equal(server.kept.at(-1)?.source, expected ?? source, JSON.stringify(source));
    }
    sender.close();
  });

  test('large ones are streamed to a slow reader', async () => {
    const server = await startLmtpServer();
    const line = `.${'x'.repeat(76)}\r\n`;
    const source = line.repeat(40_000);
    const sender = client(server.port);
    const [mail, to] = message(['a@x.test'], source);
    const large = { ...mail, open: () => chunksOf(source, 65_536) };
    assert.deepEqual(shown(await sender.deliver(large, to)), ['delivered']);
    sender.close();
    assert.equal(server.kept[0]?.source, source);
  });

  test('each recipient has an outcome of its own, at RCPT and after the message', async () => {
    const server = await startLmtpServer();
    server.atRcpt.set('gone@x.test', '550 5.1.1 no such user');
    server.atRcpt.set('busy@x.test', '451 4.3.0 later');
    server.atEnd.set('full@x.test', '552 5.2.2 quota exceeded');
    server.atEnd.set('slow@x.test', '452 4.2.2 not now');
    const to = ['gone@x.test', 'a@x.test', 'full@x.test', 'busy@x.test', 'slow@x.test', 'b@x.test'];
    const sender = client(server.port);
    const results = await sender.deliver(...message(to));
    assert.deepEqual(shown(results), [
      'permanent 550',
      'delivered',
      'permanent 552',
      'temporary 451',
      'temporary 452',
      'delivered',
    ]);
    assert.deepEqual(results[2], {
      result: 'permanent',
      error: { status: 552, enhancedStatus: '5.2.2', text: 'quota exceeded' },
    });
    // The connection can be used for the next message.
    assert.deepEqual(shown(await sender.deliver(...message(['a@x.test']))), ['delivered']);
    assert.equal(server.counts.connections, 1);
    sender.close();
  });

  test('no recipient is accepted: the message is not sent, and the connection is kept', async () => {
    const script = await startScript({ ...polite, RCPT: '550 5.1.1 no' });
    const sender = client(script.port);
    for (let round = 0; round < 2; round++) {
      const results = await sender.deliver(...message(TWO));
      assert.deepEqual(shown(results), ['permanent 550', 'permanent 550']);
    }
    sender.close();
    assert.equal(script.connections, 1);
    assert.equal(script.lines.includes('DATA'), false);
    assert.equal(script.lines.filter((line) => line === 'RSET').length, 2);
  });

  test('a message that Cyrus would put into the mailbox of another address is not sent', async () => {
    const to = ['a^b@x.test', 'a.b@x.test'];
    const mistaken = 'permanent the mail server takes "^" for a dot';
    const GREETING = '220 mail.test LMTP Cyrus 3.6.1-Debian ready';
    const cyrus = await startScript({ ...polite, GREETING });
    assert.deepEqual(await deliver(cyrus.port, to), [mistaken, 'delivered']);
    assert.deepEqual(await deliver(cyrus.port, ['a^b@x.test']), [mistaken]);
    assert.equal(cyrus.messages.length, 1);
    assert.ok(!cyrus.lines.some((line) => line.includes('a^b')));
    const other = await startScript(polite);
    assert.deepEqual(await deliver(other.port, to), ['delivered', 'delivered']);
  });

  test('a server without PIPELINING gets one command at a time', async () => {
    const script = await startScript({ ...polite, LHLO: '250 mail.test', MAIL: '250 ok' });
    assert.deepEqual(await deliver(script.port, TWO), ['delivered', 'delivered']);
    const refused = await startScript({ ...polite, LHLO: '250 mail.test', MAIL: '550 5.7.1 no' });
    assert.deepEqual(await deliver(refused.port, TWO), ['permanent 550', 'permanent 550']);
    assert.equal(
      refused.lines.some((line) => line.startsWith('RCPT')),
      false,
    );
  });

  test('too large by the SIZE that the server announces: nothing is sent', async () => {
    const script = await startScript({ ...polite, LHLO: '250-mail.test\r\n250 SIZE 10' });
    const results = await client(script.port).deliver(...message(['a@x.test']));
    assert.deepEqual(results[0]?.result, 'permanent');
    assert.equal(
      script.lines.some((line) => line.startsWith('MAIL')),
      false,
    );
  });

  test('a source that stalls is waited for until the end of the attempt', async () => {
    const server = await startLmtpServer();
    const stop = new AbortController();
    const stalls = async function* () {
      yield Buffer.from(SOURCE.slice(0, 5));
      stop.abort();
      await new Promise(() => {});
    };
    const [mail, to] = message(TWO);
    const sent = await client(server.port).deliver({ ...mail, open: stalls }, to, stop.signal);
    assert.deepEqual(
      sent.map(({ result }) => result),
      ['temporary', 'temporary'],
    );
    assert.equal(server.counts.messages, 0);
  });

  test('a source that breaks off never counts as a whole message', async () => {
    const script = await startScript(polite);
    async function* broken(): AsyncGenerator<Buffer> {
      yield Buffer.from('Subject: half\r\n\r\n');
      throw new Error('the disk is gone');
    }
    const [mail, to] = message(['a@x.test']);
    const sender = client(script.port);
    await assert.rejects(sender.deliver({ ...mail, open: broken }, to), /the disk is gone/);
    assert.deepEqual(script.messages, []);
    assert.deepEqual(shown(await sender.deliver(...message(['a@x.test']))), ['delivered']);
    sender.close();
  });
});

void suite('an LMTP server at fault', () => {
  const hangUp: Answer = (socket) => socket.destroy();
  const silent: Answer = () => {};
  const endless: Answer = (socket) => socket.write(`220 ${'x'.repeat(5_000)}`);
  const DOUBT = /after the whole message was sent: it may have been accepted$/;

  /** Those that end by the timeout. */
  const silentOnes = [
    'does not greet',
    'never answers the message',
    'answers the message with half a reply',
  ];

  for (const [title, answers, expected] of [
    ['is not there', undefined, /^temporary no connection to the mail server: ECONNREFUSED$/],
    ['does not greet', { GREETING: silent }, /^temporary the server did not answer in time$/],
    [
      'greets with 554',
      { GREETING: '554 5.3.2 closed' },
      /^temporary the server answered the connection with 554/,
    ],
    [
      'is an SMTP server',
      { LHLO: '500 5.5.1 what?' },
      /^temporary the server answered LHLO with 500/,
    ],
    [
      'speaks HTTP',
      { GREETING: 'HTTP/1.1 400 Bad Request' },
      /^temporary the server sent what is no/,
    ],
    [
      'talks without an end',
      { GREETING: endless },
      /^temporary the server sent a line without an end$/,
    ],
    [
      'hangs up at LHLO',
      { LHLO: hangUp },
      /^temporary (the server closed|the connection|ECONNRESET)/,
    ],
    [
      'hangs up at MAIL',
      { MAIL: hangUp },
      /^temporary (the server closed|the connection|ECONNRESET)/,
    ],
    ['closes at MAIL with 421', { MAIL: '421 4.3.2 going down' }, /^temporary 421$/],
    ['refuses the sender', { MAIL: '550 5.7.1 no' }, /^permanent 550$/],
    ['loses count at RCPT', { RCPT: '503 5.5.1 MAIL first' }, /^temporary 503$/],
    ['refuses DATA', { DATA: '554 5.3.4 too much' }, /^permanent 554$/],
    ['answers DATA with 250', { DATA: '250 2.0.0 ok' }, /^temporary the server answered DATA/],
    ['never answers the message', { END: silent }, DOUBT],
    ['hangs up after the message', { END: hangUp }, DOUBT],
    ['answers the message with nonsense', { END: 'ok' }, DOUBT],
    [
      'answers the message with half a reply',
      { END: (socket: import('node:net').Socket) => socket.write('250 2.0.0 sa') },
      DOUBT,
    ],
    ['answers the message with 354', { END: '354 more' }, /^temporary 354$/],
  ] as [string, Record<string, Answer> | undefined, RegExp][]) {
    test(`${title}`, async () => {
      const port = answers
        ? (await startScript({ ...polite, ...answers })).port
        : await closedPort();
      const options = silentOnes.includes(title) ? { timeouts: FAST } : {};
      const [result = '', ...others] = await deliver(port, ['a@x.test'], options);
      assert.match(result, expected);
      assert.deepEqual(others, []);
    });
  }

  test('hangs up between two replies: a recipient with a reply has the message', async () => {
    const script = await startScript({
      ...polite,
      END: (socket) => {
        socket.write('250 2.0.0 saved\r\n552 5.2.2 full\r\n', () => socket.destroy());
      },
    });
    const results = await deliver(script.port, ['a@x.test', 'b@x.test', 'c@x.test']);
    assert.deepEqual(results.slice(0, 2), ['delivered', 'permanent 552']);
    assert.match(results[2] ?? '', DOUBT);
  });

  test('stops answering between two replies', async () => {
    const script = await startScript({
      ...polite,
      END: (socket) => socket.write('250 2.0.0 saved\r\n'),
    });
    const [first, second = ''] = await deliver(script.port, TWO, {
      timeouts: FAST,
    });
    assert.equal(first, 'delivered');
    assert.match(second, DOUBT);
  });

  test('gives up in the middle of the message: its reply is returned, and it has nothing', async () => {
    const script = await startScript({
      ...polite,
      DATA: (socket) => socket.write('354 go on\r\n452 4.3.1 disk full\r\n'),
    });
    const [result = ''] = await deliver(script.port, ['a@x.test']);
    assert.equal(result, 'temporary 452');
  });

  test('sends an unexpected reply: the connection is not used again', async () => {
    const script = await startScript({ ...polite, END: '250 2.0.0 saved\r\n250 2.0.0 saved' });
    const sender = client(script.port);
    for (let round = 0; round < 3; round++) {
      assert.deepEqual(shown(await sender.deliver(...message(['a@x.test']))), ['delivered']);
    }
    assert.equal(script.connections, 3);
  });

  test('had closed the connection that was kept: another one is made', async () => {
    const first = await startLmtpServer();
    const sender = client(first.port);
    assert.deepEqual(shown(await sender.deliver(...message(['a@x.test']))), ['delivered']);
    await first.close();
    const second = await startLmtpServer({ port: first.port });
    assert.deepEqual(shown(await sender.deliver(...message(['b@x.test']))), ['delivered']);
    sender.close();
    assert.deepEqual([first.kept.length, second.kept.length], [1, 1]);
  });

  test('answers the next MAIL with 421, as one that was idle for too long', async () => {
    const leave: Answer = (socket) => socket.end('421 4.4.2 idle for too long\r\n');
    const script = await startScript({ ...polite, MAIL: ['250 ok', leave, '250 ok'] });
    const sender = client(script.port);
    for (let round = 0; round < 2; round++) {
      assert.deepEqual(shown(await sender.deliver(...message(['a@x.test']))), ['delivered']);
    }
    sender.close();
    assert.equal(script.messages.length, 2);
  });
});

void suite('connections to the LMTP server', () => {
  test('are left for others where a mailbox stalls, and where all of a domain do', async () => {
    let held = 0;
    let stalls = true;
    const server = await startScript({
      ...polite,
      MAIL: (socket) => (stalls ? void held++ : void socket.write('250 ok\r\n')),
    });
    const sender = client(server.port, { connections: 8 });
    const stop = new AbortController();
    const flood = ['a', 'a', 'a', 'b', 'b', 'b', 'c', 'c', 'c', 'd', 'd'].map((name) => {
      const [mail, to] = message([`${name}@stalled.test`]);
      return sender.deliver(mail, to, stop.signal);
    });
    // Two for each mailbox, six for the domain.
    while (held < 6) await new Promise((resolve) => setImmediate(resolve));
    stalls = false;
    assert.deepEqual(shown(await sender.deliver(...message(['a@x.test']))), ['delivered']);
    assert.equal(held, 6);
    stop.abort();
    await Promise.all(flood);
    sender.close();
  });

  test('are as many as allowed, used again, and closed at the end', async () => {
    const server = await startLmtpServer();
    const sender = client(server.port, { connections: 3 });
    const all = await Promise.all(
      Array.from({ length: 30 }, (_, index) => sender.deliver(...message([`a@x${index}.test`]))),
    );
    assert.deepEqual(new Set(all.flatMap(shown)), new Set(['delivered']));
    assert.equal(server.counts.connections, 3);
    sender.close();
    while (server.counts.open > 0) await new Promise((resolve) => setImmediate(resolve));
  });

  test('are waited for in order, within the time limit', async () => {
    const script = await startScript({ ...polite, END: () => {} });
    const sender = client(script.port, {
      connections: 1,
      timeouts: { whole: 1_000 },
    });
    const results = await Promise.all([1, 2].map(() => sender.deliver(...message(['a@x.test']))));
    assert.match(
      shown(results[0] ?? [])[0] ?? '',
      /the attempt took too long, after the whole message/,
    );
    assert.match(shown(results[1] ?? [])[0] ?? '', /was free in time$|the attempt took too long$/);
    assert.equal(script.messages.length, 1);
  });

  test('are ended by the caller of the attempt', async () => {
    const stop = new AbortController();
    const script = await startScript({ ...polite, MAIL: () => stop.abort() });
    const results = await client(script.port).deliver(...message(['a@x.test']), stop.signal);
    assert.deepEqual(shown(results), ['temporary the attempt was stopped']);
  });

  test('that are idle are closed after a while', async () => {
    const server = await startLmtpServer();
    const sender = client(server.port, { timeouts: { idle: 1 } });
    await sender.deliver(...message(['a@x.test']));
    while (server.counts.open > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  });
});

async function closedPort(): Promise<number> {
  const server = await startLmtpServer();
  await server.close();
  return server.port;
}

/* Any server, and any message. */

const bytes = (...units: string[]) =>
  fc
    .array(fc.constantFrom(...units), { maxLength: 60 })
    .map((parts) => Buffer.from(parts.join('')));

/** Chunks as a network may make them. */
const cuts = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 20 });

function* cut(source: Buffer, sizes: readonly number[]): Generator<Buffer> {
  for (let at = 0, turn = 0; at < source.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1;
    yield source.subarray(at, at + size);
    at += size;
  }
}

async function* cutLater(source: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer> {
  yield* cut(source, sizes);
}

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  return Buffer.concat(await Array.fromAsync(chunks)).toString('latin1');
}

function normalized(source: Buffer): string {
  const lineEnds = new LineEnds();
  return Buffer.concat([lineEnds.write(source), lineEnds.end()]).toString('latin1');
}

void suite('hostile bytes', () => {
  test('a message ends at its own end, and arrives unchanged', async () => {
    await fc.assert(
      fc.asyncProperty(
        bytes('.', '\r', '\n', '\r\n', '\r\n.', 'a'),
        cuts,
        async (source, sizes) => {
          const wire = await collect(stuffDots(withLineEnds(cutLater(source, sizes))));
          const taken = new DotTransparency().take(Buffer.from(`${wire}.\r\nQUIT`, 'latin1'));
          assert.equal(taken.rest?.toString(), 'QUIT');
          assert.equal(taken.content.toString('latin1'), normalized(source));
        },
      ),
      { numRuns: 2_000 },
    );
  });

  test('only the Return-Path line is removed, for all chunks', async () => {
    const rest = 'Received: here\r\nReturn-Path: <forged>\r\n\r\nHello.\r\n';
    for (const [source, expected] of [
      [`Return-Path: <bob@sender.test>\r\n${rest}`, rest],
      [rest, rest],
      ['Return-Path', 'Return-Path'],
      ['', ''],
    ] as const) {
      await fc.assert(
        fc.asyncProperty(cuts, async (sizes) => {
          const left = await collect(withoutReturnPath(cutLater(Buffer.from(source), sizes)));
          assert.equal(left, expected);
        }),
        { numRuns: 50 },
      );
    }
  });
});
