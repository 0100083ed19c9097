/**
 * Taking in messages of 20 KB by SMTP, durable before 250, against reference S: a bare `smtp-server`
 * that writes and fsyncs one file for each.
 *
 * A new file takes new memory for its pages. On a virtual machine that has to be given it by its host,
 * each costs the reference some 700 us more: it then makes 1,500 messages a second at 20 connections,
 * and 3,500 where the memory is at hand. Ours writes to the same few files and makes about the same.
 *
 * On PostgreSQL the reference is pgbench: the same transaction, without the protocol and the sender checks.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withAccounts } from './support/accounts.ts';
import { atLeast, type Benchmark, type Figure, interleave } from './support/figures.ts';
import type { SmtpLoad, SmtpSent } from './support/load-smtp.ts';
import { message20K } from './support/messages.ts';
import { runPgbench, writeScript } from './support/pgbench.ts';
import type { Spool } from './support/reference-smtp.ts';
import { startWorker } from './support/worker.ts';

const LOADS = [
  { connections: 20, messages: 3_000, target: 0.7 },
  { connections: 1, messages: 500, target: 0.7 },
];
const ROUNDS = 5;

/** On PostgreSQL, for accounts in turn, against pgbench that runs the same write. */
const postgresLoad = { connections: 20, messages: 3_000, accounts: 100, seconds: 4, target: 0.7 };

function besidePgbench(postgres: string): Promise<Figure[]> {
  const { connections, messages, accounts, seconds, target } = postgresLoad;
  return withAccounts(
    accounts,
    async ({ smtpPort }, seeded, { dataDir, databaseUrl = '' }) => {
      const path = join(dataDir, 'message');
      writeFileSync(path, message20K());
      const [first = '', ...others] = seeded.map(({ address }) => address);
      const script = join(dataDir, 'pgbench.sql');
      writeScript(script, path);
      const generator = startWorker<SmtpLoad, SmtpSent>('load-smtp.ts');
      try {
        const recipients: SmtpLoad['recipients'] = [first, ...others];
        const load = { port: smtpPort, connections, messages, recipients, path };
        const ours = async () => messages / (await generator.ask(load)).seconds;
        // Makes the mailboxes, too.
        await ours();
        const options = { clients: connections, accounts, seconds };
        const reference = () => runPgbench(databaseUrl, script, options);
        const rates = await interleave(ROUNDS, { reference, ours });
        const name = `SMTP, 20 KB, ${connections} connections, beside pgbench`;
        return [atLeast(name, 'msg/s', rates.ours, rates.reference, target)];
      } finally {
        await generator.stop();
      }
    },
    [],
    postgres,
  );
}

function besideSpool(): Promise<Figure[]> {
  return withAccounts(1, async ({ smtpPort }, [account], { dataDir }) => {
    const spool = join(dataDir, 'reference');
    mkdirSync(spool);
    const path = join(dataDir, 'message');
    writeFileSync(path, message20K());
    const recipients: SmtpLoad['recipients'] = [account?.address ?? ''];
    const reference = startWorker<Spool, number>('reference-smtp.ts');
    const generator = startWorker<SmtpLoad, SmtpSent>('load-smtp.ts');
    try {
      const referencePort = await reference.ask({ folder: spool });
      const figures: Figure[] = [];
      for (const { connections, messages, target } of LOADS) {
        let used: SmtpSent['generator'] | undefined;
        const send = async (port: number, count = messages) => {
          const load = { port, connections, messages: count, recipients, path };
          const { seconds, generator: by } = await generator.ask(load);
          used = by;
          return count / seconds;
        };
        // Long enough for both to be compiled: they are servers, which run for weeks.
        for (const port of [referencePort, smtpPort]) await send(port, 2 * messages);
        const rates = await interleave(ROUNDS, {
          reference: () => send(referencePort),
          ours: () => send(smtpPort),
        });
        const name = `SMTP, 20 KB, ${connections} connections (${used})`;
        figures.push(atLeast(name, 'msg/s', rates.ours, rates.reference, target));
      }
      return figures;
    } finally {
      await Promise.all([reference.stop(), generator.stop()]);
    }
  });
}

export const smtpIngest: Benchmark = {
  name: 'smtp-ingest',
  run: ({ postgres }) => (postgres === undefined ? besideSpool() : besidePgbench(postgres)),
};
