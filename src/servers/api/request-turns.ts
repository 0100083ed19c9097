/** When a request begins: behind those before it on its connection, and in the turns of its client. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { LRUCache } from 'lru-cache';
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
 * Passes the requests of a server on to those that listen now, one of a connection at a time. Node passes on all that are
 * in what it has read, two thousand in 64 KiB, and keeps all answers: one stranger would fill the memory.
 *
 * @param addressOf of the client that a request comes from
 * @param cutOff ends all connections of a client that sends too many ahead
 */
export function beginInTurn(
  server: Server,
  addressOf: (request: IncomingMessage) => string,
  cutOff: (socket: Socket) => void,
): void {
  const listeners = server.listeners('request');
  server.removeAllListeners('request');
  /** Of each connection with a request under way: those that wait (RFC 9112 section 9.3.2: answered in their order). */
  const lines = new WeakMap<Socket, (() => void)[]>();
  const pass = (request: IncomingMessage, response: ServerResponse) => {
    for (const listener of listeners) listener.call(server, request, response);
  };
  server.on('request', (request, response) => {
    const { socket } = request;
    // Cut off: Node passes on the rest of what it has read.
    if (socket.destroyed) return;
    const begin = () => {
      response.once('close', () => beginNext(socket));
      const waits = enterTurnOfClient(addressOf(request));
      if (waits) void waits.then(() => socket.destroyed || pass(request, response));
      else pass(request, response);
    };
    const line = lines.get(socket);
    if (line && line.length >= WAITING_MAX) cutOff(socket);
    else if (line) line.push(begin);
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
