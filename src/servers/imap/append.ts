/** APPEND (RFC 9051 section 6.3.12, RFC 3502): the message goes to the store as it comes, and is never whole in memory. */
import { type NewMessage, partiesOf } from '../../mailboxes/mailstore/mailstore.ts';
import { Turns } from '../../platform/net/net.ts';
import { asBuffer } from '../../protocols/message/message.ts';
import type { CommandParts } from './command-reader.ts';
import { hintAtCreate } from './copy-move.ts';
import { BadCommand, Cursor } from './cursor.ts';
import { readMailbox } from './list.ts';
import { type Command, No, type Session } from './session.ts';
import { readFlags } from './store.ts';
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
const DATE =
  /^([ \d]\d)-(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)-(\d{4}) (\d\d:\d\d:\d\d) ([+-]\d{4})$/i;

/** What stands before the message. @param command after the name of the command */
export function readAppend(command: Cursor): AppendHead {
  command.expect(' ');
  const mailbox = readMailbox(command);
  command.expect(' ');
  return { mailbox, ...readMessageHead(command) };
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
  const match = DATE.exec(text);
  const [, day, month, year, time, zone] = match ?? [];
  const at = Date.parse(`${day?.trim()} ${month} ${year} ${time} ${zone}`);
  if (!match || Number.isNaN(at))
    throw new BadCommand('Expected a date: "17-Jul-1996 02:44:25 -0700"');
  return at;
}

/** Whether a literal after these parts is the message of an APPEND, and not the name of its mailbox. */
export function isMessageOf(parts: CommandParts): boolean {
  const command = new Cursor(parts);
  try {
    command.atom('a tag');
    command.expect(' ');
    if (command.atom('a command').toUpperCase() !== 'APPEND') return false;
    readAppend(command);
    return true;
  } catch {
    return false;
  }
}

export const append: Command = {
  states: ['authenticated', 'selected'],
  tells: 'everything',
  async *run(session, command) {
    const head = readAppend(command);
    const { mailstore } = session.services;
    if (!session.channel.literal) throw new BadCommand('Expected the message as a literal');
    refuseLarge(session, 0);
    // Before the client sends it: it may be large.
    await mailstore.imap.open(session.user, head.mailbox).catch(hintAtCreate);
    const store = () =>
      mailstore.appendMessages(session.user, head.mailbox, readMessages(session, head));
    const { state, uids = [] } = await appending
      .run(partiesOf(session.user, SHARES), store, session.channel.signal)
      .catch(hintAtCreate);
    yield '';
    return `[APPENDUID ${state.uidvalidity} ${numberSet(uids)}] Stored`;
  },
};

/** The messages of one APPEND (RFC 3502), each read when the one before it is stored. */
async function* readMessages(session: Session, first: AppendHead): AsyncGenerator<NewMessage> {
  const { channel } = session;
  let { flags, internalDate } = first;
  let octets = 0;
  for (let count = 1; ; count++) {
    const { literal } = channel;
    octets += literal?.octets ?? 0;
    refuseLarge(session, octets);
    if (count > MESSAGES_MAX) throw new No('LIMIT', `At most ${MESSAGES_MAX} messages at once`);
    yield {
      flags,
      ...(internalDate !== undefined && { internalDate }),
      octets: literal?.octets ?? 0,
      // What is sent as binary has line ends of its own.
      ...(literal?.isBinary
        ? { isBinary: true, source: channel.readLiteral() }
        : { source: withLineEnds(channel.readLiteral()) }),
    };
    const parts = await channel.nextMessage();
    if (!parts) return;
    const command = new Cursor(parts);
    command.expect(' ');
    ({ flags, internalDate } = readMessageHead(command));
  }
}

/** All messages of one command count together. */
function refuseLarge({ channel, services }: Session, octets: number): void {
  if (Math.max(octets, channel.literal?.octets ?? 0) > services.maxMessageBytes) {
    throw new No('TOOBIG', `A message has at most ${services.maxMessageBytes} octets`);
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
