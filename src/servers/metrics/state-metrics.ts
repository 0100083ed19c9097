/**
 * Metrics of the current state: database, disk, queue, search index, connections of the mail server. Most are read at
 * each scrape; values that need a query over many rows are cached for a while.
 */
import type { QueueDepth } from '../../mail/queue/queue.ts';
import type { Instruments } from './instruments.ts';

export interface MetricSources {
  /** Open connections of the realtime channel. */
  connections(): number;
  /** The queued and held deliveries of each kind. */
  queueDepths(): Promise<readonly QueueDepth[]>;
  /** Active domains that cannot send; those that an operator suspended are left out. */
  domainsUnableToSend?(): Promise<number>;
  /** Milliseconds since 1970, by the clock that deliveries are dated with. */
  now(): number;
  /** The disk of DATA_DIR, and that of its bodies where it is another one: free bytes, and the size. */
  disks?(): Promise<
    readonly { readonly folder: string; readonly free: number; readonly size: number }[]
  >;
  /** Whether the bucket of bodies answers, or their folder can be written. */
  bodiesUp?(): Promise<boolean>;
  /** By how many milliseconds the clock of this machine is ahead of the database's; left out where that has none. */
  clockOff?(): number;
  /** Whether the last backup is older than asked; left out where nobody asks. */
  backupOld?(): Promise<boolean>;
  /** Bytes of SQLite's log. */
  logOctets?(): number;
  /** Changes that the search index does not have yet. */
  searchWaiting?(): Promise<number | undefined>;
  /** Connections to the mail server, and requests that wait for one. */
  mailServer?(): { readonly open: number; readonly waiting: number };
  /** What several nodes share; left out for a single one. */
  readonly shared?: SharedSource | undefined;
}

export interface SharedSource {
  /** Whether Redis answers. */
  isUp(): boolean;
  /** Changes that were sent to other nodes, came from them, or were invalid; since the start. */
  readonly counts: Readonly<Record<string, number>>;
}

/** One transaction that was committed. */
export interface CommitReport {
  /** Milliseconds from its begin until it was durable. */
  readonly ms: number;
  /** Milliseconds of that for the sync; undefined where another server does it, or nothing was written. */
  readonly syncMs?: number | undefined;
}

/**
 * How long what is counted over many rows is cached, also in multiples of the time that the count took: at a million
 * deliveries that is some tenths of a second.
 */
const KEPT_MS = 15_000;
const KEPT_TIMES = 200;

const DISK_BUCKETS = [0.0005, 0.002, 0.005, 0.02, 0.05, 0.2, 1, 5];

export function addStateMetrics(instruments: Instruments, sources: () => MetricSources) {
  const { counter, gauge, histogram } = instruments;
  const commits = histogram(
    'postroom_database_commit_duration_seconds',
    'From the begin of a transaction until it is durable.',
    DISK_BUCKETS,
  );
  const syncs = histogram(
    'postroom_database_sync_duration_seconds',
    'How long the disk took to make a transaction durable (SQLite).',
    DISK_BUCKETS,
  );
  const logins = counter(
    'postroom_mailserver_logins_total',
    'Logins at the mail server (MAILSTORE_URL), by result.',
    ['result'],
  );
  const certificate = gauge(
    'postroom_certificate_end_timestamp_seconds',
    'When the certificate of STARTTLS ends, seconds since 1970.',
  );
  const broken = gauge(
    'postroom_certificate_broken',
    '1 while the files of the certificate cannot be used, so that the one before stays in use, else 0.',
  );
  const build = gauge('postroom_build_info', '1, with what runs as labels.', [
    'version',
    'node',
    'database',
  ]);
  addQueueGauges(instruments, sources);
  addResourceGauges(instruments, sources);
  return {
    countCommit({ ms, syncMs }: CommitReport) {
      commits.observe(ms / 1000);
      if (syncMs !== undefined) syncs.observe(syncMs / 1000);
    },
    /** @param result `refused`: the server refused the login; `failed`: it did not answer */
    countMailServerLogin(result: 'succeeded' | 'refused' | 'failed') {
      logins.inc({ result });
    },
    setCertificateEnd(end: Date) {
      certificate.set(end.getTime() / 1000);
    },
    /** Sets whether the files have an unusable certificate, so that an older one is in use. */
    setCertificateBroken(isBroken: boolean) {
      broken.set(Number(isBroken));
    },
    setBuild({ version, database }: { readonly version: string; readonly database: string }) {
      build.set({ version, node: process.version, database }, 1);
    },
  };
}

/** A count that is not made again for a while; one that failed is. */
function kept<Value>(count: () => Promise<Value>): () => Promise<Value> {
  let value: Promise<Value> | undefined;
  let keptUntil = 0;
  return () => {
    const now = performance.now();
    if (value && now < keptUntil) return value;
    keptUntil = Number.POSITIVE_INFINITY;
    value = count();
    value.then(
      () => {
        const took = performance.now() - now;
        keptUntil = now + Math.max(KEPT_MS, KEPT_TIMES * took);
      },
      () => {
        value = undefined;
      },
    );
    return value;
  };
}

function addQueueGauges({ readEach }: Instruments, sources: () => MetricSources): void {
  const depths = kept(() => sources().queueDepths());
  readEach(
    'postroom_queue_depth',
    'Deliveries that have not ended, by kind and state.',
    depths,
    ['kind', 'state'],
    (gauge, { kind, state, count }) => gauge.set({ kind, state }, count),
  );
  readEach(
    'postroom_queue_oldest_age_seconds',
    'Age of the oldest delivery that is queued, by kind.',
    depths,
    ['kind'],
    (gauge, { kind, state, oldestCreatedAt }) => {
      if (state === 'queued') gauge.set({ kind }, (sources().now() - oldestCreatedAt) / 1000);
    },
  );
  readEach(
    'postroom_queue_overdue_seconds',
    'How long the longest due delivery waits beyond its own schedule, by kind.',
    depths,
    ['kind'],
    (gauge, { kind, state, nextAttemptAt }) => {
      const late = Math.max(0, sources().now() - nextAttemptAt);
      if (state === 'queued') gauge.set({ kind }, late / 1000);
    },
  );
}

const flag = (is: boolean | undefined) => (is === undefined ? undefined : Number(is));

function addResourceGauges({ read, readEach }: Instruments, sources: () => MetricSources): void {
  read('postroom_realtime_connections', 'Open connections of the realtime channel.', async () =>
    sources().connections(),
  );
  read(
    'postroom_domains_cannot_send',
    'Active domains that cannot send, since their DKIM record is not verified.',
    kept(async () => sources().domainsUnableToSend?.()),
  );
  const disks = async () => (await sources().disks?.()) ?? [];
  readEach(
    'postroom_disk_free_bytes',
    'Free on the disk of DATA_DIR, and on that of its bodies where it is another one.',
    disks,
    ['folder'],
    (gauge, { folder, free }) => gauge.set({ folder }, free),
  );
  readEach(
    'postroom_disk_size_bytes',
    'Size of these disks.',
    disks,
    ['folder'],
    (gauge, { folder, size }) => gauge.set({ folder }, size),
  );
  read('postroom_database_log_bytes', "Size of SQLite's write-ahead log.", async () =>
    sources().logOctets?.(),
  );
  read('postroom_body_store_up', 'Whether the store of bodies works.', async () =>
    flag(await sources().bodiesUp?.()),
  );
  read(
    'postroom_backup_old',
    '1 while no backup was made within BACKUP_MAX_AGE_HOURS, else 0; absent where that is 0.',
    async () => flag(await sources().backupOld?.()),
  );
  read(
    'postroom_clock_offset_seconds',
    "How far the clock of this machine is ahead of the database's.",
    async () => {
      const ms = sources().clockOff?.();
      return ms === undefined ? undefined : ms / 1_000;
    },
  );
  read('postroom_search_waiting', 'Changes that the search index does not have yet.', async () =>
    sources().searchWaiting?.(),
  );
  read(
    'postroom_mailserver_connections',
    'Open connections to the mail server.',
    async () => sources().mailServer?.().open,
  );
  read(
    'postroom_mailserver_waiting_requests',
    'Requests that wait for a connection to the mail server.',
    async () => sources().mailServer?.().waiting,
  );
}
