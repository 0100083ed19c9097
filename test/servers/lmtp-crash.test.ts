/**
 * Kills the process again and again while mail flows through it to Dovecot, over connections that
 * break at any reply; then each recipient of each message that was answered 250 has it, once.
 * LMTP_CRASH_ROUNDS sets the number of kills.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createTransport } from 'nodemailer';
import { bareEnvironment } from '../support/process.ts';
import { type DovecotServer, startDovecot } from './dovecot.ts';
import { readSources } from './look-through.ts';
import { until } from './mail-load.ts';

const PROCESS = fileURLToPath(new URL('./lmtp-process.ts', import.meta.url));
const ROUNDS = Number(process.env.LMTP_CRASH_ROUNDS ?? '15');
const CLIENTS = 5;
/** From the first mail of a round that is answered 250 to its kill, in milliseconds. */
const FLOW_MAX_MS = 1_200;
/** One connection in so many is broken off. */
const BREAK = 2;
/** Lines of replies after which it breaks: half of them within the first message, which takes up to twelve. */
const BREAK_AT_MAX = [12, 60];

const addresses = ['ann@acme.test', 'ben@acme.test', 'cal@acme.test'];

let dovecot: DovecotServer;
let folder: string;
const children = new Set<ChildProcess>();

/** Connections to Dovecot that it has not ended yet. */
const open = new Set<Socket>();

/** Between the process and Dovecot: some connections end after some of the server's replies. */
const proxy = createServer((socket) => {
  const upstream = connect(dovecot.lmtpPort, '127.0.0.1');
  open.add(upstream);
  const most = BREAK_AT_MAX[randomInt(BREAK_AT_MAX.length)] ?? 0;
  let left = randomInt(BREAK) === 0 ? randomInt(1, most) : Number.POSITIVE_INFINITY;
  socket.on('data', (chunk) => upstream.write(chunk));
  upstream.on('data', (chunk: Buffer) => {
    let at = 0;
    for (; at < chunk.length && left > 0; at++) if (chunk[at] === 0x0a) left--;
    socket.write(chunk.subarray(0, at), () => {
      // The server gets to the end of what it was doing: it is the reply that is lost.
      if (left <= 0) socket.destroy();
    });
  });
  socket.on('close', () => upstream.end()).on('error', () => socket.destroy());
  upstream.on('close', () => {
    open.delete(upstream);
    socket.destroy();
  });
  upstream.on('error', () => upstream.destroy());
});

before(async () => {
  dovecot = await startDovecot();
  for (const address of addresses) await dovecot.addAccount(address);
  folder = await mkdtemp(join(tmpdir(), 'postroom-lmtp-crash-'));
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
});

after(async () => {
  for (const child of children) child.kill('SIGKILL');
  proxy.close();
  await dovecot?.stop();
  await rm(folder, { recursive: true, force: true });
});

interface Running {
  readonly port: number;
  kill(): Promise<void>;
}

async function start(): Promise<Running> {
  // What the last process began is delivered or not by then: before, a search for it could miss it.
  for (const upstream of open) await new Promise((resolve) => upstream.once('close', resolve));
  const { user = '', pass = '' } = dovecot.loginAs('');
  const lmtpPort = (proxy.address() as AddressInfo).port;
  const child = spawn(process.execPath, [PROCESS], {
    cwd: folder,
    env: {
      ...bareEnvironment(),
      DATA_DIR: join(folder, 'data'),
      DNS_SERVERS: '127.0.0.1:9',
      MAILSTORE_URL: dovecot.mailstoreUrl,
      LMTP_URL: `lmtp://127.0.0.1:${lmtpPort}`,
      IMAP_PORT: String(dovecot.imapPort),
      MASTER_USER: user.slice(1),
      MASTER_PASSWORD: pass,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.add(child);
  const ended = once(child, 'exit');
  let said = '';
  for await (const text of child.stdout?.setEncoding('utf8') ?? []) {
    said += text;
    if (said.includes('\n')) break;
  }
  const port = Number(/^listening (\d+)/.exec(said)?.[1]);
  assert.ok(port > 0, `it did not start: ${said}`);
  return {
    port,
    async kill() {
      child.kill('SIGKILL');
      await ended;
      children.delete(child);
      assert.equal(child.signalCode, 'SIGKILL', 'it ended by itself');
    },
  };
}

/** Recipients of what was answered 250, by subject. */
const accepted = new Map<string, readonly string[]>();
let made = 0;

/** One client: a message after the other, as long as the process lives. */
async function send(port: number): Promise<void> {
  const transport = createTransport({ host: '127.0.0.1', port, ignoreTLS: true });
  try {
    for (;;) {
      made++;
      const subject = `mail-${made}-`;
      const to = addresses.slice(0, randomInt(1, addresses.length + 1));
      const lines = randomInt(5) === 0 ? 2_000 : 3;
      const text = `${subject.padEnd(70, 'x')}\r\n`.repeat(lines);
      try {
        await transport.sendMail({ from: 'bob@sender.test', to, subject, text });
        accepted.set(subject, to);
      } catch (error) {
        // What is refused for now the sender has still; a connection that breaks ends the round.
        if (!(error instanceof Error && 'responseCode' in error)) return;
      }
    }
  } finally {
    transport.close();
  }
}

/** Deliveries to mailboxes by status. */
function countDeliveries(status: 'queued' | 'delivered' | 'failed'): number {
  const database = new DatabaseSync(join(folder, 'data', 'postroom.sqlite'), {
    readOnly: true,
    timeout: 5_000,
  });
  try {
    const count = database.prepare(
      `select count(*) as n from deliveries where kind = 'mailbox' and status = ?`,
    );
    const row = count.get(status);
    return Number(row?.n);
  } finally {
    database.close();
  }
}

test('every message that was answered 250 is in every mailbox, once', {
  timeout: 600_000,
}, async (t) => {
  const isQueueIdle = () => countDeliveries('delivered') + countDeliveries('queued') === 0;
  for (let round = 0; round < ROUNDS || isQueueIdle(); round++) {
    assert.ok(round < 4 * ROUNDS, `nothing of ${made} mails came to the queue`);
    const running = await start();
    const before = accepted.size;
    const clients = Array.from({ length: CLIENTS }, () => send(running.port));
    // However slow the machine is.
    await until('mail is answered 250', () => accepted.size > before);
    await new Promise((resolve) => setTimeout(resolve, randomInt(FLOW_MAX_MS)));
    await running.kill();
    await Promise.all(clients);
  }
  const left = countDeliveries('queued');
  // Put off by a minute and more: each start brings what has waited for some seconds.
  while (countDeliveries('queued') > 0) {
    const running = await start();
    await new Promise((resolve) => setTimeout(resolve, 4_000));
    await running.kill();
  }
  const brought = countDeliveries('delivered');
  t.diagnostic(
    `${accepted.size} of ${made} answered 250, ${brought} by the queue, ${left} of them last`,
  );
  assert.ok(accepted.size >= ROUNDS, 'mail flowed');
  assert.equal(countDeliveries('failed'), 0);
  for (const address of addresses) {
    const copies = new Map<string, number>();
    for (const source of await readSources(dovecot, address)) {
      const subject = /^Subject: (\S+)\r$/m.exec(source)?.[1] ?? '';
      copies.set(subject, (copies.get(subject) ?? 0) + 1);
    }
    for (const [subject, to] of accepted) {
      if (to.includes(address)) assert.equal(copies.get(subject), 1, `${subject} at ${address}`);
    }
  }
});
