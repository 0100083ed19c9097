/** The mailboxes of an account with their states: LIST, SPECIAL-USE and STATUS. */

import { when } from '../../../platform/errors/errors.ts';
import {
  decodeMailboxName,
  encodeMailboxName,
} from '../../../protocols/imap-syntax/imap-syntax.ts';
import { canonicalMailboxName } from '../../mailstore/mailstore.ts';
import { type Connection, mailboxArgument } from './connection.ts';
import { saysNo } from './failure.ts';
import type { ImapItem, ImapResponse } from './responses.ts';
import type { SyncState } from './token.ts';
import {
  type Argument,
  atom,
  listOf,
  modseqOf,
  numberOf,
  quoted,
  textOf,
  valuesOf,
} from './wire.ts';

export interface ListedMailbox {
  readonly mailbox: string;
  readonly specialUse?: string;
  readonly uidvalidity: string;
  /** `modseq` is 0 where the mailbox has none. */
  readonly state: SyncState;
  readonly unseen: number | undefined;
}

interface Listed {
  readonly mailbox: string;
  /** As the server wrote it. */
  readonly wireName: string;
  readonly specialUse: string | undefined;
}

/** The uses of RFC 6154 section 2 that our own store has. */
const SPECIAL_USES = ['\\Sent', '\\Drafts', '\\Junk', '\\Trash', '\\Archive'];

/** Guesses the use by the last part of the name, where a server lacks SPECIAL-USE. */
const usualNames = new Map([
  ['sent', '\\Sent'],
  ['drafts', '\\Drafts'],
  ['junk', '\\Junk'],
  ['spam', '\\Junk'],
  ['trash', '\\Trash'],
  ['archive', '\\Archive'],
]);

export async function listMailboxes(connection: Connection): Promise<ListedMailbox[]> {
  // STATUS of the selected mailbox would return old numbers: the last that this session saw (RFC 3501 section 6.3.10).
  await connection.unselect();
  const listed = new Map<string, Listed>();
  const statuses = new Map<string, Omit<ListedMailbox, 'mailbox' | 'specialUse'>>();
  const on = {
    LIST: (response: ImapResponse) => {
      const mailbox = readListed(response, connection.has('SPECIAL-USE'));
      if (mailbox) listed.set(mailbox.wireName, mailbox);
    },
    STATUS: ({ items }: ImapResponse) => {
      const name = canonicalMailboxName(textOf(items[0]) ?? '');
      const status = readStatus(items[1]);
      if (status) statuses.set(name, status);
    },
  };
  const items = statusItems(connection);
  // RFC 5258, RFC 5819: the states come together with the names, in one round trip.
  const together = connection.has('LIST-EXTENDED') && connection.has('LIST-STATUS');
  const special = connection.has('SPECIAL-USE') ? [atom('SPECIAL-USE')] : [];
  const extension = together ? [atom('RETURN'), [...special, atom('STATUS'), items]] : [];
  await connection.command('LIST', [quoted(''), quoted('*'), ...extension], on);
  for (const wireName of together ? [] : listed.keys()) {
    await connection.command('STATUS', [quoted(wireName), items], on).catch(passOverNo);
  }
  const mailboxes: ListedMailbox[] = [];
  for (const { mailbox, wireName, specialUse } of listed.values()) {
    const status = statuses.get(wireName);
    if (status) mailboxes.push({ mailbox, ...(specialUse && { specialUse }), ...status });
  }
  const order = ({ mailbox }: ListedMailbox) => (mailbox === 'INBOX' ? '' : mailbox);
  return mailboxes.sort((a, b) => (order(a) < order(b) ? -1 : 1));
}

/** The state of a mailbox that keeps MODSEQs. */
export type KnownState = Pick<ListedMailbox, 'uidvalidity' | 'state'>;

/**
 * The state of a mailbox by STATUS, which takes servers half the time of EXAMINE.
 *
 * @returns undefined where a mailbox is open on the connection, or the server does not tell it
 */
export async function readState(
  connection: Connection,
  mailbox: string,
): Promise<KnownState | undefined> {
  if (!connection.hasQresync || connection.selected) return undefined;
  let known: KnownState | undefined;
  const args = [mailboxArgument(mailbox), statusItems(connection)];
  const on = {
    STATUS: ({ items }: ImapResponse) => {
      known = readStatus(items[1]);
    },
  };
  await connection.command('STATUS', args, on).catch(passOverNo);
  return known && known.state.modseq > 0n ? known : undefined;
}

/** The mailbox with a use, or else with a name; undefined where there is neither. */
export async function findSpecialUse(
  connection: Connection,
  name: string,
  use: string | undefined,
): Promise<string | undefined> {
  const tellsUse = connection.has('SPECIAL-USE');
  const found: Listed[] = [];
  // Without LIST-EXTENDED a server returns uses with every LIST (RFC 6154 section 2).
  const ask = tellsUse && connection.has('LIST-EXTENDED');
  const extension = ask ? [atom('RETURN'), [atom('SPECIAL-USE')]] : [];
  await connection.command('LIST', [quoted(''), quoted('*'), ...extension], {
    LIST: (response) => {
      const mailbox = readListed(response, tellsUse);
      if (mailbox) found.push(mailbox);
    },
  });
  const match =
    (use !== undefined && found.find(({ specialUse }) => specialUse === use)) ||
    found.find(({ mailbox }) => mailbox === name);
  return match ? match.mailbox : undefined;
}

function statusItems(connection: Connection): Argument[] {
  const names = ['MESSAGES', 'UIDNEXT', 'UIDVALIDITY', 'UNSEEN'];
  if (connection.hasQresync) names.push('HIGHESTMODSEQ');
  return names.map(atom);
}

/** A mailbox that was deleted meanwhile, or must not be read, is left out. */
const passOverNo = when((error) => saysNo(error), undefined);

/** A name that is not well formed stays as it is, so that the server still knows it. */
export function readName(wireName: string): string {
  const name = decodeMailboxName(wireName);
  return encodeMailboxName(name) === wireName ? name : wireName;
}

function readListed({ items }: ImapResponse, tellsUse: boolean): Listed | undefined {
  const flags = listOf(items[0]).map((flag) => textOf(flag)?.toLowerCase());
  // RFC 3501 section 7.2.2, RFC 5258 section 3: names that are only parents of others.
  if (flags.includes('\\noselect') || flags.includes('\\nonexistent')) return undefined;
  const name = textOf(items[2]);
  if (name === undefined) return undefined;
  const wireName = canonicalMailboxName(name);
  const mailbox = readName(wireName);
  const separator = textOf(items[1]);
  const marked = SPECIAL_USES.find((use) => flags.includes(use.toLowerCase()));
  const last = separator ? mailbox.split(separator).at(-1) : mailbox;
  const guessed = tellsUse ? undefined : usualNames.get(last?.toLowerCase() ?? '');
  return { mailbox, wireName, specialUse: marked ?? guessed };
}

function readStatus(
  item: ImapItem | undefined,
): Omit<ListedMailbox, 'mailbox' | 'specialUse'> | undefined {
  const values = valuesOf(item);
  const uidvalidity = numberOf(values.get('UIDVALIDITY'));
  const uidnext = numberOf(values.get('UIDNEXT'));
  const count = numberOf(values.get('MESSAGES'));
  if (uidvalidity === undefined || uidnext === undefined || count === undefined) return undefined;
  return {
    uidvalidity: `${uidvalidity}`,
    state: { modseq: modseqOf(values.get('HIGHESTMODSEQ')) ?? 0n, uidnext, count },
    unseen: numberOf(values.get('UNSEEN')),
  };
}
