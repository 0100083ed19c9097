/** A service with accounts and no mail, for the benchmarks that bring something in. */
import { makePlace, type Place } from './folders.ts';
import type { Seed, SeededAccount } from './seed.ts';
import { type RunningService, startService } from './service.ts';
import { startWorker } from './worker.ts';

/**
 * Runs `measure` beside a service that has so many accounts.
 *
 * @param postgres URL of a server; SQLite when left out
 */
export async function withAccounts<T>(
  count: number,
  measure: (
    service: RunningService,
    accounts: readonly SeededAccount[],
    place: Place,
  ) => Promise<T>,
  nodeArgs: readonly string[] = [],
  postgres?: string,
): Promise<T> {
  const place = await makePlace(postgres);
  const { dataDir, databaseUrl } = place;
  try {
    const seeder = startWorker<Seed, SeededAccount[]>('seed.ts');
    const accounts = await seeder.ask({
      dataDir,
      databaseUrl,
      accounts: Array.from({ length: count }, () => ({})),
    });
    await seeder.stop();
    const service = await startService(dataDir, nodeArgs, { databaseUrl });
    try {
      return await measure(service, accounts, place);
    } finally {
      await service.stop();
    }
  } finally {
    await place.remove();
  }
}
