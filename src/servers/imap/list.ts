/** LIST with its extensions (RFC 9051 section 6.3.9, RFC 5258, RFC 5819), LSUB, NAMESPACE. */
import { type OpenMailbox, SEPARATOR } from '../../mailboxes/mailstore/mailstore.ts';
import { BadCommand, type Cursor } from './cursor.ts';
import { Pace } from './long-work.ts';
import type { Answer, Command, Session } from './session.ts';
import { readStatusItems, type StatusItem, writeStatus } from './status.ts';
import { mailbox as writeMailbox } from './write.ts';

/** Patterns of one LIST, wildcards in all of them, and characters of one: a name and a separator have less. */
const PATTERNS_MAX = 16;
const WILDCARDS_MAX = 32;
const LENGTH_MAX = 300;

interface Listing {
  /** Whether nothing but the separator is asked for. */
  readonly isForSeparator: boolean;
  readonly patterns: readonly string[];
  /** Of which mailboxes: with all of these properties. */
  readonly selects: ReadonlySet<string>;
  readonly returnsSubscribed: boolean;
  readonly status: readonly StatusItem[];
}

const SELECTIONS = new Set(['SUBSCRIBED', 'REMOTE', 'RECURSIVEMATCH', 'SPECIAL-USE']);

function readListing(command: Cursor): Listing {
  command.expect(' ');
  const options = command.sees('(') ? command.list(() => readOption(command), true) : undefined;
  if (options) command.expect(' ');
  const selects = new Set(options);
  // It says of what below a mailbox to tell (RFC 5258 section 3.1).
  if (selects.has('RECURSIVEMATCH') && !selects.has('SUBSCRIBED') && !selects.has('SPECIAL-USE')) {
    throw new BadCommand('RECURSIVEMATCH needs another selection option');
  }
  const reference = command.mailbox();
  const patterns = command.space().listOrOne(() => command.mailboxPattern());
  if (patterns.length > PATTERNS_MAX) throw new BadCommand(`At most ${PATTERNS_MAX} patterns`);
  let status: readonly StatusItem[] = [];
  let returnsSubscribed = false;
  if (command.has(' RETURN ')) {
    command.list(() => {
      const option = command.atom('an option').toUpperCase();
      if (option === 'SUBSCRIBED') returnsSubscribed = true;
      else if (option === 'STATUS') {
        status = readStatusItems(command.space());
      } else if (option !== 'CHILDREN' && option !== 'SPECIAL-USE') {
        throw new BadCommand('The return option is not known');
      }
    }, true);
  }
  command.end();
  const isForSeparator = patterns.length === 1 && patterns[0] === '';
  const full = fullPatterns(reference, patterns);
  return { isForSeparator, patterns: full, selects, returnsSubscribed, status };
}

/** INBOX is matched in any case (RFC 9051 section 5.1). */
function fullPatterns(reference: string, patterns: readonly string[]): string[] {
  return patterns.map((pattern) => (reference + pattern).replace(/^inbox(?=$|[/%*])/i, 'INBOX'));
}

function readOption(command: Cursor): string {
  const option = command.atom('an option').toUpperCase();
  if (!SELECTIONS.has(option)) throw new BadCommand('The selection option is not known');
  return option;
}

/**
 * Whether a name matches one of the patterns: `*` is any text, `%` any without a separator (RFC 9051 section 6.3.9).
 *
 * @throws BadCommand where they have so many wildcards, or are so long, that they cost much and match nothing
 */
export function matcherOf(patterns: readonly string[]): (name: string) => boolean {
  const all = patterns.map((pattern) => {
    // A run of wildcards is one.
    const short = pattern.replace(/[*%]{2,}/g, (run) => (run.includes('*') ? '*' : '%'));
    return short.match(/[*%]|[^*%]+/g) ?? [];
  });
  const wildcards = all.flat().filter((piece) => piece === '*' || piece === '%');
  if (wildcards.length > WILDCARDS_MAX || all.some((one) => one.join('').length > LENGTH_MAX)) {
    throw new BadCommand(
      `Patterns have at most ${WILDCARDS_MAX} wildcards and ${LENGTH_MAX} characters`,
    );
  }
  return (name) => all.some((pieces) => matches(pieces, name));
}

/** In linear time for each wildcard. @param pieces wildcards, and texts between them */
function matches(pieces: readonly string[], name: string): boolean {
  /** Where the rest of the name may begin, ascending. */
  let reached = [0];
  for (const piece of pieces) {
    if (piece !== '*' && piece !== '%') {
      reached = reached
        .filter((start) => name.startsWith(piece, start))
        .map((start) => start + piece.length);
      continue;
    }
    const next: number[] = [];
    for (const start of reached) {
      for (let at = Math.max(start, (next.at(-1) ?? -1) + 1); at <= name.length; at++) {
        // One that began further left has reached all up to the separator before this.
        if (piece === '%' && at > start && name[at - 1] === SEPARATOR) break;
        next.push(at);
      }
    }
    reached = next;
  }
  return reached.at(-1) === name.length;
}

/** A name in the list. */
export interface Entry {
  /** Undefined where there is none of this name: others are below it, or it is subscribed only. */
  readonly mailbox: OpenMailbox | undefined;
  readonly isSubscribed: boolean;
}

/** All names in order: mailboxes, subscribed names without one, and what they are below. */
export async function readNames({ services, user }: Session): Promise<[string, Entry][]> {
  const { imap } = services.mailstore;
  const [mailboxes, subscriptions] = await Promise.all([imap.list(user), imap.subscriptions(user)]);
  const all = new Map<string, Entry>();
  for (const [name, isSubscribed] of subscriptions) {
    if (isSubscribed) all.set(name, { mailbox: undefined, isSubscribed });
  }
  for (const mailbox of mailboxes) {
    all.set(mailbox.name, { mailbox, isSubscribed: subscriptions.get(mailbox.name) ?? true });
  }
  for (const above of aboveThose(all.keys())) {
    if (!all.has(above)) all.set(above, { mailbox: undefined, isSubscribed: false });
  }
  return [...all].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** What some of the names are below. */
export function aboveThose(names: Iterable<string>): Set<string> {
  const found = new Set<string>();
  for (const name of names) {
    for (let at = name.indexOf(SEPARATOR); at >= 0; at = name.indexOf(SEPARATOR, at + 1)) {
      found.add(name.slice(0, at));
    }
  }
  return found;
}

/** What those are below that are so. */
function above(all: readonly [string, Entry][], is: (entry: Entry, name: string) => boolean) {
  return aboveThose(all.filter(([name, entry]) => is(entry, name)).map(([name]) => name));
}

/** The answer to an empty pattern, whatever the reference (RFC 9051 section 6.3.9): names have no root of their own. */
function writeSeparator(name: 'LIST' | 'LSUB'): string {
  return `* ${name} (\\Noselect) "${SEPARATOR}" ""\r\n`;
}

async function* listMailboxes(session: Session, asked: Listing): Answer {
  const { patterns, selects, status } = asked;
  if (asked.isForSeparator) {
    yield writeSeparator('LIST');
    return 'That is all';
  }
  const isMatch = matcherOf(patterns);
  const names = await readNames(session);
  const isSelected = ({ mailbox, isSubscribed }: Entry) =>
    (!selects.has('SUBSCRIBED') || isSubscribed) &&
    (!selects.has('SPECIAL-USE') || Boolean(mailbox?.special_use));
  // The client may be slow to read it.
  const pace = new Pace(session, Number.POSITIVE_INFINITY);
  const matched = new Set<string>();
  for (const [name] of names) {
    if (isMatch(name)) matched.add(name);
    if (pace.mustYield) await pace.yieldTurn();
  }
  const isRecursive = selects.has('RECURSIVEMATCH') && selects.has('SUBSCRIBED');
  // What is below, and not told by itself (RFC 5258 section 3.5).
  const withInfo = above(
    names,
    (entry, name) => isRecursive && isSelected(entry) && !matched.has(name),
  );
  const withMailboxes = above(names, (entry) => entry.mailbox !== undefined);
  for (const [name, entry] of names) {
    if (!matched.has(name)) continue;
    const { mailbox, isSubscribed } = entry;
    const hasInfo = withInfo.has(name);
    if (!isSelected(entry) && !hasInfo) continue;
    // Without a selection, a name without a mailbox is listed for those below it.
    const hasMailboxBelow = withMailboxes.has(name);
    if (!mailbox && !selects.has('SUBSCRIBED') && !hasMailboxBelow) continue;
    const ofSubscribed = selects.has('SUBSCRIBED');
    const tellsSubscribed = ofSubscribed || asked.returnsSubscribed;
    const listed = { mailbox, isSubscribed: tellsSubscribed && isSubscribed };
    const missing = ofSubscribed ? '\\NonExistent' : '\\Noselect';
    const info = hasInfo ? ' ("CHILDINFO" ("SUBSCRIBED"))' : '';
    yield writeList(session, name, { ...listed, hasChildren: hasMailboxBelow, missing, info });
    if (mailbox && status.length > 0) yield await writeStatus(session, mailbox, status);
    if (pace.mustYield) await pace.yieldTurn();
  }
  return 'That is all';
}

interface Listed {
  readonly mailbox: Pick<OpenMailbox, 'special_use'> | undefined;
  readonly isSubscribed?: boolean;
  readonly hasChildren: boolean;
  /** What a name is that has no mailbox. */
  readonly missing?: string;
  readonly info?: string;
}

/** A line of LIST. */
export function writeList({ isUtf8 }: Session, name: string, listed: Listed): string {
  const { mailbox, isSubscribed, hasChildren, missing = '\\NonExistent', info = '' } = listed;
  const attributes = [
    hasChildren ? '\\HasChildren' : '\\HasNoChildren',
    ...(mailbox ? [] : [missing]),
    ...(mailbox?.special_use ? [mailbox.special_use] : []),
    ...(isSubscribed ? ['\\Subscribed'] : []),
  ];
  return `* LIST (${attributes.join(' ')}) "${SEPARATOR}" ${writeMailbox(name, isUtf8)}${info}\r\n`;
}

/** What LIST tells of a name that was another one before (RFC 9051 section 6.3.9.7). */
export function oldName({ isUtf8 }: Session, old: string): string {
  return ` ("OLDNAME" (${writeMailbox(old, isUtf8)}))`;
}

/**
 * The name of a mailbox, as IMAP4rev2 tells it where a client has named one (RFC 9051 section 6.3.9.7).
 *
 * @param asked the name that the client knows; it is told where it is another one
 */
export async function tellMailbox(session: Session, name: string, asked: string): Promise<string> {
  const all = await session.services.mailstore.imap.list(session.user);
  const mailbox = all.find((one) => one.name === name);
  const hasChildren = all.some((one) => one.name.startsWith(name + SEPARATOR));
  // INBOX has one name, in any case.
  const isOther = asked !== name && asked.toUpperCase() !== 'INBOX';
  const info = isOther ? oldName(session, asked) : '';
  return writeList(session, name, { mailbox, hasChildren, info });
}

export const list: Command<Answer> = {
  tells: 'no removals',
  async *run(session, command) {
    return yield* listMailboxes(session, readListing(command));
  },
};

/** Subscribed names (RFC 3501 section 6.3.9). */
export const lsub: Command = {
  tells: 'no removals',
  async *run(session, command) {
    const reference = command.space().mailbox();
    const read = command.space().mailboxPattern();
    command.end();
    if (read === '') {
      yield writeSeparator('LSUB');
      return 'That is all';
    }
    const [pattern = ''] = fullPatterns(reference, [read]);
    const isMatch = matcherOf([pattern]);
    const names = await readNames(session);
    const parents = above(names, (entry) => entry.isSubscribed);
    const pace = new Pace(session, Number.POSITIVE_INFINITY);
    for (const [name, { isSubscribed }] of names) {
      if (pace.mustYield) await pace.yieldTurn();
      if (!isMatch(name)) continue;
      const isAbove = parents.has(name);
      // With `%` also what a subscribed name is below.
      if (!isSubscribed && !(isAbove && pattern.includes('%'))) continue;
      const attributes = isSubscribed ? '' : '\\Noselect';
      yield `* LSUB (${attributes}) "${SEPARATOR}" ${writeMailbox(name, session.isUtf8)}\r\n`;
    }
    return 'That is all';
  },
};

/** RFC 2342. */
export const namespace: Command = {
  tells: 'no removals',
  async *run(_session, command) {
    command.end();
    yield `* NAMESPACE (("" "${SEPARATOR}")) NIL NIL\r\n`;
    return 'That is all';
  },
};
