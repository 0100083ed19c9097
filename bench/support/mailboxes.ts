/**
 * The mailboxes that the benchmarks of /mail read, filled once for all of them: each starts the
 * service on it anew.
 */
import type { BenchmarkOptions } from './figures.ts';
import { makePlace, type Place } from './folders.ts';
import type { Seed, SeededAccount } from './seed.ts';
import { type RunningService, startService } from './service.ts';
import { startWorker } from './worker.ts';

export const MANY = 100_000;
export const FEW = 100;
/** More than the service keeps as JSON. */
export const MESSAGES_OF_20_KB = 2_000;

interface Filled {
  readonly place: Place;
  readonly few: SeededAccount;
  /** Ends with the 10 added, 20 updated, 5 removed. */
  readonly many: SeededAccount;
  readonly of20KB: SeededAccount;
  readonly attachment: SeededAccount;
}

let filled: Promise<Filled> | undefined;

async function fill(postgres: string | undefined): Promise<Filled> {
  console.log(`Filling mailboxes of ${FEW} and ${MANY} messages ...`);
  const place = await makePlace(postgres);
  const { dataDir, databaseUrl } = place;
  const seeder = startWorker<Seed, SeededAccount[]>('seed.ts');
  const [few, many, of20KB, attachment] = await seeder.ask({
    dataDir,
    databaseUrl,
    accounts: [
      { messages: FEW },
      { messages: MANY - 5, interleaved: true, changes: true },
      { mail: '20 KB', messages: MESSAGES_OF_20_KB },
      { mail: '5 MB attachment', messages: 1 },
      ...Array.from({ length: 4 }, () => ({})),
    ],
  });
  await seeder.stop();
  if (!few || !many || !of20KB || !attachment) throw new Error('an account is missing');
  return { place, few, many, of20KB, attachment };
}

/** Runs `measure` beside a service that has the mailboxes. */
export async function withMailboxes<T>(
  { postgres }: BenchmarkOptions,
  measure: (service: RunningService, mailboxes: Filled) => Promise<T>,
): Promise<T> {
  filled ??= fill(postgres);
  const mailboxes = await filled;
  const { dataDir, databaseUrl } = mailboxes.place;
  const service = await startService(dataDir, [], { databaseUrl });
  try {
    return await measure(service, mailboxes);
  } finally {
    await service.stop();
  }
}

export async function removeMailboxes(): Promise<void> {
  await (await filled)?.place.remove();
}
