/**
 * What needs an operator now. Each rule looks at one thing: at gauges that this node exports to Prometheus, or at the
 * database. Rules that watch what an alert of `deploy/prometheus/alerts.yml` watches have its limits; a test compares both.
 */
import { findFailingReceivers, findHeld } from '../../mail/queue/queue.ts';
import { many } from '../../platform/errors/errors.ts';
import { OFF_MS } from '../../platform/nodes/nodes.ts';
import { type EpochMs, HOUR_MS, MINUTE_MS, within } from '../../platform/time/time.ts';
import { countLapsedClaims, countPendingClaims } from '../../tenants/domains/domains.ts';
import type { RuleName } from './attention-advice.ts';
import {
  DISK_FREE,
  diskSize,
  lookAtDatabase,
  lookAtDeferredMail,
  lookAtDisk,
  lookAtVersions,
  lookForLostBodies,
  lookForSilentNodes,
  type NodeParts,
} from './node-attention.ts';
import {
  lookAtBlockLists,
  lookAtBounces,
  lookAtMailboxes,
  lookAtSenders,
  SENDER_LIMITS,
} from './sender-attention.ts';

export const LEVELS = ['critical', 'warning', 'note'] as const;
export type Level = (typeof LEVELS)[number];

/** What a rule found. */
export interface Finding {
  /** One sentence: what, how many, and what follows. */
  readonly text: string;
  readonly count: number;
  readonly since?: EpochMs | undefined;
  /** Path of the console's screen, below `/console`. */
  readonly link: string;
}

export interface AttentionParts extends NodeParts {
  readonly backups: {
    /** How old the last one may be; 0: nobody asks. */
    readonly maxAgeMs: number;
    /** When the last one was made; undefined where none was noted. */
    lastAt(): Promise<EpochMs | undefined>;
  };
}

export interface Rule {
  readonly name: RuleName;
  readonly level: Level;
  /** @returns undefined where all is well */
  look(parts: AttentionParts): Promise<Finding | undefined>;
}

/** What a look at a rule came to; `unknown`: it failed, or took too long. */
export interface Checked {
  readonly rule: Rule;
  readonly state: 'ok' | 'found' | 'unknown';
  readonly finding?: Finding;
}

/** The limits; those of alerts in the units of `alerts.yml`. */
export const LIMITS = {
  diskFree: DISK_FREE,
  overdueSeconds: 600,
  certificateSeconds: 10 * 86_400,
  searchWaiting: 10_000,
  logBytes: 1024 * 1024 * 1024,
  lagSeconds: 0.5,
  clockSeconds: OFF_MS / 1_000,
  pendingMs: 72 * HOUR_MS,
  heldMs: 30 * MINUTE_MS,
  /** The most receivers that are looked at, the fewest deliveries for one that fails, and how long successes count. */
  receivers: 50,
  failing: 10,
  successMs: 30 * MINUTE_MS,
  /** Active domains. */
  unableToSend: 0,
};

/** The longest that one look may take. */
const LOOK_MS = 2_000;

interface GaugeRule extends Pick<Rule, 'name' | 'level'>, Pick<Finding, 'link'> {
  readonly metric: string;
  /** Whether its value says how many there are. */
  readonly isCount?: boolean;
  isWrong(value: number, parts: AttentionParts): boolean;
  text(value: number, parts: AttentionParts): string;
}

/** A rule about the first wrong value of one gauge. */
function gauge({ metric, isCount, isWrong, text, link, ...rule }: GaugeRule): Rule {
  return {
    ...rule,
    async look(parts) {
      const values = (await parts.readGauge(metric)).map(({ value }) => value);
      const value = values.find((one) => isWrong(one, parts));
      if (value === undefined) return undefined;
      return { text: text(value, parts), count: isCount ? value : 1, link };
    },
  };
}

/** A rule about something that this node needs, which its gauge shows as 0 (or 1) while it is away. */
const away = (
  name: RuleName,
  metric: string,
  wrong: 0 | 1,
  text: string,
  level: Level = 'warning',
): Rule =>
  gauge({
    name,
    level,
    metric,
    isWrong: (value) => value === wrong,
    text: () => text,
    link: '/nodes',
  });

export const rules: readonly Rule[] = [
  { name: 'database_down', level: 'critical', look: lookAtDatabase },
  { name: 'nodes_silent', level: 'critical', look: lookForSilentNodes },
  { name: 'disk_full', level: 'critical', look: lookAtDisk },
  {
    name: 'deliveries_late',
    level: 'critical',
    async look({ readGauge, now }) {
      const late = (await readGauge('postroom_queue_overdue_seconds')).filter(
        ({ value }) => value > LIMITS.overdueSeconds,
      );
      if (late.length === 0) return undefined;
      const most = Math.max(...late.map(({ value }) => value));
      const kinds = late.map(({ labels }) => labels.kind).join(', ');
      return {
        text: `Deliveries wait ${Math.floor(most / 60)} minutes beyond their schedule: ${kinds}. The workers do not keep up.`,
        count: late.length,
        since: now() - most * 1_000,
        link: '/queue',
      };
    },
  },
  { name: 'mail_deferred', level: 'critical', look: lookAtDeferredMail },
  away(
    'bucket_down',
    'postroom_body_store_up',
    0,
    'The bucket of S3_URL does not answer, or DATA_DIR/bodies cannot be written: large mail is deferred, and what is in a bucket cannot be read.',
    'critical',
  ),
  {
    name: 'domains_lapsed',
    level: 'critical',
    async look({ database }) {
      const lapsed = await countLapsedClaims(database.read);
      if (lapsed.count === 0) return undefined;
      return {
        ...lapsed,
        text: `${many(lapsed.count, 'domain')} lost the records in DNS and became pending again: mail to them is deferred, and later refused.`,
        link: '/domains?q=status:pending',
      };
    },
  },
  gauge({
    name: 'domains_cannot_send',
    level: 'warning',
    metric: 'postroom_domains_cannot_send',
    isCount: true,
    isWrong: (count) => count > LIMITS.unableToSend,
    text: (count) =>
      `${many(count, 'active domain')} cannot send: the DKIM record is not verified.`,
    link: '/domains?q=-can:send+status:active',
  }),
  {
    name: 'bounces_too_many',
    level: 'critical',
    look: (parts) => lookAtBounces(parts, SENDER_LIMITS.service.tooMany),
  },
  {
    name: 'bounces_many',
    level: 'warning',
    look(parts) {
      const { many, tooMany } = SENDER_LIMITS.service;
      return lookAtBounces(parts, many, tooMany);
    },
  },
  { name: 'bodies_lost', level: 'warning', look: lookForLostBodies },
  { name: 'block_listed', level: 'warning', look: lookAtBlockLists },
  { name: 'senders_odd', level: 'warning', look: lookAtSenders },
  { name: 'mailboxes_full', level: 'warning', look: lookAtMailboxes },
  {
    name: 'receivers_failing',
    level: 'warning',
    async look({ database, now }) {
      const failing = await findFailingReceivers(database, {
        waiting: LIMITS.failing,
        since: now() - LIMITS.successMs,
        receivers: LIMITS.receivers,
      });
      const [worst] = failing;
      if (!worst) return undefined;
      const others = failing.length - 1;
      const isCut = failing.length === LIMITS.receivers;
      return {
        text: `${worst.count} deliveries wait for ${worst.destination}: ${worst.reason}.${others > 0 ? ` ${many(others, 'other receiver')}${isCut ? ' or more' : ''} failed, too.` : ''}`,
        count: failing.length,
        since: Math.min(...failing.map(({ oldestAt }) => oldestAt)),
        link: '/queue',
      };
    },
  },
  {
    name: 'backup_old',
    level: 'warning',
    async look({ backups: { maxAgeMs, lastAt }, now }) {
      if (maxAgeMs === 0) return undefined;
      const at = await lastAt();
      if (at !== undefined && now() - at <= maxAgeMs) return undefined;
      const hours = maxAgeMs / HOUR_MS;
      const last =
        at === undefined ? 'none was noted yet' : `the last began at ${new Date(at).toISOString()}`;
      return {
        text: `No backup was made in the last ${hours === 1 ? 'hour' : `${hours} hours`}: ${last}.`,
        count: 1,
        ...(at !== undefined && { since: at + maxAgeMs }),
        link: '/settings',
      };
    },
  },
  gauge({
    name: 'certificate_ends',
    level: 'warning',
    metric: 'postroom_certificate_end_timestamp_seconds',
    isWrong: (end, { now }) => end > 0 && end - now() / 1_000 < LIMITS.certificateSeconds,
    text: (end, { now }) =>
      `The certificate of STARTTLS ${end * 1_000 < now() ? 'ended' : 'ends'} on ${new Date(end * 1_000).toISOString().slice(0, 10)}: from then on mail programs refuse it.`,
    link: '/nodes',
  }),
  away(
    'certificate_broken',
    'postroom_certificate_broken',
    1,
    'The files of TLS_CERT and TLS_KEY cannot be used: the certificate of before stays in use.',
  ),
  { name: 'versions_differ', level: 'warning', look: lookAtVersions },
  gauge({
    name: 'clocks_differ',
    level: 'warning',
    metric: 'postroom_clock_offset_seconds',
    isWrong: (seconds) => Math.abs(seconds) > LIMITS.clockSeconds,
    text: (seconds) =>
      `The clock of this node is ${Math.round(Math.abs(seconds))} s ${seconds > 0 ? 'ahead of' : 'behind'} that of the database, by which mail is dated, tokens end and webhooks are signed. Receivers refuse webhooks that are five minutes off.`,
    link: '/nodes',
  }),
  away(
    'relay_down',
    'postroom_relay_up',
    0,
    'The relay of SMTP_RELAY_URL takes no mail of this node: what is sent waits. The log says why.',
    'critical',
  ),
  away(
    'redis_down',
    'postroom_redis_up',
    0,
    'Redis does not answer: this node counts limits alone, and learns of changes on other nodes seconds later.',
  ),
  away(
    'spam_filter_down',
    'postroom_spam_filter_up',
    0,
    'Rspamd does not answer: mail is accepted without its judgement.',
  ),
  away(
    'sender_checks_off',
    'postroom_sender_checks_off',
    1,
    'DNS does not answer: mail is accepted without SPF, DKIM and DMARC.',
  ),
  gauge({
    name: 'search_behind',
    level: 'warning',
    metric: 'postroom_search_waiting',
    isCount: true,
    isWrong: (waiting) => waiting > LIMITS.searchWaiting,
    text: (waiting) => `The search index lacks ${waiting} changes: searches miss the newest mail.`,
    link: '/',
  }),
  gauge({
    name: 'database_log_grows',
    level: 'warning',
    metric: 'postroom_database_log_bytes',
    isWrong: (octets) => octets > LIMITS.logBytes,
    text: (octets) =>
      `The write-ahead log of the database has ${diskSize(octets)}: a long read, such as a backup, keeps it from being emptied.`,
    link: '/nodes',
  }),
  gauge({
    name: 'overloaded',
    level: 'warning',
    metric: 'nodejs_eventloop_lag_p99_seconds',
    isWrong: (seconds) => seconds > LIMITS.lagSeconds,
    text: (seconds) =>
      `This node answers ${seconds.toFixed(1)} s late: it has more work than its processor can do.`,
    link: '/',
  }),
  {
    name: 'deliveries_held',
    level: 'note',
    async look({ database, now }) {
      const { count, since } = await findHeld(database, now() - LIMITS.heldMs);
      if (count === 0) return undefined;
      const text = `${many(count, 'delivery is', 'deliveries are')} held for over 30 minutes: they wait until somebody releases them.`;
      return { text, count, since, link: '/queue?q=is:held' };
    },
  },
  {
    name: 'domains_pending',
    level: 'note',
    async look({ database, now }) {
      const pending = await countPendingClaims(database.read, now() - LIMITS.pendingMs);
      if (pending.count === 0) return undefined;
      return {
        ...pending,
        text: `${many(pending.count, 'domain')} for over 72 hours without all records in DNS: no mail comes in.`,
        link: '/domains?q=status:pending',
      };
    },
  },
];

/** Looks at all rules; each has its time. */
export function checkAll(parts: AttentionParts): Promise<Checked[]> {
  return Promise.all(
    rules.map(async (rule) => {
      const looked = rule.look(parts).then(
        (finding): Checked => (finding ? { rule, state: 'found', finding } : { rule, state: 'ok' }),
        (): Checked => ({ rule, state: 'unknown' }),
      );
      return within(looked, LOOK_MS, { rule, state: 'unknown' });
    }),
  );
}

/** The order of what was found: by level, then what has been so for longest. */
export function byUrgency(one: Checked, other: Checked): number {
  const level = ({ rule }: Checked) => LEVELS.indexOf(rule.level);
  const since = ({ finding }: Checked) => finding?.since ?? Number.POSITIVE_INFINITY;
  if (level(one) !== level(other) || since(one) === since(other)) return level(one) - level(other);
  return since(one) < since(other) ? -1 : 1;
}
