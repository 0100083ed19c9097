/**
 * A sync that finds nothing new on a real Dovecot, against the same command on a bare socket, which parses nothing;
 * changes of a message, and the sync that finds one, against imapflow; and many accounts that sync in turn, against the
 * cap on connections.
 *
 * Shorter commands were measured and left alone: NOOP takes a third of the time, but a session goes on with a mailbox
 * that was renamed, deleted or made anew, and would call that unchanged; STATUS takes half, but only
 * where the mailbox is not selected, and is one more round trip wherever something did change.
 */
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { Bodies, BodyFolder } from '../src/mailboxes/bodies/bodies.ts';
import { ImapMailstore } from '../src/mailboxes/mail-server/mail-server.ts';
import type { MailUser } from '../src/mailboxes/mailstore/mailstore.ts';
import { openSqlite } from '../src/platform/database/database.ts';
import { type DovecotServer, startDovecot } from '../test/servers/dovecot.ts';
import { connectAs } from '../test/servers/imap-client.ts';
import { atMost, type Benchmark, type Figure, interleave, median } from './support/figures.ts';
import { makeFolder, removeFolder } from './support/folders.ts';

/** Times the bare socket's, whose command is one round trip. */
const TARGET = 1.5;
const MESSAGES = 1_000;
const ROUNDS = 9;
const SYNCS = 300;
const CHANGES = 25;
const ACCOUNTS = 500;
const CAP = 50;
const AT_ONCE = 100;

/** IMAP with as little around it as can be. */
class RawClient {
  readonly #socket: Socket;
  #text = '';
  #awaited = '';
  #done: (text: string) => void = () => undefined;

  private constructor(socket: Socket) {
    this.#socket = socket.setNoDelay(true).setEncoding('latin1');
    socket.on('data', (text: string) => {
      this.#text += text;
      const at = this.#text.lastIndexOf(this.#awaited);
      if (this.#awaited !== '' && at >= 0 && this.#text.endsWith('\r\n')) this.#done(this.#text);
    });
  }

  static async open(server: DovecotServer, address: string): Promise<RawClient> {
    const client = new RawClient(connect(server.imapPort, server.host));
    const { user, pass } = server.loginAs(address);
    await client.command(`LOGIN "${user}" "${pass}"`);
    await client.command('ENABLE CONDSTORE QRESYNC');
    return client;
  }

  command(text: string): Promise<string> {
    this.#text = '';
    this.#awaited = 't OK ';
    this.#socket.write(`t ${text}\r\n`);
    return new Promise((resolve) => {
      this.#done = resolve;
    });
  }

  close(): void {
    this.#socket.destroy();
  }
}

async function openStore(server: DovecotServer, folder: string, connections: number) {
  const { pass } = server.loginAs('nobody@bench.test');
  const database = await openSqlite({ path: join(folder, `store-${connections}.sqlite`) });
  const store = new ImapMailstore({
    server: {
      host: server.host,
      port: server.imapPort,
      tls: 'off',
      verifyCertificate: true,
      master: { user: 'postroom', password: pass },
      auth: 'master',
      separator: '*',
    },
    database,
    bodies: new Bodies({ database, store: new BodyFolder(join(folder, `bodies-${connections}`)) }),
    log: { warn: (what, text) => console.error(text, what) },
    connections,
  });
  const close = async () => {
    store.close();
    await database.close();
  };
  return { store, close };
}

async function fill(server: DovecotServer, address: string): Promise<void> {
  await server.addAccount(address);
  const client = await connectAs(server, address);
  await client.append('INBOX', 'Subject: one\r\n\r\nText\r\n');
  await client.mailboxOpen('INBOX');
  for (let count = 1; count < MESSAGES; count *= 2) {
    await client.messageCopy(`1:${Math.min(count, MESSAGES - count)}`, 'INBOX');
    await client.noop();
  }
  await client.logout();
}

/** Milliseconds that the median one takes, of so many that come one after the other. */
async function timeEach(
  count: number,
  work: () => Promise<unknown>,
  prepare?: () => Promise<unknown>,
): Promise<number> {
  const times: number[] = [];
  while (times.length < count) {
    await prepare?.();
    const from = performance.now();
    await work();
    times.push(performance.now() - from);
  }
  return median(times);
}

async function measureUnchanged(server: DovecotServer, folder: string): Promise<Figure[]> {
  const user: MailUser = { accountId: 1, address: 'ann@bench.test' };
  await fill(server, user.address);
  const { store, close } = await openStore(server, folder, 10);
  const raw = await RawClient.open(server, user.address);
  try {
    const { uidvalidity, token } = await store.sync(user, { mailbox: 'INBOX' });
    const [modseq] = token.split('-');
    const examine = `EXAMINE "INBOX" (QRESYNC (${uidvalidity} ${modseq}))`;
    const times = await interleave(ROUNDS, {
      ours: () => timeEach(SYNCS, () => store.sync(user, { mailbox: 'INBOX', uidvalidity, token })),
      raw: () => timeEach(SYNCS, () => raw.command(examine)),
    });
    const title = `IMAP sync, no change, ${MESSAGES} messages, against a bare socket`;
    return [atMost(title, 'ms', times.ours, times.raw, TARGET)];
  } finally {
    raw.close();
    await close();
  }
}

const source = Buffer.from(
  `From: Bob <bob@example.test>\r\nSubject: a change\r\n\r\n${'Words. '.repeat(300)}\r\n`,
);

async function* readSource() {
  yield source;
}

/**
 * Changes of one message, and the sync that finds a new one, against imapflow with the mailbox open all the time: a
 * change is one command there. Every call of ours opens the mailbox, and returns its state after the change.
 */
async function measureChanges(server: DovecotServer, folder: string): Promise<Figure[]> {
  const user: MailUser = { accountId: 1, address: 'bob@bench.test' };
  await fill(server, user.address);
  const { store, close } = await openStore(server, folder, 11);
  const client = await connectAs(server, user.address);
  const other = await connectAs(server, user.address);
  await client.mailboxOpen('INBOX');
  const { uidvalidity, token } = await store.sync(user, { mailbox: 'INBOX' });
  const inbox = (uid: number) => ({ mailbox: 'INBOX', uids: [uid], uidvalidity });
  let [lowest, highest] = [0, MESSAGES + 1];
  let copy = { mailbox: 'INBOX', uidvalidity, token, fields: ['envelope', 'flags'] as const };
  const arrive = () => other.append('INBOX', source);
  const compare = async (
    name: string,
    target: number,
    works: Record<'client' | 'ours', () => Promise<unknown>>,
    prepare?: () => Promise<unknown>,
  ) => {
    const { client, ours } = works;
    const times = await interleave(ROUNDS, {
      client: () => timeEach(CHANGES, client, prepare),
      ours: () => timeEach(CHANGES, ours, prepare),
    });
    return atMost(`IMAP ${name}, against an IMAP client`, 'ms', times.ours, times.client, target);
  };
  const seen = ['\\Seen'];
  try {
    return [
      await compare('flags', 3, {
        client: () => client.messageFlagsAdd(`${++lowest}`, seen, { uid: true }),
        ours: () => store.setFlags(user, inbox(++lowest), { add: seen }),
      }),
      await compare('move', 3, {
        client: () => client.messageMove(`${--highest}`, 'Trash', { uid: true }),
        ours: () => store.move(user, inbox(--highest), 'Trash'),
      }),
      await compare('append', 3, {
        client: () => client.append('Trash', source),
        ours: () => store.appendMessage(user, { mailbox: 'Trash', octets: 1e6 }, readSource()),
      }),
      await compare(
        'sync of a new message',
        2,
        {
          client: async () => {
            const { uidNext } = await client.mailboxOpen('INBOX', { readOnly: true });
            const fields = { envelope: true, flags: true };
            await client.fetchAll(`${uidNext - 1}:*`, fields, { uid: true });
          },
          ours: async () => {
            copy = { ...copy, token: (await store.sync(user, copy)).token };
          },
        },
        arrive,
      ),
    ];
  } finally {
    client.close();
    other.close();
    await close();
  }
}

async function measureMany(server: DovecotServer, folder: string): Promise<Figure> {
  const users = Array.from({ length: ACCOUNTS }, (_, index) => ({
    accountId: index + 2,
    address: `user${index}@bench.test`,
  }));
  for (const { address } of users) await server.addAccount(address);
  const last = users.at(-1)?.address ?? '';
  await (await connectAs(server, last)).logout();
  const { store, close } = await openStore(server, folder, CAP);
  let most = 0;
  const from = performance.now();
  try {
    const left = users.values();
    const worker = async () => {
      for (const user of left) {
        await store.sync(user, { mailbox: 'INBOX' });
        most = Math.max(most, store.load.open);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  } finally {
    await close();
  }
  const seconds = (performance.now() - from) / 1000;
  return {
    name: `IMAP sync, ${ACCOUNTS} accounts in turn (${(ACCOUNTS / seconds).toFixed(0)} a second)`,
    ours: `${most} connections`,
    reference: `${CAP} allowed`,
    ratio: (most / CAP).toFixed(2),
    target: '<= 1',
    met: most <= CAP,
  };
}

export const imapSync: Benchmark = {
  name: 'imap-sync',
  async run() {
    const folder = makeFolder();
    const server = await startDovecot();
    try {
      return [
        ...(await measureUnchanged(server, folder)),
        ...(await measureChanges(server, folder)),
        await measureMany(server, folder),
      ];
    } finally {
      await server.stop();
      removeFolder(folder);
    }
  },
};
