/** Runs one command to its tagged answer: finds it, checks the state, and turns failures into NO, BAD or BYE. */
import { enterTurnOf } from '../../mailboxes/mailstore/mailstore.ts';
import { refusalOfFailure } from '../../platform/database/database.ts';
import { type ErrorCode, isRefusal, Refusal } from '../../platform/errors/errors.ts';
import { clientKey, enterTurn } from '../../platform/net/net.ts';
import type { CommandParts } from './command-reader.ts';
import { commands, commandsIn } from './commands.ts';
import { BadCommand, Cursor } from './cursor.ts';
import { tellNews } from './notify.ts';
import { Bye, type Command, CutOff, No, type Session } from './session.ts';
import { RENAMED } from './tell-changes.ts';
import { line, type Output } from './write.ts';

const TAG = /^[^\x00-\x20(){%*"\\+\x7f-\xff]{1,64}$/;

/** Commands of a stranger that are answered BAD; who speaks IMAP sends a few at most. */
const MISTAKES_MAX = 20;

/** Codes of RFC 5530 for what the parts refuse. */
const CODES: Partial<Record<ErrorCode, string>> = {
  mailbox_not_found: 'NONEXISTENT',
  mailbox_exists: 'ALREADYEXISTS',
  message_not_found: 'EXPUNGEISSUED',
  mailbox_protected: 'CANNOT',
  invalid_request: 'CANNOT',
  quota_exceeded: 'OVERQUOTA',
  message_too_large: 'TOOBIG',
  rate_limited: 'LIMIT',
  storage_full: 'UNAVAILABLE',
  unavailable: 'UNAVAILABLE',
  body_unavailable: 'SERVERBUG',
};

/** Refusals name fields of the HTTP API: the words for people who read the text in a mail program. */
const WORDS: Readonly<Record<string, string>> = {
  add: 'flags',
  remove: 'flags',
  to: 'the new name',
};

/** How a command ended, for metrics; `failed` is a NO that nobody expected. */
export interface Ended {
  /** In upper case; `other` where it is not known. */
  readonly name: string;
  readonly outcome: 'ok' | 'no' | 'bad' | 'bye' | 'failed';
  /** What was not expected, for the log. */
  readonly error?: unknown;
}

/** Passes on a piece of an answer. Returns nothing, or what to wait for before more is made. */
export type Send = (output: Output) => Promise<void> | undefined;

/**
 * Runs a command.
 *
 * @param onEnd called once, before the tagged answer
 * @throws Bye where the session cannot go on
 */
export async function runCommand(
  session: Session,
  parts: CommandParts,
  send: Send,
  onEnd: (ended: Ended) => void,
): Promise<void> {
  const cursor = new Cursor(parts, session.isUtf8);
  let name = 'other';
  // The command was carried out all the same, and its client is told so first.
  let failure: Bye | undefined;
  let last: string;
  let isOk = true;
  session.tag = '';
  try {
    // Also before what is no command: 64 KiB of empty lines in one packet would hold everybody else for a second.
    const waits = session.isLoggedIn ? enterTurnOf(session.user) : enterTurnOfStranger(session);
    if (waits) await waits;
    session.tag = readTag(cursor);
    name = readName(cursor);
    session.command = name;
    session.commandAt = session.now();
    if (name === 'other') throw new BadCommand('The command is not known');
    const command = commandsIn[session.state][name];
    if (!command) throw new BadCommand(`Not while the session is ${session.state}`);
    const answer = command.run(session, cursor);
    const text = await (answer instanceof Promise ? answer : sendAll(answer, send));
    if (command.tells !== 'nothing') failure = await tellOthers(session, command, send);
    onEnd({ name, outcome: 'ok' });
    last = `${session.tag} OK ${text}\r\n`;
  } catch (error) {
    tellAgain(session);
    last = fail(session, name, error, onEnd);
    isOk = false;
  }
  const waits = send(last);
  if (waits) await waits;
  if (failure) throw failure;
  if (isOk && name === 'STARTTLS') session.channel.startTls();
}

/**
 * Sends what is answered; the next piece is made when the client has read enough of those before.
 *
 * @throws CutOff where something cannot be sent; what the answer throws
 */
async function sendAll<Result>(
  answer: AsyncGenerator<Output, Result>,
  send: Send,
): Promise<Result> {
  for (;;) {
    const { done, value } = await answer.next();
    if (done) return value;
    try {
      const waits = send(value);
      if (waits) await waits;
    } catch (cause) {
      await answer.return(undefined as Result);
      throw new CutOff(cause);
    }
  }
}

/** Milliseconds of a turn of the event loop, for one client and for all who have not logged in. */
const OF_A_TURN = { client: 2, strangers: 5 };

function enterTurnOfStranger({ channel }: Session): Promise<void> | undefined {
  return enterTurn([
    { name: `imap ${clientKey(channel.address)}`, most: OF_A_TURN.client },
    { name: 'strangers of IMAP', most: OF_A_TURN.strangers },
  ]);
}

function readTag(cursor: Cursor): string {
  const tag = cursor.atom('a tag');
  if (!TAG.test(tag)) throw new BadCommand('Expected a tag of at most 64 characters');
  cursor.expect(' ');
  return tag;
}

function readName(cursor: Cursor): string {
  const name = cursor.atom('a command').toUpperCase();
  if (name !== 'UID') return Object.hasOwn(commands, name) ? name : 'other';
  cursor.expect(' ');
  const full = `UID ${cursor.atom('a command').toUpperCase()}`;
  return Object.hasOwn(commands, full) ? full : 'other';
}

/** What others changed, and this session was not told yet. @returns why the session cannot go on after its answer */
async function tellOthers(
  session: Session,
  { tells }: Command,
  send: Send,
): Promise<Bye | undefined> {
  const { view, watches } = session;
  const withRemovals = tells === 'everything';
  const hasUntold = withRemovals && view && view.untold.size > 0;
  const hasNews = session.isBehind || session.told.size > 0 || hasUntold;
  if (!hasNews && !watches?.isBehind) return undefined;
  try {
    await sendAll(tellNews(session, withRemovals), send);
    return undefined;
  } catch (error) {
    if (error instanceof CutOff) throw error;
    if (error instanceof Bye) return error;
    // A NO would let the client do once more what was done: it is told with the next command.
    if (!isPassing(error)) throw error;
    session.isBehind = true;
    return undefined;
  }
}

/**
 * The flags that a command has set which then failed: the next one tells them. Its client knows not of which messages they
 * were set, and some of the answers may not have been sent.
 */
function tellAgain(session: Session): void {
  if (session.told.size === 0) return;
  session.told.clear();
  session.isBehind = true;
}

/** Whether it can go well the next time. */
const isPassing = (error: unknown) =>
  error instanceof Refusal || refusalOfFailure(error) !== undefined;

/**
 * What changed while no command runs, where the client asked to be told at any time (RFC 5465 section 3.1).
 *
 * @throws Bye where the session cannot go on, and what nobody expected
 */
export async function tellUnasked(session: Session, send: Send): Promise<void> {
  if (!session.watches) return;
  try {
    await sendAll(tellNews(session, false), send);
  } catch (error) {
    if (error instanceof Bye || !isPassing(error)) throw error;
    // It is told with the next change, or with the check after a minute.
    session.isBehind = true;
  }
}

/** Where the selected mailbox was deleted, and another one has its name. */
const isOfAnother = isRefusal('uidvalidity_changed');

/** The tagged answer of a command that failed. @throws Bye where the session cannot go on */
function fail(
  session: Session,
  name: string,
  error: unknown,
  onEnd: (ended: Ended) => void,
): string {
  const tag = session.tag || '*';
  if (error instanceof Bye || isOfAnother(error)) {
    onEnd({ name, outcome: 'bye' });
    throw error instanceof Bye ? error : new Bye(RENAMED);
  }
  if (error instanceof BadCommand) {
    if (!session.isLoggedIn && ++session.mistakes > MISTAKES_MAX) {
      onEnd({ name, outcome: 'bye' });
      throw new Bye('Too many commands that are not valid');
    }
    onEnd({ name, outcome: 'bad' });
    return `${tag} BAD ${line(error.message)}\r\n`;
  }
  if (error instanceof No) {
    onEnd({ name, outcome: 'no' });
    return `${tag} NO ${error.code ? `[${error.code}] ` : ''}${line(error.message)}\r\n`;
  }
  const refusal = error instanceof Refusal ? error : refusalOfFailure(error);
  onEnd(refusal ? { name, outcome: 'no' } : { name, outcome: 'failed', error });
  const code = refusal ? CODES[refusal.code] : 'SERVERBUG';
  const text = refusal ? textOf(refusal) : 'Something failed on our side';
  return `${tag} NO ${code ? `[${code}] ` : ''}${line(text)}\r\n`;
}

function textOf({ message, errors: [wrong] = [] }: Refusal): string {
  const word = wrong && WORDS[wrong.field];
  return word ? `${word} ${wrong.message}` : message;
}
