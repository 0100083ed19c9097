/** SORT and UID SORT (RFC 5256), with the answers of SEARCH (RFC 5267 section 3). */
import { BadCommand, type Cursor } from './cursor.ts';
import { type Found, Search } from './find-messages.ts';
import { sortInTurns } from './long-work.ts';
import { readCharset, readKeys, readReturn, type SearchKey } from './parse-search.ts';
import { answerSearch, type Find, inTurn } from './search.ts';
import type { Command, Session } from './session.ts';
import { readSortKeys, SORT_KEYS, type SortKey } from './sort-keys.ts';

interface Criterion {
  readonly key: SortKey;
  readonly isReverse: boolean;
}

export function sorting(isByUid: boolean): Command {
  return {
    tells: isByUid ? 'everything' : 'no removals',
    run: (session, command) => {
      const returned = readReturn(command);
      const criteria = readCriteria(command.space());
      const refusal = readCharset(command.space());
      const key = readKeys(command, session.now, refusal);
      const find: Find = (_, __, saved) =>
        inTurn(session, async () =>
          order(session, criteria, await findMatches(session, key, saved)),
        );
      return answerSearch(session, { ...returned, refusal, key }, { name: 'SORT', isByUid, find });
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
): Promise<Found> {
  if (isEverything(key)) return session.selected;
  return new Search(session, key, saved).run();
}

function isEverything(key: SearchKey): boolean {
  return key.kind === 'all' || (key.kind === 'and' && key.keys.every(isEverything));
}

async function order(
  session: Session,
  criteria: readonly Criterion[],
  { uids, modseqs }: Found,
): Promise<Found> {
  const keys = criteria.map(({ key }) => key);
  const { isThere, values } = await readSortKeys(session, uids, keys);
  const columns = criteria.map(({ isReverse }, at) => ({
    column: values[at] ?? [],
    sign: isReverse ? -1 : 1,
  }));
  const sorted = await sortInTurns(uids.length, (a, b) => {
    for (const { column, sign } of columns) {
      const [one = '', other = ''] = [column[a], column[b]];
      if (one !== other) return one < other ? -sign : sign;
    }
    // Those that are equal stay in the order of the mailbox (RFC 5256 section 3).
    return a - b;
  });
  const there: number[] = [];
  for (const at of sorted) if (isThere[at]) there.push(uids[at] ?? 0);
  return { uids: there, modseqs };
}
