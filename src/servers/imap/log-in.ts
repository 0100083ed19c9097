/** LOGIN and AUTHENTICATE (RFC 9051 section 6.2), STARTTLS, CAPABILITY, ID. */
import type { RawConnection } from '../../mailboxes/mail-server/mail-server.ts';
import { many, Refusal } from '../../platform/errors/errors.ts';
import {
  type GivenLogin,
  isMechanism,
  MECHANISMS,
  type Mechanism,
  readLogin,
  SaslFault,
  tokenRefusal,
} from '../../protocols/sasl/sasl.ts';
import type { MailAccess } from '../../tenants/accounts/accounts.ts';
import { BadCommand, type Cursor, readUtf8 } from './cursor.ts';
import { type Answer, Bye, type Command, No, type Session } from './session.ts';

const ANYBODY = 'IMAP4rev1 IMAP4rev2 LITERAL- ID ENABLE';
const LOGINS = ['SASL-IR', ...MECHANISMS.map((name) => `AUTH=${name}`)].join(' ');
const LOGGED_IN = [
  'IDLE NAMESPACE CHILDREN UNSELECT UIDPLUS MOVE SPECIAL-USE CREATE-SPECIAL-USE LIST-EXTENDED LIST-STATUS',
  'QUOTA QUOTA=RES-STORAGE',
  'STATUS=SIZE ESEARCH SEARCHRES CONDSTORE QRESYNC MULTIAPPEND',
  'BINARY UTF8=ACCEPT SAVEDATE OBJECTID PREVIEW WITHIN PARTIAL',
  'SORT SORT=DISPLAY ESORT THREAD=ORDEREDSUBJECT THREAD=REFERENCES REPLACE NOTIFY INPROGRESS',
].join(' ');

const EXTENSIONS = new Set(['IMAP4REV2', ...LOGGED_IN.toUpperCase().split(' ')]);

/** Whether an operator may take it off. @param name in upper case */
export function isExtension(name: string): boolean {
  return EXTENSIONS.has(name);
}

/** What the session may use now; clients keep whichever they saw first after a login. */
export function capabilities({ channel, isLoggedIn, services }: Session): string {
  const { disabled, maxMessageBytes, openOnServer } = services;
  const tls = channel.isSecure ? '' : ' STARTTLS';
  const before = channel.mayLogIn ? `${tls} ${LOGINS}` : `${tls} LOGINDISABLED`;
  const after = ` ${LOGGED_IN} APPENDLIMIT=${maxMessageBytes}`;
  // What a mail server can do is not known before it has opened the account.
  if (openOnServer) return `IMAP4rev1 ID${before}`;
  const names = `${ANYBODY}${isLoggedIn ? after : before}`.split(' ');
  return names.filter((name) => !disabled?.has(name.toUpperCase())).join(' ');
}

/** Wrong passwords that end a connection. */
const FAILED_MAX = 5;

const PRIVACY = 'A password may be sent by TLS only: use STARTTLS or the TLS port';

async function* logInWith(session: Session, find: () => Promise<MailAccess>): Answer {
  let user: MailAccess;
  try {
    user = await find();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw explain(session, error);
  }
  if (!(await session.channel.admit(user))) {
    // Not NO: programs show that as a wrong password.
    throw new Bye('[LIMIT] The account, its user or this client has too many connections');
  }
  const opened = yield* openElsewhere(session, user);
  session.logIn(user);
  return `[CAPABILITY ${opened?.capabilities ?? capabilities(session)}] Logged in`;
}

/** @returns undefined where mailboxes are our own; else the rest of the session is the mail server's */
async function* openElsewhere(
  session: Session,
  user: MailAccess,
): AsyncGenerator<string, RawConnection | undefined> {
  const { channel, services } = session;
  if (!services.openOnServer) return undefined;
  try {
    const opened = await services.openOnServer(user, channel.address, channel.signal);
    channel.passOnTo(opened);
    return opened;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    // The slots that it has are of no use: it has to connect again for a next try.
    session.isOver = true;
    yield '* BYE The mailboxes cannot be opened now\r\n';
    if (error.code === 'account_inactive') throw explain(session, error);
    // The password was right (RFC 5530 section 3): a program must not ask for another one.
    throw new No(
      'UNAVAILABLE',
      'The login is right, but the mail server does not open the mailboxes',
    );
  }
}

function explain(session: Session, { code, message, retryAfter }: Refusal): Error {
  if (code === 'rate_limited') {
    return new Bye(
      `[LIMIT] Too many failed logins: try again in ${many(retryAfter ?? 60, 'second')}`,
    );
  }
  if (code === 'account_inactive') return new No('AUTHORIZATIONFAILED', message);
  if (code !== 'unauthorized') return new Bye(`[UNAVAILABLE] ${message}`);
  if (++session.failedLogins >= FAILED_MAX) return new Bye('Too many failed logins');
  return new No('AUTHENTICATIONFAILED', 'Address or password is wrong');
}

function refuseInPlain({ channel }: Session): void {
  if (!channel.mayLogIn) throw new No('PRIVACYREQUIRED', PRIVACY);
}

function withPassword(session: Session, address: string, password: string): Answer {
  const { channel, services } = session;
  return logInWith(session, () => services.logins.withPassword(address, password, channel.address));
}

export const login: Command = {
  tells: 'nothing',
  async *run(session, command) {
    refuseInPlain(session);
    const address = readUtf8(command.space().astring('an address'));
    const password = readUtf8(command.space().astring('a password'));
    command.end();
    return yield* withPassword(session, address, password);
  },
};

export const authenticate: Command = {
  tells: 'nothing',
  async *run(session, command) {
    refuseInPlain(session);
    const mechanism = command.space().atom('a mechanism').toUpperCase();
    const initial = command.has(' ') ? command.rest() : undefined;
    command.end();
    if (isMechanism(mechanism)) return yield* logInBy(session, mechanism, initial);
    throw new No('CANNOT', `The mechanism is not known: ${MECHANISMS.join(', ')}`);
  },
};

/** Reads the login of a mechanism, and lets it in. */
async function* logInBy(session: Session, mechanism: Mechanism, initial?: string): Answer {
  const given = yield* exchange(session, mechanism, initial);
  if (given.kind === 'password') return yield* withPassword(session, given.address, given.password);
  try {
    const user = await session.services.logins.withToken(given.token);
    session.expiresAt = user.expiresAt;
    return yield* logInWith(session, async () => user);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const reason = tokenRefusal(mechanism);
    if (reason !== undefined) yield* ask(session, reason);
    throw explain(session, error);
  }
}

/** @throws BadCommand where the client cancels, or does not answer as the mechanism demands */
async function* exchange(
  session: Session,
  mechanism: Mechanism,
  initial: string | undefined,
): AsyncGenerator<string, GivenLogin> {
  const reading = readLogin(mechanism, initial);
  try {
    let step = reading.next();
    while (!step.done) step = reading.next(yield* ask(session, step.value));
    return step.value;
  } catch (error) {
    if (!(error instanceof SaslFault)) throw error;
    if (error.reason === 'another account') throw new No('AUTHORIZATIONFAILED', error.message);
    throw new BadCommand(error.message);
  }
}

/** The client's answer to a challenge, both in base64. */
async function* ask(session: Session, challenge: string): AsyncGenerator<string, string> {
  yield `+ ${challenge}\r\n`;
  const line = await session.channel.nextLine();
  if (line === undefined || line === 'interrupted') throw new Bye('The client left');
  return line;
}

export const startTls: Command = {
  tells: 'nothing',
  async run(session, command) {
    command.end();
    if (session.channel.isSecure) throw new BadCommand('TLS is in use already');
    return 'Begin TLS';
  },
};

export const capability: Command = {
  tells: 'nothing',
  async *run(session, command) {
    command.end();
    yield `* CAPABILITY ${capabilities(session)}\r\n`;
    return 'That is all';
  },
};

/** RFC 2971. What the client says of itself changes nothing: operators see it. */
export const id: Command = {
  tells: 'nothing',
  async *run(session, command) {
    const said = readParameters(command.space());
    command.end();
    session.program = programOf(said) ?? session.program;
    // The version only for those who have an account.
    yield `* ID ("name" "Postroom")\r\n`;
    return session.isLoggedIn ? 'Pleased to meet you' : 'Hello';
  },
};

/** Names and values in turn; `NIL` is empty. */
function readParameters(command: Cursor): string[] {
  if (command.has('NIL')) return [];
  return command.list(() => (command.has('NIL') ? '' : readUtf8(command.string('a string'))), true);
}

/** Characters of a program's name. */
const PROGRAM_MAX = 100;

/** Name and version, as they may be shown: without control characters, and those that turn others round. */
function programOf(said: readonly string[]): string | undefined {
  const textOf = (name: string) => {
    const at = said.findIndex((one, index) => index % 2 === 0 && one.toLowerCase() === name);
    return at < 0 ? '' : (said[at + 1] ?? '');
  };
  const shown = `${textOf('name')} ${textOf('version')}`.replaceAll(/\p{C}/gu, '').trim();
  return shown.slice(0, PROGRAM_MAX).toWellFormed() || undefined;
}
