/**
 * The audit log: who changed what, with which API key. Each change for an operator writes one entry, in its
 * transaction. Entries are kept for good, and never changed: only an order of several transactions counts on in its own.
 */
import { hostname } from 'node:os';
import { type NewestPage, newestFirst, type Queries } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';

/** Who made a change. */
export interface Actor {
  /**
   * The name and number of the API key; for one of the settings, the first 8 hex digits of its SHA-256; `program` for the
   * command line.
   */
  readonly actor: string;
  readonly requestId?: string | undefined;
}

/** What was done. */
export interface AuditEntry {
  /** Thing and verb, such as `domain.delete`. */
  readonly action: string;
  /** The name, for people, of what was changed. */
  readonly target: string;
  /** By the clock that all nodes share. */
  readonly at: EpochMs;
  /** How much was changed, such as `{accounts: 12}`. */
  readonly counts?: Readonly<Record<string, number>> | undefined;
}

export interface KeptEntry extends AuditEntry, Actor {
  readonly id: number;
  /** Host of the node that made the change. */
  readonly node: string;
}

/** Writes one entry. @returns its id */
export async function recordAudit(tx: Queries, by: Actor, entry: AuditEntry): Promise<number> {
  const { action, target, at, counts } = entry;
  const { id } = await tx
    .insertInto('audit')
    .values({
      at,
      actor: by.actor,
      action,
      target,
      counts: counts === undefined ? null : JSON.stringify(counts),
      request_id: by.requestId ?? null,
      node: hostname(),
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

/** Writes what an order has done so far: the first of its transactions makes the entry. @returns its id */
export async function recordProgress(
  tx: Queries,
  by: Actor,
  entry: AuditEntry,
  id: number | undefined,
): Promise<number> {
  if (id === undefined) return recordAudit(tx, by, entry);
  const counts = JSON.stringify(entry.counts);
  await tx.updateTable('audit').set({ counts }).where('id', '=', id).execute();
  return id;
}

/** Lists entries, the newest first. @param page.target only entries about this name */
export async function listAudit(
  queries: Queries,
  { target, ...page }: NewestPage & { readonly target?: string | undefined },
): Promise<KeptEntry[]> {
  const some = queries
    .selectFrom('audit')
    .selectAll()
    .$if(target !== undefined, (query) => query.where('target', '=', target ?? ''));
  const rows = await newestFirst(some, page).execute();
  return rows.map(({ counts, request_id, ...row }) => ({
    ...row,
    ...(counts !== null && { counts: JSON.parse(counts) }),
    ...(request_id !== null && { requestId: request_id }),
  }));
}
