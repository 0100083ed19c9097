/** The client's side of SMTP and LMTP, as dialogues: no socket, no clock. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import {
  type ClientOptions,
  type Conversation,
  type Envelope,
  greet,
  type RecipientResult,
  type ServerFacts,
  transact,
} from './protocol.ts';
import { type Reply, ReplyReader, SmtpFailure } from './text.ts';

function replyOf(text: string): Reply {
  const [reply] = new ReplyReader().read(Buffer.from(text.replaceAll('|', '\r\n').concat('\r\n')));
  assert.ok(reply, text);
  return reply;
}

/**
 * Runs a conversation by a script: `> ` what the client writes, `< ` what the server answers (`|` between lines),
 * `TLS` and `MESSAGE` what the connection does, `MESSAGE < ` what the server answers before the end of the message,
 * `BROKEN` where the connection fails.
 */
function follow<Result>(conversation: Conversation<Result>, script: readonly string[]): Result {
  const lines = [...script];
  const answer = (line: string) =>
    line.endsWith('BROKEN')
      ? conversation.throw(new SmtpFailure('the connection was closed'))
      : conversation.next(replyOf(line.replace(/^.*?< /, '')));
  let turn = conversation.next();
  while (!turn.done) {
    const step = turn.value;
    if (step.do === 'write') {
      for (const line of step.text.trimEnd().split('\r\n'))
        assert.equal(lines.shift(), `> ${line}`);
      turn = conversation.next();
      continue;
    }
    const line = lines.shift() ?? assert.fail(`the client waits: ${JSON.stringify(step)}`);
    if (step.do === 'secure') assert.equal(line, 'TLS');
    if (step.do === 'content') assert.match(line, /^MESSAGE/);
    turn = line === 'TLS' || line === 'MESSAGE' ? conversation.next() : answer(line);
  }
  assert.deepEqual(lines, [], 'the client is done');
  return turn.value;
}

const options: ClientOptions = { protocol: 'smtp', hostname: 'me.test', tls: 'none' };

suite('saying hello', () => {
  test('EHLO tells what the server can', () => {
    const { greeting, extensions } = follow(greet(options), [
      '< 220 far.test ESMTP',
      '> EHLO me.test',
      '< 250-far.test|250-size 1000|250-PIPELINING|250 AUTH PLAIN LOGIN',
    ]);
    assert.equal(greeting.text, 'far.test ESMTP');
    assert.deepEqual(
      [...extensions],
      [
        ['SIZE', '1000'],
        ['PIPELINING', ''],
        ['AUTH', 'PLAIN LOGIN'],
      ],
    );
  });

  test('HELO, where EHLO is not known; LMTP has no such fallback', () => {
    const script = [
      '< 220 far.test',
      '> EHLO me.test',
      '< 502 what?',
      '> HELO me.test',
      '< 250 hi',
    ];
    assert.equal(follow(greet(options), script).extensions.size, 0);
    assert.throws(
      () =>
        follow(greet({ ...options, protocol: 'lmtp' }), [
          '< 220 far.test',
          '> LHLO me.test',
          '< 500 what?',
        ]),
      (error) => error instanceof SmtpFailure && error.reply?.code === 500,
    );
  });

  test('everything from before TLS is ignored', () => {
    const { extensions } = follow(greet({ ...options, tls: 'offered' }), [
      '< 220 far.test',
      '> EHLO me.test',
      '< 250-far.test|250-STARTTLS|250 SMTPUTF8',
      '> STARTTLS',
      '< 220 go on',
      'TLS',
      '> EHLO me.test',
      '< 250-far.test|250 8BITMIME',
    ]);
    assert.deepEqual([...extensions.keys()], ['8BITMIME']);
  });

  test('TLS that is required and not offered ends it, and nothing more is sent', () => {
    const login = { user: 'ann', password: 'secret' };
    assert.throws(
      () =>
        follow(greet({ ...options, tls: 'required', login }), [
          '< 220 far.test',
          '> EHLO me.test',
          '< 250-far.test|250 AUTH PLAIN',
        ]),
      (error) => error instanceof SmtpFailure && error.during === 'tls' && !error.reply,
    );
  });

  test('TLS from the first byte comes before the greeting', () => {
    follow(greet({ ...options, tls: 'implicit' }), [
      'TLS',
      '< 220 far.test',
      '> EHLO me.test',
      '< 250 far.test',
    ]);
  });

  const login = { user: 'ann', password: 'p:ä' };
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const hello = (mechanisms: string) => [
    '< 220 far.test',
    '> EHLO me.test',
    `< 250-far.test|250 AUTH ${mechanisms}`,
  ];

  test('the login uses PLAIN where that is offered, else LOGIN', () => {
    follow(greet({ ...options, login }), [
      ...hello('LOGIN PLAIN'),
      `> AUTH PLAIN ${base64('\0ann\0p:ä')}`,
      '< 235 2.7.0 ok',
    ]);
    follow(greet({ ...options, login }), [
      ...hello('login'),
      '> AUTH LOGIN',
      '< 334 VXNlcm5hbWU6',
      `> ${base64('ann')}`,
      '< 334 UGFzc3dvcmQ6',
      `> ${base64('p:ä')}`,
      '< 235 2.7.0 ok',
    ]);
  });

  test('a failed login is reported without its credentials', () => {
    const failing = [
      [...hello('PLAIN'), `> AUTH PLAIN ${base64('\0ann\0p:ä')}`, '< 535 5.7.8 no'],
      [...hello('CRAM-MD5 XOAUTH2')],
    ];
    for (const script of failing) {
      assert.throws(
        () => follow(greet({ ...options, login }), script),
        (error) =>
          error instanceof SmtpFailure && error.during === 'login' && !/p:ä/.test(error.message),
      );
    }
  });
});

const facts = (...keywords: string[]): ServerFacts => ({
  greeting: { code: 220, text: '' },
  extensions: new Map(keywords.map((keyword) => [keyword, ''])),
});
const all = facts('PIPELINING', 'SIZE', '8BITMIME', 'SMTPUTF8');
const envelope: Envelope = {
  from: 'bob@b.test',
  to: ['ann@a.test', 'cal@a.test'],
  size: 10,
  eightBit: false,
  smtpUtf8: false,
};
const [ann, cal] = ['> RCPT TO:<ann@a.test>', '> RCPT TO:<cal@a.test>'];
const ok = '< 250 2.0.0 ok';

/** In short: the code of each recipient, or the failure, and the stage. */
function shown(results: readonly RecipientResult[]): string[] {
  return results.map((one) => `${'reply' in one ? one.reply.code : one.failure} ${one.stage}`);
}

suite('a transaction', () => {
  test('is pipelined where the server allows that', () => {
    const results = follow(transact('smtp', all, envelope), [
      '> MAIL FROM:<bob@b.test> SIZE=10',
      ann,
      cal,
      ok,
      ok,
      ok,
      '> DATA',
      '< 354 go',
      'MESSAGE',
      '< 250 2.0.0 queued',
    ]);
    assert.deepEqual(shown(results), ['250 sent', '250 sent']);
  });

  test('asks for the extensions that the message needs, where the server has them', () => {
    const needy = { ...envelope, to: ['ann@a.test'], eightBit: true };
    const rest = [ok, ann, ok, '> DATA', '< 354 go', 'MESSAGE', ok];
    const mail = '> MAIL FROM:<bob@b.test>';
    follow(transact('smtp', facts('8BITMIME', 'SMTPUTF8'), { ...needy, smtpUtf8: true }), [
      `${mail} BODY=8BITMIME SMTPUTF8`,
      ...rest,
    ]);
    follow(transact('smtp', facts(), needy), [mail, ...rest]);
  });

  test('by LMTP each accepted recipient has a reply of its own, in order', () => {
    const to = ['ann@a.test', 'no@a.test', 'cal@a.test'];
    const results = follow(transact('lmtp', facts(), { ...envelope, to }), [
      '> MAIL FROM:<bob@b.test>',
      ok,
      ann,
      ok,
      '> RCPT TO:<no@a.test>',
      '< 550 5.1.1 no',
      cal,
      ok,
      '> DATA',
      '< 354 go',
      'MESSAGE',
      '< 250 2.0.0 saved',
      '< 552 5.2.2 full',
    ]);
    assert.deepEqual(shown(results), ['250 sent', '550 envelope', '552 sent']);
  });

  test('that no recipient accepts ends before the message', () => {
    const mail = '> MAIL FROM:<bob@b.test>';
    assert.deepEqual(shown(follow(transact('smtp', facts(), envelope), [mail, '< 550 5.7.1 no'])), [
      '550 envelope',
      '550 envelope',
    ]);
    // Pipelined replies to RCPT still come, and add nothing.
    const piped = [mail, ann, cal, '< 451 4.3.0 later', '< 503 5.5.1 MAIL first', '< 250 odd'];
    assert.deepEqual(shown(follow(transact('smtp', facts('PIPELINING'), envelope), piped)), [
      '451 envelope',
      '451 envelope',
    ]);
    const script = [mail, ok, ann, '< 550 5.1.1 no', cal, '< 450 4.2.1 later'];
    assert.deepEqual(shown(follow(transact('smtp', facts(), envelope), script)), [
      '550 envelope',
      '450 envelope',
    ]);
  });

  const begun = ['> MAIL FROM:<bob@b.test>', ok, ann, ok, cal, '< 550 5.1.1 no', '> DATA'];
  for (const [what, rest, expected] of [
    ['DATA is refused', ['< 554 5.7.1 no'], '554 envelope'],
    ['DATA is answered in nonsense', ['< 250 ok'], 'the server answered DATA with 250 envelope'],
    ['it says no in the middle', ['< 354 go', 'MESSAGE < 552 5.3.4 no'], '552 content'],
    [
      'it says yes in the middle',
      ['< 354 go', 'MESSAGE < 250 thanks'],
      "the server answered 250 before the message's end content",
    ],
    [
      'it vanishes in the middle',
      ['< 354 go', 'MESSAGE BROKEN'],
      'the connection was closed content',
    ],
    [
      'it vanishes after the end',
      ['< 354 go', 'MESSAGE', 'BROKEN'],
      'the connection was closed sent',
    ],
  ] as const) {
    test(`${what}: a recipient that was refused before keeps its reply`, () => {
      const results = follow(transact('smtp', facts(), envelope), [...begun, ...rest]);
      assert.deepEqual(shown(results), [expected, '550 envelope']);
    });
  }

  test('whatever the server answers, each recipient has one result, and none is accepted without a 2xx', () => {
    const line = fc.oneof(
      fc.constantFrom('250 2.0.0 ok', '354 go', '550 5.1.1 no', '451 later', '421 bye', 'BROKEN'),
      fc.integer({ min: 200, max: 599 }).map(String),
    );
    fc.assert(
      fc.property(
        fc.array(line, { minLength: 12, maxLength: 12 }),
        fc.constantFrom('smtp', 'lmtp'),
        fc.boolean(),
        fc.integer({ min: 1, max: 4 }),
        fc.boolean(),
        (lines, protocol, isPipelined, count, speaksEarly) => {
          const to = Array.from({ length: count }, (_, n) => `r${n}@a.test`);
          const said = [...lines];
          const server = isPipelined ? facts('PIPELINING') : facts();
          const conversation = transact(protocol, server, { ...envelope, to });
          let accepted = 0;
          let turn = conversation.next();
          while (!turn.done) {
            const step = turn.value;
            const speaks = step.do === 'read' || (step.do === 'content' && speaksEarly);
            const text = speaks ? (said.shift() ?? 'BROKEN') : undefined;
            if (text === 'BROKEN') {
              turn = conversation.throw(new SmtpFailure('gone'));
            } else {
              if (step.do === 'read' && step.after === 'message' && text?.startsWith('2'))
                accepted++;
              turn = conversation.next(text === undefined ? undefined : replyOf(text));
            }
          }
          const results = turn.value;
          assert.equal(results.length, count);
          const taken = results.filter((one) => 'reply' in one && one.reply.code < 300);
          assert.ok(taken.every(({ stage }) => stage === 'sent'));
          if (protocol === 'lmtp') assert.equal(taken.length, accepted);
          else assert.ok(accepted === 0 ? taken.length === 0 : taken.length > 0);
        },
      ),
      { numRuns: 3_000 },
    );
  });
});
