/**
 * The whole way of a change: a client or a delivery changes a mailbox on Dovecot, its script writes
 * to the spool, the notifier posts, and an app on Postroom's realtime channel hears of it.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ImapFlow } from 'imapflow';
import { createTransport } from 'nodemailer';
import { freePort } from '../support/free-port.ts';
import {
  startTestService,
  type TestAccount,
  type TestService,
  WEBHOOK_SECRET,
} from '../support/service.ts';
import { openSocket, type TestSocket } from '../support/web-socket.ts';
import { type DovecotServer, startDovecot } from './dovecot.ts';
import { endProcess } from './mail-server.ts';

const NOTIFIER = fileURLToPath(new URL('../../src/notifier.ts', import.meta.url));
/** Times that the notifier is killed, and that Postroom goes away. */
const KILLS = Number(process.env.NOTIFIER_KILLS ?? '15');
const MAILBOXES = 12;

/** Stands before Postroom, and can go away as a machine does: connections end, others are refused. */
class Door {
  readonly #to: number;
  readonly #open = new Set<Socket>();
  #server: Server | undefined;
  readonly port: number;

  /** @param port that nobody else takes while it is away */
  constructor(to: number, port: number) {
    this.#to = to;
    this.port = port;
  }

  async up(): Promise<void> {
    this.#server = createServer((near) => {
      const far = connect(this.#to, '127.0.0.1');
      for (const [socket, other] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#open.add(socket);
        socket
          .on('error', () => undefined)
          .once('close', () => {
            this.#open.delete(socket);
            other.destroy();
          });
        socket.pipe(other);
      }
    });
    this.#server.listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async down(): Promise<void> {
    const closed = this.#server && once(this.#server, 'close');
    this.#server?.close();
    for (const socket of this.#open) socket.destroy();
    await closed;
  }
}

interface Told {
  readonly mailbox: string;
  readonly uidvalidity: string;
  readonly token: string;
}

/** What an app hears, and the last of it for each mailbox. */
class Listener {
  readonly #socket: TestSocket;
  readonly heard: Told[] = [];
  readonly #last = new Map<string, Told>();

  constructor(socket: TestSocket) {
    this.#socket = socket;
  }

  async until(mailbox: string, is: (told: Told) => boolean): Promise<Told> {
    for (;;) {
      const last = this.#last.get(mailbox);
      if (last && is(last)) return last;
      const message = await this.#socket.next();
      if (message.type !== 'mailbox_changed') continue;
      assert.equal(message.eventType, 'MailboxesChanged');
      this.heard.push(message);
      this.#last.set(message.mailbox, message);
    }
  }
}

void suite('change events of Dovecot', () => {
  let postroom: TestService;
  let dovecot: DovecotServer;
  let ann: TestAccount;
  let door: Door;
  let notifier: ChildProcess;
  let socket: TestSocket;
  let listener: Listener;
  let client: ImapFlow;

  function startNotifier(): ChildProcess {
    return spawn(process.execPath, [NOTIFIER], {
      cwd: dovecot.directory,
      stdio: ['ignore', 'ignore', 'inherit'],
      env: {
        ...process.env,
        NOTIFIER_SPOOL: dovecot.spool,
        NOTIFIER_URL: `http://127.0.0.1:${door.port}/hooks/mailserver`,
        MAILSERVER_WEBHOOK_SECRET: WEBHOOK_SECRET,
      },
    });
  }

  before(async () => {
    postroom = await startTestService('sqlite');
    door = new Door(postroom.addresses.http.port, await freePort());
    await door.up();
    dovecot = await startDovecot({ users: { from: 'sqlite', path: postroom.databaseLocation } });
    ann = await postroom.makeAccount('ann');
    notifier = startNotifier();
    socket = await openSocket(postroom, ann.token);
    listener = new Listener(socket);
    const { host, imapPort: port } = dovecot;
    const auth = { user: ann.address, pass: ann.password };
    client = new ImapFlow({ host, port, secure: false, auth, logger: false, qresync: true });
    await client.connect();
  });
  after(async () => {
    await client?.logout();
    socket?.close();
    if (notifier) await endProcess(notifier, 'SIGTERM');
    await dovecot?.stop();
    await door?.down();
  });

  /** Waits until the app knows of a mailbox what the server says of it now. */
  async function untilTold(mailbox: string): Promise<void> {
    // A selected mailbox has the status of its last look (RFC 3501 section 5.2).
    await client.noop();
    const status = await client.status(mailbox, { highestModseq: true, uidValidity: true });
    assert.ok(status !== false && status.highestModseq !== undefined);
    const { highestModseq } = status;
    const told = await listener.until(mailbox, ({ token }) => BigInt(token) >= highestModseq);
    assert.equal(told.uidvalidity, String(status.uidValidity));
    assert.equal(told.token, String(highestModseq));
  }

  test('an app gets an event for every change by another client, and for deliveries', async (t) => {
    const changes: [string, () => Promise<unknown>, ...string[]][] = [
      ['append', () => client.append('INBOX', 'Subject: one\r\n\r\nText\r\n'), 'INBOX'],
      ['append', () => client.append('INBOX', 'Subject: two\r\n\r\nText\r\n'), 'INBOX'],
      ['open', () => client.mailboxOpen('INBOX'), 'INBOX'],
      ['flag', () => client.messageFlagsAdd('1', ['\\Flagged']), 'INBOX'],
      ['unflag', () => client.messageFlagsRemove('1', ['\\Flagged']), 'INBOX'],
      ['read', () => client.messageFlagsAdd('1', ['\\Seen']), 'INBOX'],
      ['unread', () => client.messageFlagsRemove('1', ['\\Seen']), 'INBOX'],
      ['keyword', () => client.messageFlagsAdd('1', ['$Forwarded', 'own']), 'INBOX'],
      ['replace flags', () => client.messageFlagsSet('1', ['\\Answered']), 'INBOX'],
      ['mark deleted', () => client.messageFlagsAdd('2', ['\\Deleted']), 'INBOX'],
      ['copy', () => client.messageCopy('1', 'Archive'), 'Archive'],
      ['move', () => client.messageMove('1', 'Sent'), 'Sent', 'INBOX'],
      ['expunge', () => client.messageDelete('1'), 'INBOX'],
      ['LMTP', () => deliver(ann.address), 'INBOX'],
      ['LMTP with a tag', () => deliver(ann.address.replace('@', '+tag@')), 'INBOX'],
      ['create', () => client.mailboxCreate('Übungen & "so"'), 'Übungen & "so"'],
      ['rename', () => client.mailboxRename('Übungen & "so"', 'Übung'), 'Übung'],
    ];
    for (const [title, change, ...mailboxes] of changes) {
      await t.test(title, async () => {
        await change();
        for (const mailbox of mailboxes) await untilTold(mailbox);
      });
    }
    await t.test('a deleted mailbox has no UIDVALIDITY', async () => {
      const isGone = ({ uidvalidity }: Told) => uidvalidity === '0';
      await listener.until('Übungen & "so"', isGone);
      await client.mailboxDelete('Übung');
      await listener.until('Übung', isGone);
    });
  });

  async function deliver(to: string): Promise<void> {
    const transport = createTransport({ lmtp: true, host: dovecot.host, port: dovecot.lmtpPort });
    await transport.sendMail({ from: 'bob@sender.test', to, subject: 'Hi', text: 'Hi' });
    transport.close();
  }

  test('killing the notifier and losing Postroom loses nothing, and repeats nothing', async () => {
    const mailboxes = Array.from({ length: MAILBOXES }, (_, index) => `Box ${index}`);
    for (const mailbox of mailboxes) {
      await client.mailboxCreate(mailbox);
      await untilTold(mailbox);
    }
    const heardBefore = listener.heard.length;
    let changing = true;
    const changes = (async () => {
      while (changing) {
        const mailbox = mailboxes[randomInt(MAILBOXES)] ?? 'INBOX';
        await client.append(mailbox, 'Subject: x\r\n\r\nx\r\n');
      }
    })();
    const wait = (most: number) => new Promise((resolve) => setTimeout(resolve, randomInt(most)));
    for (let kill = 0; kill < KILLS; kill++) {
      await wait(1_500);
      if (kill % 3 === 1) await door.down();
      await wait(200);
      await endProcess(notifier, 'SIGKILL');
      await wait(200);
      notifier = startNotifier();
      await wait(300);
      if (kill % 3 === 1) await door.up();
    }
    changing = false;
    await changes;
    for (const mailbox of mailboxes) await untilTold(mailbox);
    const heard = listener.heard.slice(heardBefore);
    const distinct = new Set(heard.map(({ mailbox, token }) => `${mailbox} ${token}`));
    assert.equal(heard.length, distinct.size, 'each event is heard once');
    assert.ok(heard.length >= MAILBOXES);
  });
});
