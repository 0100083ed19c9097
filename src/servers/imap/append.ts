/** APPEND (RFC 9051 section 6.3.12): the message goes to the store as it comes, and is never whole in memory. */
import type { CommandParts } from './command-reader.ts';
import { hintAtCreate } from './copy-move.ts';
import { BadCommand, Cursor } from './cursor.ts';
import { readMailbox } from './list.ts';
import { type Command, No } from './session.ts';
import { readFlags } from './store.ts';

interface AppendHead {
  readonly mailbox: string;
  readonly flags: readonly string[];
  readonly internalDate: number | undefined;
}

const DATE =
  /^([ \d]\d)-(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)-(\d{4}) (\d\d:\d\d:\d\d) ([+-]\d{4})$/i;

/** What stands before the message. @param command after the name of the command */
export function readAppend(command: Cursor): AppendHead {
  command.expect(' ');
  const mailbox = readMailbox(command);
  command.expect(' ');
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
  command.end();
  return { mailbox, flags, internalDate };
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
    const { mailbox, flags, internalDate } = readAppend(command);
    const { mailstore } = session.services;
    const literal = session.channel.literal;
    if (!literal) throw new BadCommand('Expected the message as a literal');
    if (literal.octets > session.services.maxMessageBytes) {
      throw new No('TOOBIG', `A message has at most ${session.services.maxMessageBytes} octets`);
    }
    // Before the client sends it: it may be large.
    await mailstore.imap.open(session.user, mailbox).catch(hintAtCreate);
    const request = {
      mailbox,
      flags,
      octets: literal.octets,
      ...(internalDate !== undefined && { internalDate }),
    };
    const { state, uid } = await mailstore
      .appendMessage(session.user, request, session.channel.readLiteral())
      .catch(hintAtCreate);
    yield '';
    return `[APPENDUID ${state.uidvalidity} ${uid}] Stored`;
  },
};
