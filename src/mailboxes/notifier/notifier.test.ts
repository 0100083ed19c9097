import assert from 'node:assert/strict';
import { appendFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, beforeEach, test } from 'node:test';
import { type Logger, pino } from 'pino';
import { BatchReceiver, hangUp, SECRET, say } from '../../../test/support/notifier/receiver.ts';
import { type Notifier, startNotifier } from './notifier.ts';

const quick = { limits: { everyMs: 50, retryMs: 50 } };

let directory: string;
let receiver: BatchReceiver;
const running: Notifier[] = [];
const folders: string[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'postroom-notifier-'));
  folders.push(directory);
  receiver = await BatchReceiver.start();
});
afterEach(async () => {
  for (const notifier of running.splice(0)) await notifier.stop();
  await receiver.stop();
});
after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))));

async function start(logger: Logger = pino({ level: 'silent' })): Promise<Notifier> {
  const { url } = receiver;
  const notifier = await startNotifier({ directory, url, secret: SECRET, logger, ...quick });
  running.push(notifier);
  return notifier;
}

function append(...mailboxes: string[]): Promise<void> {
  const common = { user: 'ann@acme.test', uidvalidity: '7', highestmodseq: '2' };
  const lines = mailboxes.map((mailbox) => `\n${JSON.stringify({ ...common, mailbox })}\n`);
  return appendFile(join(directory, 'events'), lines.join(''));
}

/** A log that tests read. */
function logged(): { logger: Logger; lines: string[] } {
  const lines: string[] = [];
  return { logger: pino({ level: 'warn' }, { write: (line) => void lines.push(line) }), lines };
}

test('the lines of the spool are posted, merged, and then new ones', async () => {
  await append('INBOX', 'Sent', 'INBOX');
  await start();
  await receiver.until(1);
  assert.deepEqual(receiver.mailboxes(), ['INBOX', 'Sent']);
  await append('INBOX');
  await receiver.until(2);
  assert.deepEqual(receiver.mailboxes(1), ['INBOX']);
  const ids = receiver.batches.flatMap(({ events }) => events.map(({ event_id }) => event_id));
  assert.equal(new Set(ids).size, 3);
});

test('a batch is repeated under its ids until it is accepted, before anything newer', async () => {
  receiver.answers.push(hangUp, say(500), say(503, '', { 'retry-after': '1' }), say(401), say(302));
  await append('INBOX');
  await start();
  await receiver.until(1);
  await append('Sent');
  await receiver.until(7);
  const [first, ...rest] = receiver.batches;
  for (const { events } of rest.slice(0, 5)) assert.deepEqual(events, first?.events);
  assert.deepEqual(receiver.mailboxes(6), ['Sent']);
  const [, , third, fourth] = receiver.batches;
  assert.ok((fourth?.at ?? 0) - (third?.at ?? 0) >= 1000, 'Retry-After is heeded');
});

test('a batch posted by a process that stopped is posted again with the same ids', async () => {
  receiver.answers.push((response) => response.socket?.pause());
  await append('INBOX');
  const notifier = await start();
  await receiver.until(1);
  await notifier.stop();
  await append('Sent');
  await start();
  await receiver.untilTold('Sent');
  const [, again, ...later] = receiver.batches;
  assert.deepEqual(again?.events, receiver.batches[0]?.events);
  for (const { events } of later) assert.deepEqual(events, later[0]?.events);
});

test('a receiver that is down gets everything when it is up again', async () => {
  const { url } = receiver;
  await receiver.stop();
  const { logger, lines } = logged();
  const port = Number(new URL(url).port);
  await append('INBOX');
  const notifier = await startNotifier({ directory, url, secret: SECRET, logger, ...quick });
  running.push(notifier);
  while (lines.length < 2) await new Promise((resolve) => setTimeout(resolve, 20));
  await append('Sent');
  receiver = await BatchReceiver.start(port);
  await receiver.untilTold('Sent');
  assert.deepEqual(receiver.mailboxes(), ['INBOX', 'Sent']);
  assert.match(lines.join(), /ECONNREFUSED/);
});

test('a batch that is not accepted is posted again within 5 s, after any number of failures', async () => {
  receiver.answers.push(say(500));
  const { logger, lines } = logged();
  await append('INBOX');
  // As many failures as in an hour.
  const { url } = receiver;
  const options = { directory, url, secret: SECRET, logger, limits: { retryMs: 3_600_000 } };
  running.push(await startNotifier(options));
  while (lines.length === 0) await new Promise((resolve) => setImmediate(resolve));
  const { afterMs } = JSON.parse(lines[0] ?? '');
  assert.ok(afterMs >= 2_500 && afterMs <= 5_000, String(afterMs));
});

test('rejected lines, refused batches and malformed lines are logged and skipped', async () => {
  const rejected = [{ line: 1, event_id: 'x', reason: 'user is not the address of an account' }];
  receiver.answers.push(say(200, JSON.stringify({ ok: true, accepted: 0, rejected })));
  receiver.answers.push(say(400, 'no line is an event'), say(413, 'too large'));
  const { logger, lines } = logged();
  await start(logger);
  await append('One');
  await receiver.untilTold('One');
  await append('Two');
  await receiver.untilTold('Two');
  await append('Three');
  await receiver.untilTold('Three');
  await appendFile(join(directory, 'events'), 'no event\n');
  await append('Four');
  await receiver.untilTold('Four');
  assert.deepEqual(receiver.mailboxes(), ['One', 'Two', 'Three', 'Four']);
  const log = lines.join();
  for (const text of ['not the address', '400 no line', '413 too large', 'no event']) {
    assert.ok(log.includes(text), text);
  }
});

test('files are rotated and removed while many write, and each line is posted', async () => {
  const { url } = receiver;
  const logger = pino({ level: 'silent' });
  const limits = { rotateBytes: 2_000, graceMs: 1_000, everyMs: 5 };
  running.push(await startNotifier({ directory, url, secret: SECRET, logger, limits }));
  const rotated = async () =>
    (await readdir(directory)).filter((name) => /^events\.\d+$/.test(name));
  const wanted: string[] = [];
  let changed = 0;
  for (let round = 0; round < 100 || changed < 2; round++) {
    const names = [1, 2, 3, 4, 5].map((writer) => `Box ${round} ${writer}`);
    await Promise.all(names.map((name) => append(name)));
    wanted.push(...names);
    changed = Math.max(changed, (await rotated()).length);
  }
  for (const name of wanted) await receiver.untilTold(name);
  assert.deepEqual(receiver.mailboxes().toSorted(), wanted.toSorted());
  // The last ones must outlive their grace time before they are removed.
  while ((await rotated()).length > 0) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
});

test('only one process uses the folder at a time', async () => {
  const first = await start();
  await assert.rejects(start(), /another notifier/);
  await first.stop();
  running.pop();
  await start();
});

test('after a damaged progress file everything is posted again', async () => {
  await append('INBOX');
  const first = await start();
  await receiver.until(1);
  await first.stop();
  assert.match(await readFile(join(directory, 'notifier.json'), 'utf8'), /positions/);
  await writeFile(join(directory, 'notifier.json'), '{"positions"');
  await start();
  await receiver.until(2);
  assert.deepEqual(receiver.mailboxes(), ['INBOX', 'INBOX']);
});

test('a missing folder stops the start', async () => {
  await rm(directory, { recursive: true });
  folders.pop();
  await assert.rejects(start());
});
