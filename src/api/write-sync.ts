/**
 * The JSON of a sync, in pieces with turns of the event loop in between: a first sync may have a
 * hundred thousand changes, and an envelope or a structure is as long as the sender made it.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { SyncResult } from '../mailstore/mailstore.ts';

/** Characters from which on a piece is handed on. */
const PIECE = 64 * 1024;

/** Changes made JSON in one go; flags alone make them 4 KB long at most. */
const CHANGES_AT_A_TIME = 200;

/** Whether an answer is short for sure; `withTexts` where added messages may have any length. */
export function isShort({ changes }: SyncResult, withTexts: boolean): boolean {
  const { added, updated, removed } = changes;
  const count = added.length + updated.length + removed.length;
  return count <= CHANGES_AT_A_TIME && !(withTexts && added.length > 0);
}

/**
 * Writes an answer.
 *
 * @param withTexts whether added messages may have any length: each is then written for itself
 * @returns at the end, the last piece: what is short is this one alone
 */
export async function* writeInPieces(
  { changes, ...rest }: SyncResult,
  withTexts: boolean,
): AsyncGenerator<string, string> {
  let text = `${JSON.stringify(rest).slice(0, -1)},"changes":{`;
  let comma = '';
  for (const kind of ['added', 'updated', 'removed'] as const) {
    text += `${comma}"${kind}":[`;
    comma = ',';
    const items: readonly object[] = changes[kind];
    const step = withTexts && kind === 'added' ? 1 : CHANGES_AT_A_TIME;
    for (let at = 0; at < items.length; at += step) {
      if (at > 0) text += ',';
      text += JSON.stringify(items.slice(at, at + step)).slice(1, -1);
      if (text.length < PIECE) continue;
      yield text;
      text = '';
      await turn();
    }
    text += ']';
  }
  return `${text}}}`;
}
