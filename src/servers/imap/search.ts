/** SEARCH and UID SEARCH (RFC 9051 section 6.4.4), with their answers. */
import { partiesOf } from '../../mailboxes/mailstore/mailstore.ts';
import { Turns } from '../../platform/net/net.ts';
import { BadCommand } from './cursor.ts';
import { type Found, Search } from './find-messages.ts';
import { showProgress } from './long-work.ts';
import { type Return, readSearch, type SearchCommand, type SearchKey } from './parse-search.ts';
import { cutPartial, type PartialRange } from './partial.ts';
import { names } from './search-keys.ts';
import type { Answer, Command, Session } from './session.ts';
import { numberSet } from './write.ts';

export function searching(isByUid: boolean): Command<Answer> {
  return {
    tells: isByUid ? 'everything' : 'no removals',
    run: (session, command) => {
      const asked = readSearch(command, session.now);
      // IMAP4rev2 has no other answer than ESEARCH (RFC 9051 section 6.4.4).
      const returns = asked.returns ?? (session.isRev2 ? new Set<Return>(['ALL']) : undefined);
      return answerSearch(session, { ...asked, returns }, { name: 'SEARCH', isByUid, find });
    },
  };
}

/** @param saved what `$` means in the key */
export type Find = (session: Session, key: SearchKey, saved: readonly number[]) => Promise<Found>;

interface Searching {
  readonly name: 'SEARCH' | 'SORT';
  readonly isByUid: boolean;
  readonly find: Find;
}

/** Finds messages and tells of them, in the order in which they were found. */
export async function* answerSearch(
  session: Session,
  command: SearchCommand,
  { name, isByUid, find }: Searching,
): Answer {
  const { returns, key } = command;
  if (names(key, 'modseq')) yield session.enableCondstore();
  const view = session.selected;
  const saves = returns?.has('SAVE');
  try {
    if (command.refusal) throw command.refusal;
    session.progress = undefined;
    // While the client reads, nothing but the answer is held.
    const answering = find(session, key, view.saved).then((found) => {
      if (saves) view.saved = saved(found.uids, returns, command.partial);
      return writeFound(session, command, { name, isByUid, found });
    });
    yield yield* showProgress(session, answering, () => session.progress);
  } catch (error) {
    // One that is refused leaves nothing, and one that is not valid what was there (RFC 5182 section 2.1).
    if (saves && !(error instanceof BadCommand)) view.saved = [];
    throw error;
  }
  return 'That is all';
}

function writeFound(
  session: Session,
  { returns, partial }: SearchCommand,
  { name, isByUid, found }: Pick<Searching, 'name' | 'isByUid'> & { found: Found },
): string {
  if (returns?.has('SAVE') && returns.size === 1) return '';
  const { uids, modseqs } = found;
  const numbers = isByUid ? uids : uids.map((uid) => session.selected.numberOf(uid));
  const told = modseqs ? meant(uids, returns, partial) : [];
  const modseq = told.reduce((most, uid) => Math.max(most, modseqs?.get(uid) ?? 0), 0);
  if (returns) {
    const page = partial && { text: partial.text, numbers: cutPartial(numbers, partial) };
    return writeExtended(session, { numbers, returns, page, isByUid, modseq });
  }
  const more = modseq > 0 ? ` (MODSEQ ${modseq})` : '';
  const list = numbers.length > 0 ? ` ${numbers.join(' ')}` : '';
  return `* ${name}${list}${more}\r\n`;
}

const find: Find = (session, key, before) => {
  const run = () => new Search(session, key, before).run();
  const readsSources = ['text', 'header', 'sent', 'envelope'] as const;
  return inTurn(session, run, readsSources.some((kind) => names(key, kind)) ? working : inRows);
};

/** What takes the processor from everybody else: in all, of the accounts of a user, and of an account. */
interface Slots {
  readonly turns: Turns;
  readonly shares: { readonly account: number; readonly tenant: number };
}

/** For searches in sources and orders, and for searches by what rows have. */
const working: Slots = { turns: new Turns(3), shares: { account: 1, tenant: 2 } };
const inRows: Slots = { turns: new Turns(8), shares: { account: 2, tenant: 4 } };

export function inTurn<T>(
  { user, channel }: Session,
  run: () => Promise<T>,
  { turns, shares } = working,
): Promise<T> {
  return turns.run(partiesOf(user, shares), run, channel.signal);
}

/** The messages that `$` means from now on (RFC 5182 section 2.4). */
function saved(
  found: readonly number[],
  returns: ReadonlySet<Return> | undefined,
  partial: PartialRange | undefined,
): number[] {
  const some = returns?.has('COUNT') ? found : meant(found, returns, partial);
  return some.toSorted((a, b) => a - b);
}

/**
 * The messages that an answer tells of, whose MODSEQ it has: the first and the last one where no others are asked for
 * (RFC 7162 section 3.1.10), and those of the page (RFC 9394 section 3.2).
 */
function meant(
  found: readonly number[],
  returns: ReadonlySet<Return> | undefined,
  partial: PartialRange | undefined,
): readonly number[] {
  const [withFirst, withLast] = [returns?.has('MIN'), returns?.has('MAX')];
  const hasAll = returns?.has('ALL') || (!partial && returns?.has('COUNT'));
  if (hasAll || !(partial || withFirst || withLast)) return found;
  const page = partial ? cutPartial(found, partial) : [];
  const ends = [...(withFirst ? found.slice(0, 1) : []), ...(withLast ? found.slice(-1) : [])];
  return [...new Set([...page, ...ends])];
}

interface Extended {
  readonly numbers: readonly number[];
  readonly returns: ReadonlySet<Return>;
  readonly page: { readonly text: string; readonly numbers: readonly number[] } | undefined;
  readonly isByUid: boolean;
  readonly modseq: number;
}

/** ESEARCH (RFC 4731): it names the command that it answers. */
function writeExtended(
  session: Session,
  { numbers, returns, page, isByUid, modseq }: Extended,
): string {
  const items = [
    ...(isByUid ? ['UID'] : []),
    ...(returns.has('MIN') && numbers.length > 0 ? [`MIN ${numbers[0]}`] : []),
    ...(returns.has('MAX') && numbers.length > 0 ? [`MAX ${numbers.at(-1)}`] : []),
    ...(returns.has('ALL') && numbers.length > 0 ? [`ALL ${numberSet(numbers)}`] : []),
    ...(returns.has('COUNT') ? [`COUNT ${numbers.length}`] : []),
    ...(page ? [`PARTIAL (${page.text} ${numberSet(page.numbers) || 'NIL'})`] : []),
    ...(modseq > 0 ? [`MODSEQ ${modseq}`] : []),
  ];
  return `* ESEARCH (TAG "${session.tag}")${items.map((item) => ` ${item}`).join('')}\r\n`;
}
