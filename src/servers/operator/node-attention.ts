/**
 * What needs an operator about nodes: those that ended without saying so, versions that differ, a database that does
 * not answer, from which most other rules would know nothing, mail that nodes defer for reasons of their own, a disk
 * that fills, and bodies that are lost.
 */
import { FREE_BYTES_LEFT } from '../../mailboxes/bodies/bodies.ts';
import { countUnread } from '../../mailboxes/search/search.ts';
import { type ReadDatabase, settingOf } from '../../platform/database/database.ts';
import { many } from '../../platform/errors/errors.ts';
import type { Nodes, NodeView } from '../../platform/nodes/nodes.ts';
import { type EpochMs, MINUTE_MS, within } from '../../platform/time/time.ts';
import { lastCounts } from '../../tenants/usage/usage.ts';
import type { GaugeValue } from '../metrics/metrics.ts';

export interface NodeParts {
  readonly database: ReadDatabase;
  readonly nodes: Pick<Nodes, 'list'>;
  /** The values that a gauge of this node has now. */
  readonly readGauge: (name: string) => Promise<readonly GaugeValue[]>;
  readonly now: () => EpochMs;
}

/** A node is silent from the first on; one that was replaced by none is told until the second. */
const SILENT = { fromMs: 2 * MINUTE_MS, untilMs: 120 * MINUTE_MS };

/**
 * The nodes that went silent and nobody took the place of. A process that was started again has another row; a machine
 * or a pod that was replaced has another host, too: so each node that was started later on the same host, or on one
 * that had none then, stands for one that is gone. It may be gone itself by now.
 */
function lostNodes(all: readonly NodeView[], now: EpochMs): NodeView[] {
  const silent = all.filter(({ isRunning }) => !isRunning);
  const later = new Set(all);
  const take = (gone: NodeView, mayBe: (one: NodeView) => boolean) => {
    const next = [...later].find((one) => one.startedAt > gone.seenAt && mayBe(one));
    return next !== undefined && later.delete(next);
  };
  const isNew = (host: string, { seenAt }: NodeView) =>
    !all.some((one) => one.host === host && one.startedAt <= seenAt);
  return silent
    .toSorted((one, other) => other.seenAt - one.seenAt)
    .filter((gone) => !take(gone, ({ host }) => host === gone.host))
    .filter((gone) => !take(gone, ({ host }) => isNew(host, gone)))
    .filter(({ seenAt }) => seenAt < now - SILENT.fromMs && seenAt > now - SILENT.untilMs);
}

export async function lookForSilentNodes({ nodes, now }: Pick<NodeParts, 'nodes' | 'now'>) {
  const silent = lostNodes(await nodes.list(), now());
  if (silent.length === 0) return undefined;
  const hosts = [...new Set(silent.map(({ host }) => host))].join(', ');
  return {
    text: `${many(silent.length, 'node')} ended without saying so, or lost the database: ${hosts}. The others do the work.`,
    count: silent.length,
    since: Math.min(...silent.map(({ seenAt }) => seenAt)),
    link: '/nodes',
  };
}

export async function lookAtVersions({ nodes }: Pick<NodeParts, 'nodes'>) {
  const running = (await nodes.list()).filter(({ isRunning }) => isRunning);
  const versions = new Set(running.map(({ version }) => version));
  if (versions.size < 2) return undefined;
  const text = `The nodes run different versions: ${[...versions].join(', ')}.`;
  return { text, count: versions.size, link: '/nodes' };
}

/** The reasons of the alert. */
export const OWN_REASONS = ['internal', 'unavailable', 'body_unavailable', 'storage_full'] as const;

/** Mail that was deferred in two spans of five minutes one after the other, as the nodes counted it. */
export async function lookAtDeferredMail({ database, now }: Pick<NodeParts, 'database' | 'now'>) {
  const names = OWN_REASONS.map((reason) => `deferred:${reason}`);
  const spans = await lastCounts(database.read, now(), names);
  const [newest = 0, before = 0, oldest = 0] = spans.map((amounts) =>
    Object.values(amounts).reduce((sum, amount) => sum + amount, 0),
  );
  // The newest span has nothing yet in its first minute.
  if (before === 0 || (newest === 0 && oldest === 0)) return undefined;
  const reasons = OWN_REASONS.filter((reason) =>
    spans.some((amounts) => amounts[`deferred:${reason}`]),
  );
  return {
    text: `Mail is deferred for reasons of our own (${reasons.join(', ')}): its senders try again. The log says what failed.`,
    count: newest + before + oldest,
    link: '/messages',
  };
}

/** The part of the disk of which less is too little. */
export const DISK_FREE = 0.05;

export const diskSize = (octets: number) =>
  octets < 1e9 ? `${Math.floor(octets / 1e6)} MB` : `${(octets / 1e9).toFixed(1)} GB`;

export async function lookAtDisk({ readGauge }: Pick<NodeParts, 'readGauge'>) {
  const sizes = await readGauge('postroom_disk_size_bytes');
  const disks = (await readGauge('postroom_disk_free_bytes')).flatMap(({ labels, value: free }) => {
    const size = sizes.find((one) => one.labels.folder === labels.folder)?.value;
    // The two are read one after the other, and one that cannot be read is left out.
    if (!size) return [];
    // On a small disk mail is deferred long before so few percent are left.
    return { folder: labels.folder, free, part: free / size, isFull: free < FREE_BYTES_LEFT };
  });
  const low = disks.filter(({ part, isFull }) => isFull || part < DISK_FREE);
  const [least] = low.toSorted((one, other) => one.free - other.free);
  if (!least) return undefined;
  const { folder, free, part, isFull } = least;
  return {
    text: `The disk of ${folder} on this node has ${Math.floor(100 * part)} % (${diskSize(free)}) left. ${isFull ? 'New mail is deferred until there is more room.' : 'When it is full, new mail is deferred.'}`,
    count: low.length,
    link: '/nodes',
  };
}

/** Bodies that are nowhere, or damaged: their messages are listed, and cannot be opened. */
export async function lookForLostBodies({ database, now }: Pick<NodeParts, 'database' | 'now'>) {
  const count = await countUnread(database.read, now());
  if (count === 0) return undefined;
  return {
    text: `${many(count, 'message')} cannot be opened: the text is missing or damaged where bodies are kept. The log says what failed.`,
    count,
    link: '/nodes',
  };
}

/** Less than a look may take. */
const ANSWER_MS = 1_500;

export async function lookAtDatabase({ database }: Pick<NodeParts, 'database'>) {
  const answers = settingOf(database, 'store_id').then(
    () => true,
    () => false,
  );
  if (await within(answers, ANSWER_MS, false)) return undefined;
  return {
    text: 'The database does not answer: mail is deferred, and requests are answered 503.',
    count: 1,
    link: '/nodes',
  };
}
