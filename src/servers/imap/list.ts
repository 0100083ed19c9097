/** LIST with its extensions (RFC 9051 section 6.3.9, RFC 5258, RFC 5819), LSUB, NAMESPACE. */
import type { OpenMailbox } from '../../mailboxes/mailstore/mailstore.ts';
import { decodeMailboxName } from '../../protocols/imap-syntax/imap-syntax.ts';
import { BadCommand, type Cursor, readUtf8 } from './cursor.ts';
import type { Answer, Command, Session } from './session.ts';
import { readStatusItems, type StatusItem, writeStatus } from './status.ts';
import { mailbox as writeMailbox } from './write.ts';

const LOGGED_IN = ['authenticated', 'selected'] as const;
/** Patterns of one LIST. */
const PATTERNS_MAX = 16;
const SEPARATOR = '/';

/** Reads a name of a mailbox. */
export function readMailbox(command: Cursor): string {
  return readName(command, command.astring('a mailbox'));
}

function readPattern(command: Cursor): string {
  return readName(command, command.listMailbox()).normalize('NFC');
}

function readName({ isUtf8 }: Cursor, octets: string): string {
  const text = readUtf8(octets);
  return isUtf8 ? text : decodeMailboxName(text);
}

interface Listing {
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
  const reference = readMailbox(command);
  command.expect(' ');
  const patterns = command.sees('(')
    ? command.list(() => readPattern(command))
    : [readPattern(command)];
  if (patterns.length > PATTERNS_MAX) throw new BadCommand(`At most ${PATTERNS_MAX} patterns`);
  let status: readonly StatusItem[] = [];
  let returnsSubscribed = false;
  if (command.has(' RETURN ')) {
    command.list(() => {
      const option = command.atom('an option').toUpperCase();
      if (option === 'SUBSCRIBED') returnsSubscribed = true;
      else if (option === 'STATUS') {
        command.expect(' ');
        status = readStatusItems(command);
      } else if (option !== 'CHILDREN' && option !== 'SPECIAL-USE') {
        throw new BadCommand('The return option is not known');
      }
    }, true);
  }
  command.end();
  return { patterns: fullPatterns(reference, patterns), selects, returnsSubscribed, status };
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
 * Whether a name matches a pattern, in linear time for each wildcard: `*` is any text, `%` any without a separator
 * (RFC 9051 section 6.3.9).
 */
export function matches(pattern: string, name: string): boolean {
  let reached = new Set([0]);
  for (const character of pattern) {
    const next = new Set<number>();
    if (character === '*' || character === '%') {
      for (const start of reached) {
        for (let at = start; at <= name.length && !next.has(at); at++) {
          next.add(at);
          if (character === '%' && name[at] === SEPARATOR) break;
        }
      }
    } else {
      for (const at of reached) if (name.startsWith(character, at)) next.add(at + character.length);
    }
    reached = next;
  }
  return reached.has(name.length);
}

/** A name in the list. */
interface Entry {
  /** Undefined where there is none of this name: others are below it, or it is subscribed only. */
  readonly mailbox: OpenMailbox | undefined;
  readonly isSubscribed: boolean;
}

/** All names in order: mailboxes, subscribed names without one, and what they are below. */
async function readNames({ services, user }: Session): Promise<[string, Entry][]> {
  const { imap } = services.mailstore;
  const [mailboxes, subscriptions] = await Promise.all([imap.list(user), imap.subscriptions(user)]);
  const all = new Map<string, Entry>();
  for (const [name, isSubscribed] of subscriptions) {
    if (isSubscribed) all.set(name, { mailbox: undefined, isSubscribed });
  }
  for (const mailbox of mailboxes) {
    all.set(mailbox.name, { mailbox, isSubscribed: subscriptions.get(mailbox.name) ?? true });
  }
  for (const name of [...all.keys()]) {
    const levels = name.split(SEPARATOR);
    for (let depth = 1; depth < levels.length; depth++) {
      const above = levels.slice(0, depth).join(SEPARATOR);
      if (!all.has(above)) all.set(above, { mailbox: undefined, isSubscribed: false });
    }
  }
  return [...all].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Those that are below a name, of a list in order. */
function below(names: readonly [string, Entry][], name: string): [string, Entry][] {
  return names.filter(([other]) => other.startsWith(name + SEPARATOR));
}

/** To ask for the separator: an empty pattern. */
function writeSeparator(name: 'LIST' | 'LSUB'): string {
  return `* ${name} (\\Noselect) "${SEPARATOR}" ""\r\n`;
}

async function* listMailboxes(session: Session, asked: Listing): Answer {
  const { patterns, selects, status } = asked;
  if (patterns.length === 1 && patterns[0] === '') {
    yield writeSeparator('LIST');
    return 'That is all';
  }
  const names = await readNames(session);
  const isMatch = (name: string) => patterns.some((pattern) => matches(pattern, name));
  const isSelected = ({ mailbox, isSubscribed }: Entry) =>
    (!selects.has('SUBSCRIBED') || isSubscribed) &&
    (!selects.has('SPECIAL-USE') || Boolean(mailbox?.special_use));
  for (const [name, entry] of names) {
    if (!isMatch(name)) continue;
    const children = below(names, name);
    const { mailbox, isSubscribed } = entry;
    // What is below, and not told by itself (RFC 5258 section 3.5).
    const hasInfo =
      selects.has('RECURSIVEMATCH') &&
      selects.has('SUBSCRIBED') &&
      children.some(([other, child]) => isSelected(child) && !isMatch(other));
    const isListed = isSelected(entry) && (mailbox || isSubscribed || children.length > 0);
    if (!isListed && !hasInfo) continue;
    // Without a selection, a name without a mailbox is listed for those below it.
    const hasMailboxBelow = children.some(([, child]) => child.mailbox);
    if (!mailbox && !selects.has('SUBSCRIBED') && !hasMailboxBelow) continue;
    const tellsSubscribed = selects.has('SUBSCRIBED') || asked.returnsSubscribed;
    const attributes = [
      hasMailboxBelow ? '\\HasChildren' : '\\HasNoChildren',
      ...(mailbox ? [] : [selects.has('SUBSCRIBED') ? '\\NonExistent' : '\\Noselect']),
      ...(mailbox?.special_use ? [mailbox.special_use] : []),
      ...(tellsSubscribed && isSubscribed ? ['\\Subscribed'] : []),
    ];
    const info = hasInfo ? ' ("CHILDINFO" ("SUBSCRIBED"))' : '';
    yield `* LIST (${attributes.join(' ')}) "${SEPARATOR}" ${writeMailbox(name, session.isUtf8)}${info}\r\n`;
    if (mailbox && status.length > 0) yield await writeStatus(session, mailbox, status);
  }
  return 'That is all';
}

/**
 * The name of a mailbox, as IMAP4rev2 tells it where a client has named one (RFC 9051 section 6.3.9.7).
 *
 * @param asked the name that the client knows; it is told where it is another one
 */
export async function tellMailbox(session: Session, name: string, asked: string): Promise<string> {
  const all = await session.services.mailstore.imap.list(session.user);
  const use = all.find((one) => one.name === name)?.special_use;
  const hasChildren = all.some((one) => one.name.startsWith(name + SEPARATOR));
  const attributes = [hasChildren ? '\\HasChildren' : '\\HasNoChildren', ...(use ? [use] : [])];
  const [written, old] = [name, asked].map((one) => writeMailbox(one, session.isUtf8));
  // INBOX has one name, in any case.
  const isOther = asked !== name && asked.toUpperCase() !== 'INBOX';
  const info = isOther ? ` ("OLDNAME" (${old}))` : '';
  return `* LIST (${attributes.join(' ')}) "${SEPARATOR}" ${written}${info}\r\n`;
}

export const list: Command = {
  states: LOGGED_IN,
  tells: 'no removals',
  async *run(session, command) {
    return yield* listMailboxes(session, readListing(command));
  },
};

/** Subscribed names (RFC 3501 section 6.3.9). */
export const lsub: Command = {
  states: LOGGED_IN,
  tells: 'no removals',
  async *run(session, command) {
    command.expect(' ');
    const reference = readMailbox(command);
    command.expect(' ');
    const read = readPattern(command);
    command.end();
    const [pattern = ''] = fullPatterns(reference, [read]);
    if (pattern === '') {
      yield writeSeparator('LSUB');
      return 'That is all';
    }
    const names = await readNames(session);
    for (const [name, { isSubscribed }] of names) {
      if (!matches(pattern, name)) continue;
      const isAbove = below(names, name).some(([, child]) => child.isSubscribed);
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
  states: LOGGED_IN,
  tells: 'no removals',
  async *run(_session, command) {
    command.end();
    yield `* NAMESPACE (("" "${SEPARATOR}")) NIL NIL\r\n`;
    return 'That is all';
  },
};
