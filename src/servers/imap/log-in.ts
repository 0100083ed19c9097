/** LOGIN and AUTHENTICATE (RFC 9051 section 6.2), STARTTLS, CAPABILITY, ID. */
import { Buffer } from 'node:buffer';
import { Refusal } from '../../platform/errors/errors.ts';
import type { MailAccess } from '../../tenants/accounts/accounts.ts';
import { BadCommand, type Cursor, readUtf8 } from './cursor.ts';
import { type Answer, Bye, type Command, No, type Session } from './session.ts';

const ANYBODY = 'IMAP4rev1 LITERAL- ID ENABLE';
const LOGINS = 'SASL-IR AUTH=PLAIN AUTH=LOGIN AUTH=OAUTHBEARER AUTH=XOAUTH2';
const LOGGED_IN = [
  'IDLE NAMESPACE CHILDREN UNSELECT UIDPLUS MOVE SPECIAL-USE LIST-EXTENDED LIST-STATUS',
  'STATUS=SIZE ESEARCH CONDSTORE QRESYNC',
].join(' ');

/** What the session may use now; clients keep whichever they saw first after a login. */
export function capabilities({ channel, isLoggedIn, services }: Session): string {
  if (isLoggedIn) return `${ANYBODY} ${LOGGED_IN} APPENDLIMIT=${services.maxMessageBytes}`;
  const tls = channel.isSecure ? '' : ' STARTTLS';
  return channel.mayLogIn ? `${ANYBODY}${tls} ${LOGINS}` : `${ANYBODY}${tls} LOGINDISABLED`;
}

/** Wrong passwords that end a connection. */
const FAILED_MAX = 5;
/** A text of AUTHENTICATE, in characters: a token has some 300, and at most 8,192. */
const TEXT_MAX = 12_288;

const PRIVACY = 'A password may be sent by TLS only: use STARTTLS or the TLS port';

async function* logInWith(session: Session, find: () => Promise<MailAccess>): Answer {
  let user: MailAccess;
  try {
    user = await find();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw explain(session, error);
  }
  if (!session.channel.admit(user)) {
    // Not NO: programs show that as a wrong password.
    throw new Bye('[LIMIT] The account has too many connections');
  }
  session.logIn(user);
  yield '';
  return `[CAPABILITY ${capabilities(session)}] Logged in`;
}

function explain(session: Session, { code, message, retryAfter }: Refusal): Error {
  if (code === 'rate_limited') {
    return new Bye(`[LIMIT] Too many failed logins: try again in ${retryAfter ?? 60} seconds`);
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
  states: ['not authenticated'],
  tells: 'nothing',
  async *run(session, command) {
    refuseInPlain(session);
    command.expect(' ');
    const address = readUtf8(command.astring('an address'));
    command.expect(' ');
    const password = readUtf8(command.astring('a password'));
    command.end();
    return yield* withPassword(session, address, password);
  },
};

export const authenticate: Command = {
  states: ['not authenticated'],
  tells: 'nothing',
  async *run(session, command) {
    refuseInPlain(session);
    command.expect(' ');
    const mechanism = command.atom('a mechanism').toUpperCase();
    const initial = command.has(' ') ? command.rest() : undefined;
    command.end();
    if (mechanism === 'PLAIN') return yield* plain(session, initial);
    if (mechanism === 'LOGIN') return yield* inTwoSteps(session, initial);
    if (mechanism === 'OAUTHBEARER' || mechanism === 'XOAUTH2') {
      return yield* bearer(session, mechanism, initial);
    }
    throw new No('CANNOT', 'The mechanism is not known: PLAIN, LOGIN, OAUTHBEARER, XOAUTH2');
  },
};

/** RFC 4616. */
async function* plain(session: Session, initial: string | undefined): Answer {
  const text = yield* ask(session, '', initial);
  const [authorize, address = '', password] = text.split('\0');
  if (password === undefined) throw new BadCommand('Expected three texts with NUL between them');
  if (authorize && authorize !== address) {
    throw new No('AUTHORIZATIONFAILED', 'An account opens its own mailboxes only');
  }
  return yield* withPassword(session, address, password);
}

/** Not a standard: Outlook and some phones. */
async function* inTwoSteps(session: Session, initial: string | undefined): Answer {
  const address = yield* ask(session, 'Username:', initial);
  const password = yield* ask(session, 'Password:', undefined);
  return yield* withPassword(session, address, password);
}

/** A mailbox token: OAUTHBEARER (RFC 7628), and XOAUTH2, which came before it. */
async function* bearer(session: Session, mechanism: string, initial: string | undefined): Answer {
  const text = yield* ask(session, '', initial);
  const token = /\x01auth=Bearer ([^\x01]+)\x01/i.exec(text)?.[1];
  if (token === undefined) throw new BadCommand('Expected auth=Bearer and a token');
  const { logins } = session.services;
  try {
    const user = await logins.withToken(token);
    session.expiresAt = user.expiresAt;
    return yield* logInWith(session, async () => user);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    // RFC 7628 section 3.2.3: the reason first, and the client answers with an empty text.
    const status = mechanism === 'XOAUTH2' ? '401' : 'invalid_token';
    yield* ask(session, JSON.stringify({ status }), undefined);
    throw explain(session, error);
  }
}

/** The client's answer to a challenge, decoded. @throws BadCommand where it is cancelled, or is not base64 */
async function* ask(
  session: Session,
  challenge: string,
  given: string | undefined,
): AsyncGenerator<string, string> {
  let text = given;
  if (text === undefined) {
    yield `+ ${Buffer.from(challenge).toString('base64')}\r\n`;
    const line = await session.channel.nextLine();
    if (line === undefined || line === 'interrupted') throw new Bye('The client left');
    text = line;
  }
  if (text === '*') throw new BadCommand('The client cancelled');
  if (text === '=') return '';
  if (text.length > TEXT_MAX || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) {
    throw new BadCommand('Expected base64');
  }
  return Buffer.from(text, 'base64').toString();
}

export const startTls: Command = {
  states: ['not authenticated'],
  tells: 'nothing',
  async *run(session, command) {
    command.end();
    if (session.channel.isSecure) throw new BadCommand('TLS is in use already');
    yield '';
    return 'Begin TLS';
  },
};

export const capability: Command = {
  states: ['not authenticated', 'authenticated', 'selected'],
  tells: 'nothing',
  async *run(session, command) {
    command.end();
    yield `* CAPABILITY ${capabilities(session)}\r\n`;
    return 'That is all';
  },
};

/** RFC 2971. What the client says of itself changes nothing. */
export const id: Command = {
  states: ['not authenticated', 'authenticated', 'selected'],
  tells: 'nothing',
  async *run(session, command) {
    command.expect(' ');
    readParameters(command);
    command.end();
    // The version only for those who have an account.
    yield `* ID ("name" "Postroom")\r\n`;
    return session.isLoggedIn ? 'Pleased to meet you' : 'Hello';
  },
};

function readParameters(command: Cursor): void {
  if (command.has('NIL')) return;
  command.list(() => (command.has('NIL') ? '' : command.string('a string')), true);
}
