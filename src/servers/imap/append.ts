/** APPEND (RFC 9051 section 6.3.12, RFC 3502) and REPLACE (RFC 8508): the message goes to the store as it comes, and is never whole in memory. */
import {
  type AppendedByClient,
  enterTurnOf,
  type NewMessage,
  partiesOf,
} from '../../mailboxes/mailstore/mailstore.ts';
import { Turns } from '../../platform/net/net.ts';
import { readDateTime } from '../../protocols/imap-syntax/imap-syntax.ts';
import { asBuffer } from '../../protocols/message/message.ts';
import type { CommandParts } from './command-reader.ts';
import { hintAtCreate } from './copy-move.ts';
import { BadCommand, Cursor } from './cursor.ts';
import { type Command, No, type Session } from './session.ts';
import { readFlags, refuseReadOnly } from './store.ts';
import { numberSet } from './write.ts';

interface AppendHead {
  readonly mailbox: string;
  readonly flags: readonly string[];
  readonly internalDate: number | undefined;
}

/** Messages of one command: small ones are in memory until the last one came. */
const MESSAGES_MAX = 100;
/** Commands that hold messages at once, in all; one account and one user have a part. Who waits is not asked for his octets. */
const appending = new Turns(200);
const SHARES = { account: 4, tenant: 20 };

/** What stands before the message. @param command after the name of the command */
export function readAppend(command: Cursor): AppendHead {
  const mailbox = command.space().mailbox();
  return { mailbox, ...readMessageHead(command.space()) };
}

function readMessageHead(command: Cursor): Omit<AppendHead, 'mailbox'> {
  let flags: readonly string[] = [];
  if (command.sees('(')) {
    flags = readFlags(command);
    command.expect(' ');
  }
  let internalDate: number | undefined;
  if (command.sees('"')) {
    internalDate = readDate(command.string('a date'));
    command.expect(' ');
  }
  // RFC 6855 section 4: headers in UTF-8, which are taken anyway.
  command.has('UTF8 (');
  command.end();
  return { flags, internalDate };
}

function readDate(text: string): number {
  const at = readDateTime(text);
  if (at === undefined) throw new BadCommand('Expected a date: "17-Jul-1996 02:44:25 -0700"');
  return at;
}

/** Whether a literal after these parts is the message of an APPEND or REPLACE, and not the name of its mailbox. */
export function isMessageOf(parts: CommandParts): boolean {
  const command = new Cursor(parts);
  try {
    command.atom('a tag');
    command.expect(' ');
    command.has('UID ');
    const name = command.atom('a command').toUpperCase();
    if (name === 'REPLACE') readReplaced(command);
    else if (name !== 'APPEND') return false;
    readAppend(command);
    return true;
  } catch {
    return false;
  }
}

/** The message that a REPLACE means. @param command after the name of the command */
function readReplaced(command: Cursor): string {
  return command.space().sequenceSet();
}

export const append: Command = {
  tells: 'everything',
  async run(session, command) {
    const head = readAppend(command);
    const { mailstore } = session.services;
    const { state, uids = [] } = await inTurn(session, head, MESSAGES_MAX, (messages) =>
      mailstore.appendMessages(session.user, head.mailbox, messages),
    );
    session.wrote(state.mailbox, uids);
    return `[APPENDUID ${state.uidvalidity} ${numberSet(uids)}] Stored`;
  },
};

/** RFC 8508: the message is stored and the other one is removed, or neither. */
export function replacing(isByUid: boolean): Command {
  return {
    tells: 'everything',
    async *run(session, command) {
      const set = readReplaced(command);
      const head = readAppend(command);
      refuseReadOnly(session);
      const replaced = session.setOf(session.selected.resolve(set, isByUid));
      if (replaced.uids.length !== 1) throw new No('CANNOT', 'Expected one message to replace');
      const { mailstore } = session.services;
      const { state, uids = [] } = await inTurn(session, head, 1, (messages) =>
        mailstore.replaceMessages(session.user, replaced, head.mailbox, messages),
      );
      session.wrote(state.mailbox, uids);
      // Before the removal (RFC 8508 section 4.3).
      yield `* OK [APPENDUID ${state.uidvalidity} ${numberSet(uids)}] Stored\r\n`;
      return 'Replaced';
    },
  };
}

/** Stores the messages that the client sends when it is its turn. @param most messages of the command */
async function inTurn(
  session: Session,
  head: AppendHead,
  most: number,
  store: (messages: AsyncIterable<NewMessage>) => Promise<AppendedByClient>,
): Promise<AppendedByClient> {
  if (!session.channel.literal) throw new BadCommand('Expected the message as a literal');
  refuseLarge(session, session.channel.literal.octets);
  // Before the client sends it: it may be large.
  await session.services.mailstore.imap.open(session.user, head.mailbox).catch(hintAtCreate);
  const run = () => store(readMessages(session, head, most));
  return appending
    .run(partiesOf(session.user, SHARES), run, session.channel.signal)
    .catch(hintAtCreate);
}

/** The messages of one command (RFC 3502), each read when the one before it is stored. */
async function* readMessages(
  session: Session,
  first: AppendHead,
  most: number,
): AsyncGenerator<NewMessage> {
  const { channel } = session;
  let { flags, internalDate } = first;
  let octets = 0;
  // All messages of one command count together, as they are stored.
  const count = (stored: number) => {
    octets += stored;
    refuseLarge(session, octets);
  };
  for (let number = 1; ; number++) {
    const announced = channel.literal?.octets ?? 0;
    refuseLarge(session, octets + announced);
    if (number > most) {
      throw new No('LIMIT', `At most ${most} ${most === 1 ? 'message' : 'messages'} at once`);
    }
    yield {
      flags,
      internalDate,
      octets: announced,
      // What is sent as binary has line ends of its own.
      ...(channel.literal?.isBinary
        ? { isBinary: true, source: counted(channel.readLiteral(), count) }
        : { source: counted(withLineEnds(channel.readLiteral()), count) }),
    };
    const parts = await channel.nextMessage();
    if (!parts) return;
    // Up to 2 MiB come in one turn of the event loop: others would wait until all messages in it were read.
    const waits = enterTurnOf(session.user);
    if (waits) await waits;
    const command = new Cursor(parts);
    ({ flags, internalDate } = readMessageHead(command.space()));
  }
}

/** @param octets of the messages of a command */
function refuseLarge({ services }: Session, octets: number): void {
  if (octets > services.maxMessageBytes) {
    throw new No('TOOBIG', `A message has at most ${services.maxMessageBytes} octets`);
  }
}

/** @param count is told of the octets of each piece before it is passed on, and may throw */
async function* counted(
  source: AsyncIterable<Uint8Array>,
  count: (octets: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const piece of source) {
    count(piece.length);
    yield piece;
  }
}

/**
 * Mail has CRLF at the end of each line (RFC 5322 section 2.3); programs that keep mail in files may send LF. All other
 * octets stay.
 */
async function* withLineEnds(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let wasCr = false;
  for await (const chunk of source) {
    const octets = asBuffer(chunk);
    const text = octets.toString('latin1');
    const bare = /(?<!\r)\n/.test(wasCr ? text.slice(1) : text);
    const first = wasCr && text.startsWith('\n') ? '\n' : '';
    const rest = text.slice(first.length);
    yield bare ? Buffer.from(first + rest.replace(/(?<!\r)\n/g, '\r\n'), 'latin1') : octets;
    wasCr = text.endsWith('\r');
  }
}
