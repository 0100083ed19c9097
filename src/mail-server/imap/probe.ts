/** Whether an IMAP server can be used, for readiness: whether it greets, and lets the master in. */
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { MailUser } from '../../mailstore/mailstore.ts';
import type { ServerAddress } from './connection.ts';
import { ImapFailure, type Log } from './failure.ts';
import type { ImapServer } from './log-in.ts';
import type { Pool } from './pool.ts';

/** RFC 3501 section 7.1: OK and PREAUTH take the client in, BYE does not. */
const WELCOME = /^\* (?:OK|PREAUTH)\b/i;

export function probeGreeting(
  { host, port, tls, verifyCertificate, ca }: ServerAddress,
  timeoutMs: number,
): Promise<boolean> {
  return new Promise((resolve) => {
    const socket =
      tls === 'implicit'
        ? connectTls({
            host,
            port,
            rejectUnauthorized: verifyCertificate,
            ...(ca !== undefined && { ca }),
          })
        : connect(port, host);
    const end = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(timeoutMs, () => end(false));
    socket.once('data', (bytes: Buffer) => end(WELCOME.test(bytes.toString('latin1', 0, 16))));
    socket.once('error', () => end(false));
    socket.once('close', () => end(false));
  });
}

interface Trying {
  readonly pool: Pool;
  readonly log: Log;
  readonly report: (user: MailUser, failure: ImapFailure) => void;
}

/**
 * Whether the server lets the master into one of these accounts; a single one may be unknown to it.
 * Where it refuses all of them, a line of the log says what is wrong.
 */
export async function tryLogins(
  { host, port, master }: ImapServer,
  accounts: readonly MailUser[],
  { pool, log, report }: Trying,
): Promise<boolean> {
  for (const user of accounts) {
    try {
      await pool.use(user, async () => undefined);
      return true;
    } catch (error) {
      if (!(error instanceof ImapFailure) || error.kind === 'resting') return false;
      report(user, error);
      if (error.kind !== 'login_refused') return false;
    }
  }
  log.warn(
    { host, port, master: master.user, accounts: accounts.length },
    'the IMAP server lets the master into none of these accounts: its name or password in MAILSTORE_URL is wrong',
  );
  return false;
}
