/** Whether an IMAP server greets: for readiness, without any login. */
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { ServerAddress } from './connection.ts';

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
