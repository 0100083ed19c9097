/** Sessions on a mail server: what passes, what ends them, and what a slow side costs. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { after, describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { ImapLines } from '../../../test/support/imap-lines.ts';
import { startImapWith } from '../../../test/support/imap-listener.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { Wire } from '../../platform/net/net.ts';
import { timeouts } from './connection-settings.ts';
import { ImapSlots } from './imap.ts';
import { passOn, SentLines } from './pass-on.ts';

const NONE = Buffer.alloc(0);
const CAPABILITIES = 'IMAP4rev1 XTEST';

/** Everything that a socket sends, to its end. */
async function everything(socket: Socket): Promise<string> {
  return Buffer.concat(await socket.toArray()).toString('latin1');
}

/** The server's side of each connection, in the order of the logins. */
const far: Socket[] = [];
const fake = createServer({ allowHalfOpen: true }, (socket) => far.push(socket));
fake.listen(0, '127.0.0.1');
await once(fake, 'listening');
const slots = new ImapSlots(4);
let refusal: Refusal | undefined;
const listener = await startImapWith({
  slots,
  async openOnServer() {
    if (refusal) throw refusal;
    const socket = connect((fake.address() as AddressInfo).port, '127.0.0.1');
    const come = once(fake, 'connection');
    socket.on('error', () => {});
    await Promise.all([once(socket, 'connect'), come]);
    const wire = new Wire(socket);
    return { wire, capabilities: CAPABILITIES, early: NONE, destroy: () => wire.destroy() };
  },
});
const { port } = listener.address;

describe('a session on a mail server', () => {
  after(async () => {
    await listener.close(1_000);
    fake.close();
  });

  /** A program that has logged in, and the server's side of its session. */
  async function open() {
    const socket = connect(port, '127.0.0.1');
    socket.write('x LOGIN 1 x\r\n');
    let said = '';
    while (!said.includes('\r\nx ')) said += String((await once(socket, 'data'))[0]);
    assert.match(said, /\r\nx OK \[CAPABILITY IMAP4rev1 XTEST\] Logged in\r\n$/);
    socket.pause();
    const server = far.at(-1);
    assert.ok(server);
    server.on('error', () => {});
    return { socket, server };
  }

  test('that the server refuses is unavailable, and its slots are free again', async () => {
    refusal = new Refusal('unavailable', 'not now');
    const client = await ImapLines.connect(port);
    client.send('x LOGIN 1 x\r\n');
    assert.equal(await client.next(), '* BYE The mailboxes cannot be opened now');
    assert.match(await client.next(), /^x NO \[UNAVAILABLE\] The login is right/);
    assert.equal(await client.next(), '');
    assert.equal(slots.accounts.taken, 0);
    refusal = new Refusal('account_inactive', 'suspended');
    const other = await ImapLines.connect(port);
    assert.match((await other.command('LOGIN 1 x'))[1] ?? '', /^NO \[AUTHORIZATIONFAILED\]/);
    refusal = undefined;
  });

  test('leaves slots at the server for other users', async () => {
    const [one, two] = [await open(), await open()];
    const client = await ImapLines.connect(port);
    client.send('x LOGIN 1 x\r\n');
    assert.match(await client.next(), /^\* BYE \[LIMIT\]/);
    for (const { socket, server } of [one, two]) {
      server.end();
      await everything(socket);
    }
  });

  test('begins with what came after the login, in the same packet', async () => {
    const client = await ImapLines.connect(port);
    client.send('x LOGIN 1 x\r\ny APPEND a {3}\r\n\0\n\xff\r\n');
    assert.match(await client.next(), /^x OK/);
    const [octets] = await once(far.at(-1) as Socket, 'data');
    assert.equal(octets.toString('latin1'), 'y APPEND a {3}\r\n\0\n\xff\r\n');
    far.at(-1)?.end();
    assert.match(await client.next(), /^\* BYE/);
  });

  for (const [title, sent, isTold] of [
    ['between two lines is told', '* OK hello\r\n', true],
    ['in a line is not: it would be read as more of it', '* OK hel', false],
    [
      'in a message is not: it would be stored as more of it',
      '* 1 FETCH (A {90}\r\nabc\r\n',
      false,
    ],
    ['before the rest of a line is not', '* 1 FETCH (A {3}\r\nabc', false],
    ['after its own BYE is not told twice', '* BYE later\r\n', false],
  ] as const) {
    test(`an end ${title}`, async () => {
      const { socket, server } = await open();
      server.end(sent);
      const bye = isTold ? '* BYE The mail server ended the connection\r\n' : '';
      assert.equal(await everything(socket), sent + bye);
    });
  }

  test('of a program that has said all is answered to its end', async () => {
    const { socket, server } = await open();
    let heard = '';
    server.setEncoding('latin1').on('data', (text: string) => {
      heard += text;
    });
    socket.end('y LOGOUT\r\n');
    await once(server, 'end');
    assert.equal(heard, 'y LOGOUT\r\n');
    server.end('* BYE\r\ny OK\r\n');
    assert.equal(await everything(socket), '* BYE\r\ny OK\r\n');
  });

  test('with a server that does not read is over, and the program is told why', async () => {
    const before = timeouts.blocked;
    const { socket, server } = await open();
    const answer = everything(socket);
    const piece = Buffer.alloc(64 * 1024, 'x');
    // Until no socket on the way takes more.
    while (socket.write(piece) || socket.writableLength < 4 * piece.length) await turn();
    timeouts.blocked = 0;
    assert.equal(await answer, '* BYE The mail server does not read\r\n');
    timeouts.blocked = before;
    server.end();
    await once(server.resume(), 'close');
  });

  test('of a program that vanishes ends at the server', async () => {
    const { socket, server } = await open();
    const closed = once(server, 'close');
    server.resume();
    socket.resetAndDestroy();
    server.end();
    await closed;
  });
});

test('nothing is read of a server that the program does not read', async () => {
  let read = 0;
  const piece = Buffer.alloc(16 * 1024, 'x');
  const socket = new Duplex({
    read() {
      read++;
      this.push(piece);
    },
    write: (_chunk, _encoding, done) => done(),
  });
  const idle = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
  const server = new Wire(socket as Socket);
  const wire = new Wire(idle as Socket);
  let isRead = Promise.withResolvers<void>();
  let written = 0;
  const write = (octets: Uint8Array) => {
    written += octets.length;
    return isRead.promise;
  };
  const over = passOn(
    { wire, early: NONE, write, onBytes() {}, onSending() {} },
    { wire: server, early: NONE, capabilities: '', destroy: () => server.destroy() },
  );
  const held = () => read * piece.length - written;
  for (let at = 0; at < 1_000; at++) {
    await turn();
    assert.ok(held() <= socket.readableHighWaterMark + piece.length, `${held()} octets are held`);
    const { resolve } = isRead;
    isRead = Promise.withResolvers();
    resolve();
  }
  assert.ok(written > 900 * piece.length);
  idle.destroy();
  server.destroy();
  isRead.resolve();
  await over;
});

describe('where a line begins', () => {
  const answer =
    '* OK {2\r\n* 1 FETCH (A {6}\r\n{9}\r\n\n B ~{1}\r\n\n)\r\ny OK\n* bye {0}\r\n\r\n';
  const starts = [0, 9, answer.indexOf('y OK'), answer.indexOf('* bye'), answer.length];

  test('is known after any pieces', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(answer.length)), fc.nat(answer.length), (cuts, end) => {
        const seen = new SentLines();
        const at = [0, ...cuts.filter((cut) => cut < end), end].toSorted((a, b) => a - b);
        for (let piece = 1; piece < at.length; piece++) {
          seen.add(Buffer.from(answer.slice(at[piece - 1], at[piece])));
        }
        assert.equal(seen.isAtStart, starts.includes(end), `${end}`);
        assert.equal(seen.saidBye, end > answer.indexOf('{0}') + 4);
      }),
    );
  });

  test('is not known once it may be compressed, also where the command comes in pieces', async () => {
    const program = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
    const pieces = ['PRESS DEFLATE\r\n'];
    const server = new Duplex({
      read() {},
      write(_chunk, _encoding, done) {
        done();
        const next = pieces.shift();
        if (next !== undefined) program.push(next);
        else server.destroy();
      },
    });
    program.push('a COM');
    const wires = [new Wire(program as Socket), new Wire(server as Socket)] as const;
    const over = passOn(
      { wire: wires[0], early: NONE, write: async () => {}, onBytes() {}, onSending() {} },
      {
        wire: wires[1],
        early: NONE,
        capabilities: 'IMAP4rev1 COMPRESS=DEFLATE',
        destroy: () => server.destroy(),
      },
    );
    assert.equal((await over).isAtStart, false);
  });
});
