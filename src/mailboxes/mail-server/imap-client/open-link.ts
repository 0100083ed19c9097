/** Opens an account on an IMAP server: the connection, TLS, and the login. */
import { once } from 'node:events';
import { connect, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { ImapFailure, nameFailure } from './failure.ts';
import { Link } from './link.ts';
import type { ImapResponse } from './responses.ts';
import { type Argument, atom, quoted } from './wire.ts';

export interface ServerAddress {
  readonly host: string;
  readonly port: number;
  /** `implicit`: from the first byte; `starttls`: before the login, always; `off`: never. */
  readonly tls: 'implicit' | 'starttls' | 'off';
  /** Whether the certificate is verified. */
  readonly verifyCertificate: boolean;
  /** PEM of the authority that the certificate has to come from, instead of the public ones. */
  readonly ca?: string;
}

/** How TLS of Node names the server, and verifies its certificate. */
export function tlsOptions({ host, verifyCertificate, ca }: ServerAddress) {
  return {
    host,
    ...(isIP(host) === 0 && { servername: host }),
    rejectUnauthorized: verifyCertificate,
    ...(ca !== undefined && { ca }),
  };
}

export interface ImapLogin {
  readonly user: string;
  readonly pass: string;
  /** SASL PLAIN authorization identity (RFC 4616). */
  readonly authzid?: string;
}

export interface LinkOptions {
  readonly server: ServerAddress;
  readonly login: ImapLogin;
  /** IP address of the mail program that the account is opened for, if there is one. */
  readonly client?: string;
  /** Milliseconds for the whole login, and then without an octet after which a command has failed. */
  readonly timeoutMs: number;
}

/** Milliseconds without an octet after which the server's host is asked whether it is still there. */
const KEEPALIVE_MS = 10 * 60_000;

/** How far a login has come, by what it fails with where it takes too long. */
type Stage = 'unreachable' | 'no_greeting' | 'silent';

/**
 * Opens an account.
 *
 * @throws ImapFailure
 */
export async function openLink(options: LinkOptions): Promise<Link> {
  const { server, timeoutMs } = options;
  const { host, port } = server;
  let stage: Stage = 'unreachable';
  const keepAlive = { keepAlive: true, keepAliveInitialDelay: KEEPALIVE_MS };
  const plain = connect({ host, port, noDelay: true, ...keepAlive });
  // Whoever waits for it or reads learns of an error.
  plain.on('error', () => {});
  const late = AbortSignal.timeout(timeoutMs);
  const cut = () => plain.destroy(late.reason);
  late.addEventListener('abort', cut, { once: true });
  try {
    await once(plain, 'connect');
    stage = 'no_greeting';
    const link = await logIn(plain, options, () => {
      stage = 'silent';
    });
    late.throwIfAborted();
    return link;
  } catch (error) {
    plain.destroy();
    const named = nameFailure(error);
    throw late.aborted
      ? new ImapFailure(stage, { command: 'LOGIN', said: 'not in time' })
      : new ImapFailure(named.kind, { command: 'LOGIN', ...named.details });
  } finally {
    late.removeEventListener('abort', cut);
  }
}

/** @param onGreeting called when the server has greeted */
async function logIn(
  plain: Socket,
  { server, login, client, timeoutMs }: LinkOptions,
  onGreeting: () => void,
): Promise<Link> {
  const isImplicit = server.tls === 'implicit';
  let link = new Link(isImplicit ? await secure(plain, server) : plain, timeoutMs);
  await link.greeting();
  onGreeting();
  if (server.tls === 'starttls') {
    await link.findCapabilities();
    if (!link.has('STARTTLS')) throw new ImapFailure('tls', { said: 'it has no STARTTLS' });
    await link.command('STARTTLS');
    // What follows without TLS could be somebody else's (RFC 9051 section 11.3).
    if (link.leave().early.length > 0) throw new ImapFailure('garbled', { command: 'STARTTLS' });
    link = new Link(await secure(plain, server), timeoutMs);
  }
  await link.findCapabilities();
  // Dovecot shows this address in its log, and counts connections by it, where it trusts ours (login_trusted_networks).
  const origin = client === undefined ? [] : [quoted('x-originating-ip'), quoted(client)];
  if (link.has('ID')) await tellName(link, origin);
  await authenticate(link, login);
  await link.findCapabilities();
  return link;
}

/** RFC 2971. Some servers announce it and refuse it before the login, which goes on without it. */
async function tellName(link: Link, origin: readonly Argument[]): Promise<void> {
  try {
    await link.command('ID', [[quoted('name'), quoted('postroom'), ...origin]]);
  } catch (error) {
    if (link.failure) throw error;
  }
}

async function secure(plain: Socket, server: ServerAddress): Promise<Socket> {
  const socket = connectTls({ socket: plain, ...tlsOptions(server) });
  socket.on('error', () => {});
  await once(socket, 'secureConnect');
  return socket;
}

async function authenticate(link: Link, { user, pass, authzid = '' }: ImapLogin): Promise<void> {
  if (/\0/.test(user + pass + authzid)) throw new ImapFailure('login_refused');
  const answer = Buffer.from(`${authzid}\0${user}\0${pass}`).toString('base64');
  let asked: Promise<ImapResponse>;
  if (authzid === '' && !link.has('AUTH=PLAIN')) {
    // RFC 9051 section 6.2.3: it must not be tried.
    if (link.has('LOGINDISABLED')) {
      throw new ImapFailure('login_refused', { said: 'it allows no LOGIN, and has no AUTH=PLAIN' });
    }
    asked = link.command('LOGIN', [quoted(user), quoted(pass)]);
  } else if (link.has('SASL-IR')) {
    asked = link.command('AUTHENTICATE', [atom('PLAIN'), atom(answer)]);
  } else asked = link.command('AUTHENTICATE', [atom('PLAIN')], {}, answer);
  try {
    await asked;
  } catch (error) {
    const { kind, details, isTemporary } = nameFailure(error);
    if (!['said_no', 'said_bad', 'dropped'].includes(kind)) throw error;
    // A connection that ends is how Dovecot answers for an account that it does not have: the server is well.
    throw new ImapFailure(
      isTemporary && kind !== 'said_bad' ? 'said_no' : 'login_refused',
      details,
    );
  }
}
