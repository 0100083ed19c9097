/** A TCP proxy that can go silent: it takes connections and bytes, and passes nothing on. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { freePort } from '../support/free-port.ts';

export class TcpProxy {
  readonly port: number;
  readonly #close: () => void;
  /** Connections by whether they are silent. */
  readonly #pairs: Set<[Socket, Socket]>;
  readonly #state: { isSilent: boolean };

  private constructor(
    port: number,
    close: () => void,
    pairs: Set<[Socket, Socket]>,
    state: { isSilent: boolean },
  ) {
    this.port = port;
    this.#close = close;
    this.#pairs = pairs;
    this.#state = state;
  }

  static async start(to: number): Promise<TcpProxy> {
    const pairs = new Set<[Socket, Socket]>();
    const state = { isSilent: false };
    const server = createServer((near) => {
      const far = connect(to, '127.0.0.1');
      const pair: [Socket, Socket] = [near, far];
      pairs.add(pair);
      for (const [from, other] of [pair, [far, near] as const]) {
        if (state.isSilent) from.resume();
        else from.on('data', (bytes) => other.write(bytes));
        from.on('error', () => {});
        from.on('close', () => {
          other.destroy();
          pairs.delete(pair);
        });
      }
    });
    const port = await freePort();
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return new TcpProxy(port, () => server.close(), pairs, state);
  }

  /** Makes the connections of now silent for good; new ones work. @returns how many there are */
  silence(): number {
    for (const [near, far] of this.#pairs) {
      for (const socket of [near, far]) socket.removeAllListeners('data').resume();
    }
    return this.#pairs.size;
  }

  /** As {@link silence}, and those that come are silent as well until {@link speak}. */
  silenceAll(): void {
    this.#state.isSilent = true;
    this.silence();
  }

  /** New connections work again; those that were made silent stay so. */
  speak(): void {
    this.#state.isSilent = false;
  }

  stop(): void {
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
    this.#close();
  }
}
