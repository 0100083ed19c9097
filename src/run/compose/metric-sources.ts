/** The values that the metrics read from the parts at each scrape. */
import { statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { readDepths } from '../../mail/queue/queue.ts';
import type { ImapMailstore } from '../../mailboxes/mail-server/mail-server.ts';
import type { Search } from '../../mailboxes/search/search.ts';
import { firstOnDisks } from '../../platform/files/files.ts';
import { HOUR_MS } from '../../platform/time/time.ts';
import { version } from '../../servers/api/api.ts';
import type { MetricSources } from '../../servers/metrics/metrics.ts';
import { countUnableToSend } from '../../tenants/domains/domains.ts';
import { databaseFile } from '../config/config.ts';
import type { Common } from './common.ts';

interface Watched extends Common, Pick<MetricSources, 'connections' | 'shared'> {
  readonly imap: ImapMailstore | undefined;
  readonly search: Search;
}

export function metricSources(watched: Watched): MetricSources {
  const { config, database, metrics, connections, bodies, imap, search, shared, nodes } = watched;
  const maxAgeMs = config.limits.backupMaxAgeHours * HOUR_MS;
  metrics.setBuild({ version, database: database.engine });
  const log = `${databaseFile(config.dataDir)}-wal`;
  return {
    connections,
    now: watched.now,
    ...(nodes.clockOff && { clockOff: nodes.clockOff }),
    shared,
    queueDepths: () => readDepths(database.read),
    domainsUnableToSend: () => countUnableToSend(database.read),
    bodiesUp: () => bodies.isUp(),
    ...(maxAgeMs > 0 && {
      backupOld: async () => watched.now() - ((await bodies.lastBackupAt()) ?? 0) > maxAgeMs,
    }),
    async disks() {
      const { bucket, folder, spool } = config.bodies;
      const folders = await firstOnDisks([config.dataDir, bucket ? spool : folder]);
      return Promise.all(
        folders.map(async (one) => {
          const { bavail, blocks, bsize } = await statfs(one);
          return { folder: one, free: bavail * bsize, size: blocks * bsize };
        }),
      );
    },
    ...(database.engine === 'sqlite' && {
      logOctets: () => statSync(log, { throwIfNoEntry: false })?.size ?? 0,
    }),
    ...(imap ? { mailServer: () => imap.load } : { searchWaiting: () => search.waiting() }),
  };
}
