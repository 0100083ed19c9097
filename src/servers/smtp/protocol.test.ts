/** The protocol without sockets: cases that a plain dialogue in dialogues/ cannot express. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { reply } from './commands.ts';
import { ServerProtocol } from './protocol.ts';
import type { ProtocolOptions } from './protocol-events.ts';

const OPTIONS: ProtocolOptions = {
  hostname: 'mail.test',
  protocol: 'smtp',
  maxMessageBytes: 1_000_000,
  recipientsMax: 3,
  errorsMax: 5,
  commandsMax: 30,
};

/** Answers events as an owner for whom some recipients and messages fail, and records everything. */
class Owner {
  readonly protocol: ServerProtocol;
  /** Events and replies in order; the parts of a message joined. */
  readonly log: string[] = [];
  #content = '';

  constructor(options: Partial<ProtocolOptions> = {}) {
    this.protocol = new ServerProtocol({ ...OPTIONS, ...options });
    this.protocol.greet();
    this.#note();
  }

  receive(text: string): void {
    this.protocol.receive(Buffer.from(text, 'latin1'));
    for (let event = this.protocol.next(); event; event = this.protocol.next()) {
      this.#note();
      if (event.kind === 'content') {
        this.#content += event.bytes.toString('latin1');
        if (!event.isLast) continue;
        this.log.push(`message ${JSON.stringify(this.#content)}`);
        const isBad = this.#content.includes('bad');
        this.protocol.finish(() =>
          isBad ? reply(554, '5.6.0', 'Bad') : reply(250, '2.0.0', 'Ok'),
        );
        this.#content = '';
      } else if (event.kind === 'starttls') {
        this.log.push('starttls');
        this.protocol.secured('TLS');
      } else {
        this.log.push(JSON.stringify(event));
        const isBad = event.kind === 'recipient' && event.recipient.startsWith('bad');
        this.protocol.answer(isBad ? reply(550, '5.1.1', 'Bad') : undefined);
      }
      this.#note();
    }
    this.#note();
  }

  #note(): void {
    const said = this.protocol.takeOutput();
    if (said !== '') this.log.push(said);
  }

  /** What the client saw and what the owner was asked, no matter which replies came together. */
  get all(): string {
    return this.log.join('');
  }
}

const SEND = 'MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\n';

test('the same bytes mean the same, however the network splits them', () => {
  const piece = fc.constantFrom(
    ...[
      'EHLO a\r\n',
      'HELO a\r\n',
      'LHLO a\r\n',
      SEND,
      'MAIL FROM:<a@b.test> SIZE=9\r\n',
      'RSET\r\n',
    ],
    ...['RCPT TO:<bad@d.test>\r\n', 'RCPT TO:<c@d.test>\r\n', 'DATA\r\n', 'NOOP\r\n', 'QUIT\r\n'],
    ...['\r\n.\r\n', '\r\n', '\r', '\n', '.', '..', 'bad', 'x', '\0', ' ', 'é', 'x'.repeat(3000)],
  );
  const wires = fc.array(
    fc.oneof(
      { weight: 3, arbitrary: fc.constant(`${SEND}hi\r\n.\r\n`) },
      { weight: 9, arbitrary: piece },
    ),
    { maxLength: 25 },
  );
  fc.assert(
    fc.property(
      wires.map((pieces) => `EHLO a\r\n${pieces.join('')}`),
      fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 400 }),
      fc.constantFrom<'smtp' | 'lmtp'>('smtp', 'lmtp'),
      (wire, steps, protocol) => {
        const text = protocol === 'lmtp' ? wire.replaceAll('EHLO', 'LHLO') : wire;
        const [whole, cut] = [new Owner({ protocol }), new Owner({ protocol })];
        whole.receive(text);
        let at = 0;
        for (const step of [...steps, text.length]) {
          cut.receive(text.slice(at, at + step));
          at += step;
        }
        assert.equal(cut.all, whole.all);
        assert.equal(cut.protocol.isOver, whole.protocol.isOver);
      },
    ),
    { numRuns: 2_000 },
  );
});

test('after a question nothing is said or done until it is answered', () => {
  const protocol = new ServerProtocol(OPTIONS);
  protocol.receive(Buffer.from(`EHLO a\r\n${SEND}hello\r\n.\r\nQUIT\r\n`));
  const kinds: string[] = [];
  for (let event = protocol.next(); event; event = protocol.next()) {
    kinds.push(event.kind);
    protocol.takeOutput();
    assert.equal(protocol.next(), undefined);
    assert.equal(protocol.takeOutput(), '');
    if (event.kind === 'content') protocol.finish(() => reply(250, '2.0.0', 'Ok'));
    else protocol.answer();
  }
  assert.deepEqual(kinds, ['mail', 'recipient', 'data', 'content']);
  assert.equal(protocol.takeOutput(), '250 2.0.0 Ok\r\n221 2.0.0 Bye\r\n');
  assert.throws(() => new ServerProtocol(OPTIONS).answer(), /nothing was asked/);
});

test('plaintext after STARTTLS is dropped, whenever it came', () => {
  const protocol = new ServerProtocol(OPTIONS);
  protocol.receive(Buffer.from('EHLO a\r\nMAIL FROM:<a@b.test>\r\nSTARTTLS\r\nRSET\r\nEHLO ev'));
  assert.equal(protocol.next()?.kind, 'mail');
  protocol.answer();
  assert.equal(protocol.next()?.kind, 'starttls');
  protocol.receive(Buffer.from('il\r\nRCPT TO:<c'));
  assert.equal(protocol.next(), undefined);
  protocol.takeOutput();
  protocol.secured('TLSv1.3');
  protocol.receive(Buffer.from('MAIL FROM:<a@b.test>\r\nEHLO c\r\nMAIL FROM:<>\r\n'));
  assert.deepEqual(protocol.next(), { kind: 'mail', from: '', size: 0 });
  const said = protocol.takeOutput();
  assert.match(said, /^503 5\.5\.1 Send HELO or EHLO first\r\n250-mail\.test\r\n/);
  assert.doesNotMatch(said, /STARTTLS/);
});

test('a connection that has ended answers nothing, and drops what came', () => {
  for (const act of ['ask', 'message', 'idle']) {
    const protocol = new ServerProtocol(OPTIONS);
    protocol.receive(Buffer.from(`EHLO a\r\n${act === 'idle' ? '' : SEND}`));
    protocol.next();
    if (act === 'message') {
      for (let asked = 0; asked < 3; asked++) {
        protocol.answer();
        protocol.next();
      }
      protocol.receive(Buffer.from('all of it\r\n.\r\n'));
      assert.equal(protocol.next()?.kind, 'content');
    }
    protocol.hangUp(reply(421, '4.3.2', 'Bye'));
    protocol.hangUp(reply(421, '4.3.2', 'Bye again'));
    assert.match(protocol.takeOutput(), /421 4\.3\.2 Bye\r\n$/);
    if (act === 'ask') protocol.answer();
    if (act === 'message')
      assert.equal(
        protocol.finish(() => reply(250, '2.0.0', 'Ok')),
        false,
      );
    protocol.receive(Buffer.from('NOOP\r\n'));
    assert.equal(protocol.next(), undefined);
    assert.equal(protocol.takeOutput(), '');
    assert.equal(protocol.isOver, true);
  }
});

test('characters that toUpperCase turns into letters of a command do not form one', () => {
  const owner = new Owner();
  owner.receive('EHLO a\r\n');
  owner.log.length = 0;
  for (const line of ['quıt', 'rſet', 'NOOPS', 'NO OP', '']) {
    const text = Buffer.from(`${line}\r\n`).toString('latin1');
    if (line !== '') owner.receive(text);
  }
  assert.equal(owner.all, '500 5.5.2 The command is not known\r\n'.repeat(4));
});

test('a login from elsewhere is offered and taken after STARTTLS alone', () => {
  const owner = new Owner({ login: 'by TLS' });
  owner.receive('EHLO a\r\n');
  assert.doesNotMatch(owner.all, /AUTH PLAIN/);
  owner.receive('AUTH PLAIN AGFkYUBhY21lLnRlc3QAc2VjcmV0\r\n');
  assert.match(owner.all, /538 5\.7\.11 /);
  owner.receive('MAIL FROM:<ada@acme.test>\r\n');
  assert.match(owner.all, /530 5\.7\.0 /);
  assert.doesNotMatch(owner.all, /"kind":"login"/);
  owner.receive('STARTTLS\r\n');
  owner.receive('EHLO a\r\nAUTH PLAIN AGFkYUBhY21lLnRlc3QAc2VjcmV0\r\n');
  assert.match(owner.all, /"kind":"login"/);
  assert.match(owner.all, /235 2\.7\.0 /);
});
