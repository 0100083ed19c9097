/**
 * A port that expects TLS says nothing to a client without TLS: each waits for the other. A TLS handshake on a
 * second connection tells such a port from a slow server.
 */
import { connect } from 'node:tls';
import type { ServerAddress } from './connection.ts';
import { ImapFailure } from './failure.ts';

/** A server that greets does so within this time, unless it is overloaded. */
const LOOK_AFTER_MS = 1_000;
const HANDSHAKE_MS = 5_000;

/**
 * Runs an attempt to connect to a port that has not been heard of yet. Where it takes long on a plain
 * connection, it is looked whether the port waits for TLS; then the signal ends the attempt.
 *
 * @throws ImapFailure `wants_tls` as the signal's reason, and what the attempt throws
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

/** Whether a port comes to an end with a TLS handshake, whatever its certificate. */
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
