/** What changed in a shadow between two states. */
import type { Queries } from '../../../platform/database/database.ts';

export interface ShadowWindow {
  readonly shadowId: number;
  /** 0: the client has nothing yet. */
  readonly base: number;
  readonly snapshot: number;
  readonly afterUid: number;
  /** Whether the highest UIDs come first. */
  readonly newest: boolean;
  /** The most rows of each kind. */
  readonly most: number;
}

/** Existing messages that changed in the window, in the order of the page. */
export function readLive(queries: Queries, window: ShadowWindow) {
  const { shadowId, base, snapshot, afterUid, newest, most } = window;
  const query = queries
    .selectFrom('shadow_messages')
    .select(['uid', 'created_modseq', 'modseq', 'flags'])
    .where('shadow_id', '=', shadowId)
    .where('modseq', '>', base)
    .where('created_modseq', '<=', snapshot)
    .where('uid', newest ? '<' : '>', afterUid)
    .orderBy('uid', newest ? 'desc' : 'asc');
  return (most === Number.POSITIVE_INFINITY ? query : query.limit(most)).execute();
}

/** Messages that the client had and that were removed in the window; the next sync reports later removals. */
export function readGone(queries: Queries, { shadowId, base, snapshot, ...page }: ShadowWindow) {
  const query = queries
    .selectFrom('shadow_tombstones')
    .select('uid')
    .where('shadow_id', '=', shadowId)
    .where('uid', '>', page.afterUid)
    .where('created_modseq', '<=', base)
    .where('modseq', '>', base)
    .where('modseq', '<=', snapshot)
    .orderBy('uid');
  return (page.most === Number.POSITIVE_INFINITY ? query : query.limit(page.most)).execute();
}
