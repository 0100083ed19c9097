/**
 * Runs the benchmarks, all or those named:
 * `npm run bench -- [--profile] [--postgres] [--messages N] [name...]`.
 *
 * Each measures the service, started as an operator starts it, beside a reference on the same
 * machine at the same time, and what counts is the ratio. `--profile` leaves the service slower and
 * shows for each of its runs where the time went. `search` takes `--messages` (of its large account).
 * `--postgres` measures on the server that TEST_DATABASE_URL names, in place of SQLite. `nodes` needs it, and Redis.
 */
import { mkdtempSync } from 'node:fs';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { attachment } from './attachment.ts';
import { firstSync } from './first-sync.ts';
import { imap } from './imap.ts';
import { imapIdle } from './imap-idle.ts';
import { imapSync } from './imap-sync.ts';
import { mailActions } from './mail-actions.ts';
import { mailserverEvents } from './mailserver-events.ts';
import { message } from './message.ts';
import { mixed } from './mixed.ts';
import { nodes } from './nodes.ts';
import { queueCost } from './queue-cost.ts';
import { realtime } from './realtime.ts';
import { search } from './search.ts';
import { sendHere } from './send-here.ts';
import { smtpIngest } from './smtp-ingest.ts';
import { type Figure, printTable } from './support/figures.ts';
import { removeMailboxes } from './support/mailboxes.ts';
import { printProfiles } from './support/profiles.ts';
import { syncChanges } from './sync-changes.ts';
import { syncUnchanged } from './sync-unchanged.ts';
import { webhooksDeadReceiver } from './webhooks-dead-receiver.ts';
import { webhooksFanOut } from './webhooks-fan-out.ts';

const benchmarks = [
  mixed,
  syncUnchanged,
  syncChanges,
  message,
  mailActions,
  sendHere,
  attachment,
  firstSync,
  imap,
  imapIdle,
  imapSync,
  smtpIngest,
  search,
  mailserverEvents,
  realtime,
  nodes,
  queueCost,
  webhooksFanOut,
  webhooksDeadReceiver,
];

const { values: flags, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    profile: { type: 'boolean', default: false },
    postgres: { type: 'boolean', default: false },
    messages: { type: 'string', default: '100000' },
  },
});
const options = {
  postgres: flags.postgres ? process.env.TEST_DATABASE_URL : undefined,
  messages: Number(flags.messages),
};
if (flags.postgres && options.postgres === undefined) {
  console.error('--postgres: TEST_DATABASE_URL has to name a PostgreSQL server.');
  process.exit(1);
}
if (!Number.isSafeInteger(options.messages) || options.messages < 5_000) {
  console.error('--messages: a whole number from 5,000 on.');
  process.exit(1);
}
const unknown = names.filter((name) => !benchmarks.some((known) => known.name === name));
if (unknown.length > 0) {
  console.error(`There is no benchmark ${unknown.join(', ')}.`);
  console.error(`There are: ${benchmarks.map(({ name }) => name).join(', ')}`);
  process.exit(1);
}

const [load = 0] = loadavg();
if (load > availableParallelism() / 2) {
  console.log(
    `The machine is busy with other things (load ${load.toFixed(1)}): ratios will be off.`,
  );
}

const figures: Figure[] = [];
try {
  for (const benchmark of benchmarks) {
    if (names.length > 0 && !names.includes(benchmark.name)) continue;
    const from = performance.now();
    if (flags.profile) {
      process.env.BENCH_PROFILE = mkdtempSync(
        join(tmpdir(), `postroom-profile-${benchmark.name}-`),
      );
    }
    try {
      const found = await benchmark.run(options);
      figures.push(...found);
      printTable(found);
    } catch (error) {
      console.error(`${benchmark.name} failed:`, error);
      process.exitCode = 1;
    }
    if (process.env.BENCH_PROFILE) printProfiles(process.env.BENCH_PROFILE);
    console.log(`${benchmark.name}: ${((performance.now() - from) / 1000).toFixed(0)} s\n`);
  }
} finally {
  await removeMailboxes();
}
printTable(figures);
