import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { changeLevel, openLog } from './log.ts';

let folder: string;
const open: number[] = [];
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postroom-log-'));
});
after(async () => {
  for (const fd of open) closeSync(fd);
  await rm(folder, { recursive: true, force: true });
});

function openFile(path: string, flags: string | number): number {
  const fd = openSync(path, flags);
  open.push(fd);
  return fd;
}

/** A pipe whose other end is not read until the test does. */
function makePipe(name: string): number {
  const path = join(folder, name);
  execFileSync('mkfifo', [path]);
  return openFile(path, constants.O_RDWR | constants.O_NONBLOCK);
}

/** What is in the pipe now. */
function drain(fd: number): string {
  const piece = Buffer.alloc(65_536);
  let text = '';
  for (;;) {
    try {
      text += piece.toString('latin1', 0, readSync(fd, piece));
    } catch {
      // EAGAIN: it is empty.
      return text;
    }
  }
}

const parse = (text: string): Record<string, unknown>[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

/** The lines of a closed log, once the last one is there: the close waits for a busy disk no longer than 200 ms. */
async function linesOf(path: string, last: string): Promise<Record<string, unknown>[]> {
  for (;;) {
    const text = await readFile(path, 'utf8');
    if (text.includes(last) && text.endsWith('\n')) return parse(text);
    await pause(10);
  }
}

test('lines come in order, each once, as JSON; printed text becomes lines too', async () => {
  const path = join(folder, 'order');
  const log = openLog('info', openFile(path, 'w'));
  log.logger.info({ n: 0 }, 'first');
  log.print('Postroom listens\nData: here\n');
  log.logger.debug('not at this level');
  for (let n = 1; n < 1_000; n++) log.logger.info({ n }, 'more');
  await log.close();
  const lines = await linesOf(path, '"n":999,');
  assert.deepEqual(
    lines.slice(0, 4).map(({ msg }) => msg),
    ['first', 'Postroom listens', 'Data: here', 'more'],
  );
  assert.deepEqual(
    lines.filter(({ n }) => n !== undefined).map(({ n }) => n),
    Array.from({ length: 1_000 }, (_, n) => n),
  );
});

test('the level changes while it runs, of child loggers too, and a line says so', async () => {
  const path = join(folder, 'level');
  const log = openLog('info', openFile(path, 'w'));
  const child = log.logger.child({ part: 'smtp' }).child({ client: 1 });
  const say = () => {
    for (const logger of [log.logger, child]) {
      logger.debug('debug');
      logger.warn('warn');
    }
  };
  say();
  changeLevel(log.logger, 'debug');
  say();
  changeLevel(log.logger, 'error');
  say();
  await log.close();
  const changed = 'the log level was changed; the change lasts until the process ends';
  assert.deepEqual(
    (await linesOf(path, '"from":"debug"')).map(({ msg, from }) => (from ? [from, msg] : msg)),
    ['warn', 'warn', ['info', changed], 'debug', 'warn', 'debug', 'warn', ['debug', changed]],
  );
});

test('a line waits a moment for others, a warning does not', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const pipe = makePipe('moment');
  const { logger } = openLog('info', pipe);
  let text = '';
  const waitFor = async (word: string) => {
    while (!text.includes(word)) {
      await new Promise((resolve) => setImmediate(resolve));
      text += drain(pipe);
    }
  };
  logger.info('one');
  assert.equal(drain(pipe), '');
  context.mock.timers.tick(100);
  await waitFor('one');
  logger.info('two');
  logger.warn('three');
  await waitFor('three');
  assert.match(text, /one.*\n.*two.*\n.*three/);
});

test('what has been told of an error is not told again, except of one delivery', async () => {
  const pipe = makePipe('hushed');
  const { logger, hush, close } = openLog('info', pipe);
  const [err, other] = [new Error('away'), new Error('other')];
  hush((error) => error === err);
  logger.error({ err }, 'one');
  logger.warn({ err, kind: 'send' }, 'two');
  logger.warn({ err: other }, 'three');
  logger.error({ err, id: 7 }, 'four');
  logger.error('five');
  logger.info({ err }, 'six');
  logger.fatal({ err }, 'end');
  hush(() => false);
  logger.error({ err }, 'seven');
  await close();
  assert.deepEqual(
    parse(drain(pipe)).map(({ msg }) => msg),
    ['three', 'four', 'five', 'six', 'end', 'seven'],
  );
});

test('a pipe that is not read does not block, and a line says how many lines were lost', async () => {
  const pipe = makePipe('stalled');
  const log = openLog('info', pipe);
  const many = 30_000;
  for (let n = 0; n < many; n++) log.logger.info({ n }, 'x'.repeat(60));
  let text = '';
  while (!text.includes('log lines were lost: they came faster than the output took them')) {
    await pause(10);
    text += drain(pipe);
  }
  const lines = parse(text.slice(0, text.lastIndexOf('\n')));
  const kept = lines.filter(({ n }) => n !== undefined);
  const told = lines.find(
    ({ msg }) => msg === 'log lines were lost: they came faster than the output took them',
  );
  assert.equal(told?.level, 40);
  assert.equal(Number(told?.lines) + kept.length, many);
  assert.ok(kept.length > 5_000 && kept.length < 20_000, `${kept.length} of ${many} were kept`);
  assert.deepEqual(
    kept.map(({ n }) => n),
    Array.from({ length: kept.length }, (_, n) => n),
  );
});

test('a full disk does not block, and waiting lines are written when there is room', async () => {
  const log = openLog('info', openFile('/dev/full', 'w'));
  log.logger.error('lost');
  await log.close();

  const pipe = makePipe('full');
  const waiting = openLog('info', pipe);
  for (let n = 0; n < 5_000; n++) waiting.logger.info({ n }, 'x'.repeat(60));
  await waiting.close();
  let text = '';
  while (!text.includes('"n":4999')) {
    await pause(10);
    text += drain(pipe);
  }
  assert.equal(parse(text).length, 5_000);
});
