import { randomInt } from 'node:crypto';
import { createServer, type Server } from 'node:net';

/**
 * Ports that no system gives to a connection or to who asks for any (RFC 6335 section 6; Linux begins at
 * 32768): one of those could be gone before it is used. They begin after the last port that `fetch` and browsers
 * refuse, 10080 (Fetch Standard, section 2.9 "Port blocking"): a service on that port works, but looks dead to a test.
 */
export const LOWEST = 10_081;
const HIGHEST = 32_767;
/**
 * A process takes so many ports at once, and listens on the first of them for as long as it lives: so no other
 * test process is given a port that this one has not bound yet, or binds again after a restart.
 */
const BLOCK = 64;
const BLOCKS = Math.floor((HIGHEST + 1 - LOWEST) / BLOCK);
const TRIES = 1_000;

/** The next port of this process's block, and the one after its last. */
let next = 0;
let end = 0;

/**
 * A TCP port of loopback that nobody listens on now, and that no other test process is given.
 *
 * @param following so many ports after it are free as well
 */
export async function freePort(following = 0): Promise<number> {
  for (let tries = 0; tries < TRIES; tries++) {
    if (end - next <= following) await takeBlock();
    if (end - next <= following) continue;
    const port = next;
    next += 1 + following;
    const ports = Array.from({ length: 1 + following }, (_, at) => port + at);
    const free = await Promise.all(ports.map(isFree));
    if (!free.includes(false)) return port;
  }
  throw new Error(`no free port was found in ${TRIES} tries`);
}

async function takeBlock(): Promise<void> {
  const first = LOWEST + randomInt(BLOCKS) * BLOCK;
  const holder = await listenOn(first);
  if (!holder) return;
  holder.unref();
  next = first + 1;
  end = first + BLOCK;
}

async function isFree(port: number): Promise<boolean> {
  const server = await listenOn(port);
  if (!server) return false;
  await new Promise((resolve) => server.close(resolve));
  return true;
}

/** @returns nothing where somebody else listens there */
function listenOn(port: number): Promise<Server | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Server | undefined>();
  const server = createServer();
  server.once('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE') resolve(undefined);
    else reject(error);
  });
  server.listen(port, '127.0.0.1', () => resolve(server));
  return promise;
}
