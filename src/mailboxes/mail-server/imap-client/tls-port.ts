/**
 * A port that expects TLS sends nothing to a client without TLS: each waits for the other. A TLS handshake on a second
 * connection distinguishes such a port from a slow server.
 */
import { connect } from 'node:tls';
import type { ServerAddress } from './connection.ts';
import { ImapFailure } from './failure.ts';

/** A server that greets does so within this time, unless it is overloaded. */
const LOOK_AFTER_MS = 1_000;
const HANDSHAKE_MS = 5_000;

/**
 * Runs an attempt to connect to a port that has not answered before. If a plain connection takes long, a test shows
 * whether the port expects TLS; then the signal ends the attempt.
 *
 * @throws ImapFailure `wants_tls` as the signal's reason, and the errors of the attempt
 */
export async function watchForTls<T>(
  server: ServerAddress,
  attempt: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const found = new AbortController();
  if (server.tls === 'implicit') return attempt(found.signal);
  const looking = new AbortController();
  const timer = setTimeout(() => {
    void waitsForTls(server, looking.signal).then((waits) => {
      if (waits) found.abort(new ImapFailure('wants_tls'));
    });
  }, LOOK_AFTER_MS);
  try {
    return await attempt(found.signal);
  } finally {
    clearTimeout(timer);
    looking.abort();
  }
}

/** Whether a TLS handshake with the port succeeds, whatever its certificate. */
function waitsForTls({ host, port }: ServerAddress, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, rejectUnauthorized: false });
    const end = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    signal.addEventListener('abort', () => end(false), { once: true });
    socket.setTimeout(HANDSHAKE_MS, () => end(false));
    socket.once('secureConnect', () => end(true));
    socket.once('error', () => end(false));
    socket.once('close', () => end(false));
  });
}
