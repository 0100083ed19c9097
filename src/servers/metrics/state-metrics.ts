/**
 * Metrics of the current state: database, disk, queue, search index, connections of the mail server. Most are read at
 * each scrape; values that need a query over many rows are cached for a while.
 */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { QueueDepth } from '../../mail/queue/queue.ts';
import { within } from '../../platform/time/time.ts';

export interface MetricSources {
  /** Open connections of the realtime channel. */
  connections(): number;
  /** The queued and held deliveries of each kind. */
  queueDepths(): Promise<readonly QueueDepth[]>;
  /** Active domains that cannot send; those that an operator suspended are left out. */
  domainsUnableToSend?(): Promise<number>;
  /** Milliseconds since 1970, by the clock that deliveries are dated with. */
  now(): number;
  /** Free bytes on the disk of DATA_DIR, and its size. */
  disk?(): Promise<{ readonly free: number; readonly size: number }>;
  /** Whether the bucket of bodies answers; left out for a folder. */
  bodiesUp?(): boolean | undefined;
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

/** `refused`: the server refused the login; `failed`: it did not answer. */
export type MailServerLogin = 'succeeded' | 'refused' | 'failed';

export interface StateMetrics {
  countCommit(report: CommitReport): void;
  countMailServerLogin(result: MailServerLogin): void;
  setCertificateEnd(end: Date): void;
  /** Sets whether the files have an unusable certificate, so that an older one is in use. */
  setCertificateBroken(isBroken: boolean): void;
  setBuild(build: { readonly version: string; readonly database: string }): void;
}

/**
 * How long what is counted over many rows is cached, also in multiples of the time that the count took: at a million
 * deliveries that is some tenths of a second.
 */
const KEPT_MS = 15_000;
const KEPT_TIMES = 200;

/** How long a scrape waits for a value of the database or the disk; then the value is left out. */
const READ_MS = 500;

/** Reads a value for a gauge: where that fails or takes too long, it is undefined, and the name is noted among the unread. */
type ReadInTime = <Value>(name: string, value: Promise<Value>) => Promise<Value | undefined>;

const readerFor =
  (unread: Set<string>): ReadInTime =>
  async (name, value) => {
    const failed = Symbol(name);
    const found = await within(
      value.catch(() => failed),
      READ_MS,
      failed,
    );
    if (typeof found === 'symbol') {
      unread.add(name);
      return undefined;
    }
    unread.delete(name);
    return found;
  };

const DISK_BUCKETS = [0.0005, 0.002, 0.005, 0.02, 0.05, 0.2, 1, 5];

/** @param unread gets the names of gauges that could not be read when they were last asked */
export function addStateMetrics(
  registry: Registry,
  sources: () => MetricSources,
  unread: Set<string>,
): StateMetrics {
  const registers = [registry];
  const commits = new Histogram({
    name: 'postroom_database_commit_duration_seconds',
    help: 'From the begin of a transaction until it is durable.',
    buckets: DISK_BUCKETS,
    registers,
  });
  const syncs = new Histogram({
    name: 'postroom_database_sync_duration_seconds',
    help: 'How long the disk took to make a transaction durable (SQLite).',
    buckets: DISK_BUCKETS,
    registers,
  });
  const logins = new Counter({
    name: 'postroom_mailserver_logins_total',
    help: 'Logins at the mail server (MAILSTORE_URL), by result.',
    labelNames: ['result'] as const,
    registers,
  });
  const certificate = new Gauge({
    name: 'postroom_certificate_end_timestamp_seconds',
    help: 'When the certificate of STARTTLS ends, seconds since 1970.',
    registers,
  });
  const broken = new Gauge({
    name: 'postroom_certificate_broken',
    help: '1 while the files of the certificate cannot be used, so that the one before stays in use, else 0.',
    registers,
  });
  const build = new Gauge({
    name: 'postroom_build_info',
    help: '1, with what runs as labels.',
    labelNames: ['version', 'node', 'database'] as const,
    registers,
  });
  const inTime = readerFor(unread);
  addQueueGauges(registry, sources, inTime);
  addResourceGauges(registry, sources, inTime);
  return {
    countCommit({ ms, syncMs }) {
      commits.observe(ms / 1000);
      if (syncMs !== undefined) syncs.observe(syncMs / 1000);
    },
    countMailServerLogin: (result) => logins.inc({ result }),
    setCertificateEnd: (end) => certificate.set(end.getTime() / 1000),
    setCertificateBroken: (isBroken) => broken.set(Number(isBroken)),
    setBuild: ({ version, database }) => build.set({ version, node: process.version, database }, 1),
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

function addQueueGauges(
  registry: Registry,
  sources: () => MetricSources,
  inTime: ReadInTime,
): void {
  const readDepths = kept(() => sources().queueDepths());
  const gauge = <Label extends 'kind' | 'state'>(
    text: { readonly name: string; readonly help: string },
    labelNames: readonly Label[],
    set: (gauge: Gauge<Label>, depth: QueueDepth) => void,
  ) =>
    new Gauge<Label>({
      ...text,
      labelNames,
      registers: [registry],
      async collect() {
        const found = await inTime(text.name, readDepths());
        this.reset();
        for (const depth of found ?? []) set(this, depth);
      },
    });
  gauge(
    {
      name: 'postroom_queue_depth',
      help: 'Deliveries that have not ended, by kind and state.',
    },
    ['kind', 'state'],
    (gauge, { kind, state, count }) => gauge.set({ kind, state }, count),
  );
  gauge(
    {
      name: 'postroom_queue_oldest_age_seconds',
      help: 'Age of the oldest delivery that is queued, by kind.',
    },
    ['kind'],
    (gauge, { kind, state, oldestCreatedAt }) => {
      if (state === 'queued') gauge.set({ kind }, (sources().now() - oldestCreatedAt) / 1000);
    },
  );
  gauge(
    {
      name: 'postroom_queue_overdue_seconds',
      help: 'How long the longest due delivery waits beyond its own schedule, by kind.',
    },
    ['kind'],
    (gauge, { kind, state, nextAttemptAt }) => {
      const late = Math.max(0, sources().now() - nextAttemptAt);
      if (state === 'queued') gauge.set({ kind }, late / 1000);
    },
  );
}

function addResourceGauges(
  registry: Registry,
  sources: () => MetricSources,
  inTime: ReadInTime,
): void {
  const read = (name: string, help: string, value: () => Promise<number | undefined>) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      async collect() {
        // An unreadable value is left out: then the other metrics are needed most.
        const now = await inTime(name, value());
        if (now === undefined) this.remove();
        else this.set(now);
      },
    });
  read('postroom_realtime_connections', 'Open connections of the realtime channel.', async () =>
    sources().connections(),
  );
  const countUnable = kept(async () => sources().domainsUnableToSend?.());
  read(
    'postroom_domains_cannot_send',
    'Active domains that cannot send, since their DKIM record is not verified.',
    countUnable,
  );
  read('postroom_disk_free_bytes', 'Free on the disk of DATA_DIR.', async () => {
    return (await sources().disk?.())?.free;
  });
  read('postroom_disk_size_bytes', 'Size of the disk of DATA_DIR.', async () => {
    return (await sources().disk?.())?.size;
  });
  read('postroom_database_log_bytes', "Size of SQLite's write-ahead log.", async () =>
    sources().logOctets?.(),
  );
  read('postroom_body_store_up', 'Whether the bucket of bodies answers.', async () => {
    const isUp = sources().bodiesUp?.();
    return isUp === undefined ? undefined : Number(isUp);
  });
  read(
    'postroom_backup_old',
    '1 while no backup was made within BACKUP_MAX_AGE_HOURS, else 0; absent where that is 0.',
    async () => {
      const isOld = await sources().backupOld?.();
      return isOld === undefined ? undefined : Number(isOld);
    },
  );
  read('postroom_search_waiting', 'Changes that the search index does not have yet.', async () =>
    sources().searchWaiting?.(),
  );
  read('postroom_mailserver_connections', 'Open connections to the mail server.', async () => {
    return sources().mailServer?.().open;
  });
  read(
    'postroom_mailserver_waiting_requests',
    'Requests that wait for a connection to the mail server.',
    async () => sources().mailServer?.().waiting,
  );
}
