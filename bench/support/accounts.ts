/** A service with accounts and no mail, for the benchmarks that bring something in. */
import { makeFolder, removeFolder } from './folders.ts';
import type { Seed, SeededAccount } from './seed.ts';
import { type RunningService, startService } from './service.ts';
import { startWorker } from './worker.ts';

/** Runs `measure` beside a service that has so many accounts. */
export async function withAccounts<T>(
  count: number,
  measure: (
    service: RunningService,
    accounts: readonly SeededAccount[],
    folder: string,
  ) => Promise<T>,
  nodeArgs: readonly string[] = [],
): Promise<T> {
  const folder = makeFolder();
  try {
    const seeder = startWorker<Seed, SeededAccount[]>('seed.ts');
    const accounts = await seeder.ask({
      dataDir: folder,
      accounts: Array.from({ length: count }, () => ({})),
    });
    await seeder.stop();
    const service = await startService(folder, nodeArgs);
    try {
      return await measure(service, accounts, folder);
    } finally {
      await service.stop();
    }
  } finally {
    removeFolder(folder);
  }
}
