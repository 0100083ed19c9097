/** When a request begins: behind those before it on its connection, and in the turns of its client. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { entries } from '../../platform/memory/memory.ts';
import { clientKey, enterTurn, networkKey, type Party } from '../../platform/net/net.ts';

/** Requests of one connection that wait for the answer of another. Clients that pipeline send a few. */
const WAITING_MAX = 16;

/** Milliseconds of a turn of the event loop, for one client and for all of its network, until a login says whose they are. */
const OF_A_TURN = { client: 5, network: 10 };

/** By address: to take an IPv6 address apart twice for each request is a tenth of a sync. */
const partiesOf = new LRUCache<string, readonly Party[]>({
  ...entries(10_000),
  memoMethod: (address) => {
    const client = clientKey(address);
    return [
      { name: `http ${client}`, most: OF_A_TURN.client },
      { name: `http ${networkKey(client)}`, most: OF_A_TURN.network },
    ];
  },
});

/** Begins a piece of work for a client. @returns what to wait for where it has used its share of this turn */
export function enterTurnOfClient(address: string): Promise<void> | undefined {
  return enterTurn(partiesOf.memo(address));
}

/**
 * Octets that Node's parser gets at a time of a client who has sent too many requests ahead. It makes a request and an
 * answer of all that is in what it gets: of the 64 KiB that Node reads at once three thousand, for which others wait 30 ms.
 * Nobody else is read so: it costs a tenth of a sync.
 */
const PIECE = 1024;

/** How long a client is read so, from his last slip on. */
const SUSPECTED_MS = 600_000;
/** Milliseconds from one line of the log to the next. */
const LOG_EVERY_MS = 60_000;

/** Connections that are not read as HTTP any more. */
const upgraded = new WeakSet<Socket>();

/** Makes the server's `shouldUpgradeCallback`. Behind a request with a body Node would go on reading, so none is upgraded. */
export function noteUpgrades(isWanted: (request: IncomingMessage) => boolean) {
  return (request: IncomingMessage): boolean => {
    const { headers, socket } = request;
    const octets = headers['transfer-encoding'] ?? headers['content-length'] ?? '0';
    if (octets !== '0' || !isWanted(request)) return false;
    upgraded.add(socket);
    return true;
  };
}

/** Gives what is read of a connection to Node's parser in pieces. */
function readInPieces(socket: Socket): void {
  if (upgraded.has(socket)) return;
  const [parse, ...others] = socket.listeners('data');
  // Another Node may read otherwise: then without pieces.
  if (!parse || others.length > 0) return;
  const onData = (octets: Buffer<ArrayBuffer>) => {
    for (let at = 0; at < octets.length; at += PIECE) {
      // Ended: nothing that is behind is carried out.
      if (!socket.writable) return;
      if (socket.isPaused() || upgraded.has(socket)) {
        socket.unshift(octets.subarray(at));
        return;
      }
      parse.call(socket, octets.subarray(at, at + PIECE));
      if (upgraded.has(socket)) socket.off('data', onData);
    }
  };
  socket.off('data', parse).on('data', onData);
}

/** Reads the connections of a client in pieces from the first one on that has sent too many requests ahead. */
class Suspects {
  readonly #open = new Map<string, Set<Socket>>();
  readonly #suspected = new LRUCache<string, true>({ ...entries(10_000), ttl: SUSPECTED_MS });
  readonly #logger: Pick<Logger, 'warn'>;
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(logger: Pick<Logger, 'warn'>) {
    this.#logger = logger;
  }

  add(socket: Socket): void {
    const client = clientKey(socket.remoteAddress ?? '');
    if (this.#suspected.has(client)) readInPieces(socket);
    const ofClient = this.#open.get(client) ?? new Set();
    this.#open.set(client, ofClient.add(socket));
    socket.once('close', () => {
      ofClient.delete(socket);
      if (ofClient.size === 0) this.#open.delete(client);
    });
  }

  suspect({ remoteAddress = '' }: Socket): void {
    const client = clientKey(remoteAddress);
    const isKnown = this.#suspected.has(client);
    this.#suspected.set(client, true);
    if (isKnown) return;
    for (const socket of this.#open.get(client) ?? []) readInPieces(socket);
    // Whoever wrote it sees a reset, which does not say why.
    const now = performance.now();
    if (now - this.#loggedAt < LOG_EVERY_MS) return;
    this.#loggedAt = now;
    this.#logger.warn(
      { ip: remoteAddress },
      `HTTP connection closed: more than ${WAITING_MAX} requests of it waited for the answer of another`,
    );
  }
}

/**
 * Passes the requests of a server on to those that listen now, one of a connection at a time. Node would pass on all that
 * came, and keep all answers: one stranger would fill the memory. Who sends too many ahead loses the connection, and no
 * other: behind one address there may be many people.
 *
 * @param addressOf of the client that a request comes from
 */
export function beginInTurn(
  server: Server,
  addressOf: (request: IncomingMessage) => string,
  logger: Pick<Logger, 'warn'>,
): void {
  const suspects = new Suspects(logger);
  server.on('connection', (socket) => suspects.add(socket));
  const listeners = server.listeners('request');
  server.removeAllListeners('request');
  /** Of each connection with a request under way: those that wait (RFC 9112 section 9.3.2: answered in their order). */
  const lines = new WeakMap<Socket, (() => void)[]>();
  const pass = (request: IncomingMessage, response: ServerResponse) => {
    for (const listener of listeners) listener.call(server, request, response);
  };
  server.on('request', (request, response) => {
    const { socket } = request;
    // Ended: Node passes on the rest of what it has read.
    if (socket.destroyed) return;
    const begin = () => {
      response.once('close', () => beginNext(socket));
      const waits = enterTurnOfClient(addressOf(request));
      if (waits) void waits.then(() => socket.destroyed || pass(request, response));
      else pass(request, response);
    };
    const line = lines.get(socket);
    if (line && line.length >= WAITING_MAX) {
      suspects.suspect(socket);
      socket.destroy();
    } else if (line) line.push(begin);
    else {
      lines.set(socket, []);
      begin();
    }
  });

  function beginNext(socket: Socket): void {
    // RFC 9112 section 9.6: nothing is carried out behind an answer that closes the connection.
    const next = socket.writable ? lines.get(socket)?.shift() : undefined;
    if (next) next();
    else lines.delete(socket);
  }
}
