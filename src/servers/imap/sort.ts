/** SORT and UID SORT (RFC 5256), with the answers of SEARCH (RFC 5267 section 3). */
import { setImmediate as turn } from 'node:timers/promises';
import { BadCommand, type Cursor } from './cursor.ts';
import { Search } from './find-messages.ts';
import { readCharset, readKeys, readReturn, type SearchKey } from './parse-search.ts';
import { answerSearch, type Find, inTurn, type Match } from './search.ts';
import type { Command, Session } from './session.ts';
import { readSortKeys, SORT_KEYS, type SortKey } from './sort-keys.ts';

interface Criterion {
  readonly key: SortKey;
  readonly isReverse: boolean;
}

/** Messages that are put in order without a pause. */
const AT_ONCE = 4_096;

export const sort = sorting(false);
export const uidSort = sorting(true);

function sorting(isByUid: boolean): Command {
  return {
    states: ['selected'],
    tells: isByUid ? 'everything' : 'no removals',
    run: (session, command) => {
      const returned = readReturn(command);
      command.expect(' ');
      const criteria = readCriteria(command);
      command.expect(' ');
      readCharset(command);
      const key = readKeys(command);
      const find: Find = (_, __, saved) =>
        inTurn(session, async () =>
          order(session, criteria, await findMatches(session, key, saved)),
        );
      return answerSearch(session, { ...returned, key }, { name: 'SORT', isByUid, find });
    },
  };
}

function readCriteria(command: Cursor): Criterion[] {
  const criteria = command.list((): Criterion => {
    const isReverse = command.has('REVERSE ');
    const name = command.atom('a sort key').toUpperCase();
    const key = SORT_KEYS.find((one) => one === name);
    if (!key) throw new BadCommand('The sort key is not known');
    return { key, isReverse };
  });
  // A key that came before decides nothing more.
  return criteria.filter(({ key }, at) => criteria.findIndex((one) => one.key === key) === at);
}

/** Messages in the view, ascending. */
export async function findMatches(
  session: Session,
  key: SearchKey,
  saved: readonly number[],
): Promise<readonly Match[]> {
  if (isEverything(key)) return session.selected.uids.map((uid) => ({ uid, modseq: 0 }));
  return new Search(session, key, saved).run();
}

function isEverything(key: SearchKey): boolean {
  return key.kind === 'all' || (key.kind === 'and' && key.keys.every(isEverything));
}

async function order(
  session: Session,
  criteria: readonly Criterion[],
  matches: readonly Match[],
): Promise<readonly Match[]> {
  const found = matches.map(({ uid }) => uid);
  const keys = criteria.map(({ key }) => key);
  const { uids, values } = await readSortKeys(session, found, keys);
  const columns = criteria.map(({ isReverse }, at) => ({
    column: values[at] ?? [],
    sign: isReverse ? -1 : 1,
  }));
  const compare = (a: number, b: number) => {
    for (const { column, sign } of columns) {
      const [one = '', other = ''] = [column[a], column[b]];
      if (one !== other) return one < other ? -sign : sign;
    }
    // Those that are equal stay in the order of the mailbox (RFC 5256 section 3).
    return a - b;
  };
  const modseqs = new Map(matches.map(({ uid, modseq }) => [uid, modseq]));
  const sorted = await sortInTurns(uids.length, compare);
  return Array.from(sorted, (index) => {
    const uid = uids[index] ?? 0;
    return { uid, modseq: modseqs.get(uid) ?? 0 };
  });
}

/** The indexes below `length` in order: sorted in pieces, which are merged, so that others have their turn between them. */
export async function sortInTurns(
  length: number,
  compare: (a: number, b: number) => number,
): Promise<Uint32Array> {
  let sorted = Uint32Array.from({ length }, (_, index) => index);
  let merged = new Uint32Array(length);
  for (let at = 0; at < length; at += AT_ONCE) {
    await turn();
    sorted.subarray(at, at + AT_ONCE).sort(compare);
  }
  for (let size = AT_ONCE; size < length; size *= 2) {
    for (let at = 0; at < length; at += 2 * size) {
      const [left, right] = [
        sorted.subarray(at, at + size),
        sorted.subarray(at + size, at + 2 * size),
      ];
      for (let l = 0, r = 0; l + r < left.length + right.length; ) {
        if ((l + r) % AT_ONCE === 0) await turn();
        const [a, b] = [left[l], right[r]];
        const isLeft = b === undefined || (a !== undefined && compare(a, b) <= 0);
        merged[at + l + r] = (isLeft ? a : b) ?? 0;
        if (isLeft) l++;
        else r++;
      }
    }
    [sorted, merged] = [merged, sorted];
  }
  return sorted;
}
