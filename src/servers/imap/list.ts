/** LIST with its extensions (RFC 9051 section 6.3.9, RFC 5819), LSUB, NAMESPACE, and what changes the list. */

import type { OpenMailbox } from '../../mailboxes/mailstore/mailstore.ts';
import { decodeMailboxName } from '../../protocols/imap-syntax/imap-syntax.ts';
import { BadCommand, type Cursor, readUtf8 } from './cursor.ts';
import { type Answer, type Command, No, type Session } from './session.ts';
import { readStatusItems, type StatusItem, writeStatus } from './status.ts';
import { mailbox as writeMailbox } from './write.ts';

const LOGGED_IN = ['authenticated', 'selected'] as const;
/** Patterns of one LIST. */
const PATTERNS_MAX = 16;
const SEPARATOR = '/';

/** Reads a name of a mailbox. */
export function readMailbox(command: Cursor): string {
  return decodeMailboxName(readUtf8(command.astring('a mailbox')));
}

interface Listing {
  readonly reference: string;
  readonly patterns: readonly string[];
  /** Only mailboxes with a special use. */
  readonly onlySpecial: boolean;
  readonly status: readonly StatusItem[];
  /** Attributes that were asked for: only these are not told anyway. */
  readonly subscribed: boolean;
}

const SELECTIONS = new Set(['SUBSCRIBED', 'REMOTE', 'RECURSIVEMATCH', 'SPECIAL-USE']);

function readListing(command: Cursor): Listing {
  command.expect(' ');
  const options = command.sees('(') ? command.list(() => readOption(command), true) : undefined;
  if (options) command.expect(' ');
  const reference = readMailbox(command);
  command.expect(' ');
  const read = () => decodeMailboxName(readUtf8(command.listMailbox()));
  const patterns = command.sees('(') ? command.list(read) : [read()];
  if (patterns.length > PATTERNS_MAX) throw new BadCommand(`At most ${PATTERNS_MAX} patterns`);
  let status: readonly StatusItem[] = [];
  let subscribed = options?.includes('SUBSCRIBED') ?? false;
  if (command.has(' RETURN ')) {
    command.list(() => {
      const option = command.atom('an option').toUpperCase();
      if (option === 'SUBSCRIBED') subscribed = true;
      else if (option === 'STATUS') {
        command.expect(' ');
        status = readStatusItems(command);
      } else if (option !== 'CHILDREN' && option !== 'SPECIAL-USE') {
        throw new BadCommand('The return option is not known');
      }
    }, true);
  }
  command.end();
  const onlySpecial = options?.includes('SPECIAL-USE') ?? false;
  return { reference, patterns, onlySpecial, status, subscribed };
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

async function* listMailboxes(session: Session, name: 'LIST' | 'LSUB', asked: Listing): Answer {
  // To ask for the separator: an empty pattern.
  if (asked.patterns.length === 1 && asked.patterns[0] === '') {
    yield `* ${name} (\\Noselect) "${SEPARATOR}" ""\r\n`;
    return 'That is all';
  }
  const { services, user } = session;
  const mailboxes = await services.mailstore.imap.list(user);
  const all = withParents(mailboxes);
  // INBOX is matched in any case (section 5.1).
  const patterns = asked.patterns
    .map((pattern) => asked.reference + pattern)
    .map((pattern) => pattern.replace(/^inbox(?=$|[/%*])/i, 'INBOX'));
  for (const [full, mailbox] of all) {
    if (!patterns.some((pattern) => matches(pattern, full))) continue;
    if (asked.onlySpecial && !mailbox?.special_use) continue;
    const prefix = full + SEPARATOR;
    const hasChildren = mailboxes.some((other) => other.name.startsWith(prefix));
    const attributes = [
      hasChildren ? '\\HasChildren' : '\\HasNoChildren',
      ...(mailbox ? [] : ['\\Noselect']),
      ...(mailbox?.special_use ? [mailbox.special_use] : []),
      ...(asked.subscribed && mailbox ? ['\\Subscribed'] : []),
    ];
    yield `* ${name} (${attributes.join(' ')}) "${SEPARATOR}" ${writeMailbox(full)}\r\n`;
    if (mailbox && asked.status.length > 0) yield writeStatus(mailbox, asked.status);
  }
  return 'That is all';
}

/** Mailboxes by name, in order; a parent that does not exist is listed, too, since others are below it. */
function withParents(mailboxes: readonly OpenMailbox[]): [string, OpenMailbox | undefined][] {
  const all = new Map<string, OpenMailbox | undefined>();
  for (const { name } of mailboxes) {
    const levels = name.split(SEPARATOR);
    for (let depth = 1; depth < levels.length; depth++) {
      all.set(levels.slice(0, depth).join(SEPARATOR), undefined);
    }
  }
  for (const mailbox of mailboxes) all.set(mailbox.name, mailbox);
  return [...all].sort(([a], [b]) => (a < b ? -1 : 1));
}

export const list: Command = {
  states: LOGGED_IN,
  tells: 'no removals',
  async *run(session, command) {
    return yield* listMailboxes(session, 'LIST', readListing(command));
  },
};

/** Every mailbox is subscribed. */
export const lsub: Command = {
  states: LOGGED_IN,
  tells: 'no removals',
  async *run(session, command) {
    command.expect(' ');
    const reference = readMailbox(command);
    command.expect(' ');
    const pattern = decodeMailboxName(readUtf8(command.listMailbox()));
    command.end();
    const asked = { reference, patterns: [pattern], onlySpecial: false, subscribed: false };
    return yield* listMailboxes(session, 'LSUB', { ...asked, status: [] });
  },
};

/**
 * Every mailbox is subscribed, so that programs which list only those show what an app has made.
 *
 * @param isOn false is refused, since nothing could keep it
 */
function subscribing(isOn: boolean): Command {
  return {
    states: LOGGED_IN,
    tells: 'no removals',
    async *run(session, command) {
      command.expect(' ');
      const name = readMailbox(command);
      command.end();
      const mailbox = await session.services.mailstore.imap.open(session.user, name);
      yield '';
      if (isOn) return `${writeMailbox(mailbox.name)} is subscribed`;
      throw new No('CANNOT', 'Every mailbox is subscribed');
    },
  };
}

export const subscribe = subscribing(true);
export const unsubscribe = subscribing(false);

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

export const create: Command = {
  states: LOGGED_IN,
  tells: 'no removals',
  async *run(session, command) {
    command.expect(' ');
    // A separator at the end says that there will be others below it (section 6.3.4).
    const name = readMailbox(command).replace(/\/$/, '');
    command.end();
    await session.services.mailstore.createMailbox(session.user, name);
    yield '';
    return 'The mailbox is made';
  },
};

export const remove: Command = {
  states: LOGGED_IN,
  tells: 'no removals',
  async *run(session, command) {
    command.expect(' ');
    const name = readMailbox(command);
    command.end();
    await session.services.mailstore.deleteMailbox(session.user, name);
    yield '';
    return 'The mailbox is deleted';
  },
};

export const rename: Command = {
  states: LOGGED_IN,
  tells: 'no removals',
  async *run(session, command) {
    command.expect(' ');
    const name = readMailbox(command);
    command.expect(' ');
    const to = readMailbox(command);
    command.end();
    await session.services.mailstore.renameMailbox(session.user, name, to);
    yield '';
    return 'The mailbox is renamed';
  },
};
