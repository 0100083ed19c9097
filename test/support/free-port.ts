import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Ports that no system gives to a connection or to who asks for any (RFC 6335 section 6; Linux begins at
 * 32768): one of those could be gone before it is used.
 */
const LOWEST = 10_000;
const HIGHEST = 32_767;
const TRIES = 100;

/** A TCP port of loopback that nobody listens on now. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < TRIES; tries++) {
    const port = randomInt(LOWEST, HIGHEST + 1);
    if (await isFree(port)) return port;
  }
  throw new Error(`no free port was found in ${TRIES} tries`);
}

function isFree(port: number): Promise<boolean> {
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  const server = createServer();
  server.once('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE') resolve(false);
    else reject(error);
  });
  server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  return promise;
}
