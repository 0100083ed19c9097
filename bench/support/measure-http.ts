/** HTTP requests per second of several servers, in turn, by one load generator. */
import { interleave } from './figures.ts';
import type { Played } from './http-client.ts';
import type { HttpLoad } from './load-http.ts';
import { startWorker } from './worker.ts';

/** Connections that stay open in every comparison with reference H. */
export const CONNECTIONS = 32;

const WARM_UP_SECONDS = 1.5;

/** Starts reference H and a load generator around `measure`. */
export async function withHello<T>(
  measure: (hello: HttpLoad, play: (load: HttpLoad) => Promise<Played>) => Promise<T>,
): Promise<T> {
  const hello = startWorker<null, number>('reference-hello.ts');
  const generator = startWorker<HttpLoad, Played>('load-http.ts');
  try {
    const port = await hello.ask(null);
    const request = 'GET / HTTP/1.1\r\nhost: localhost\r\n\r\n';
    return await measure({ port, connections: CONNECTIONS, requests: [request] }, (load) =>
      generator.ask(load),
    );
  } finally {
    await Promise.all([hello.stop(), generator.stop()]);
  }
}

/**
 * Requests per second of each load, round by round.
 *
 * @param seconds of each load in each round
 */
export async function measureRates<Name extends string>(
  play: (load: HttpLoad) => Promise<Played>,
  loads: Readonly<Record<Name, HttpLoad>>,
  { rounds = 5, seconds = 2 } = {},
): Promise<Record<Name, number[]>> {
  const names = Object.keys(loads) as Name[];
  for (const name of names) await play({ ...loads[name], seconds: WARM_UP_SECONDS });
  const things = Object.fromEntries(
    names.map((name) => [
      name,
      async () => {
        const played = await play({ ...loads[name], seconds });
        if (played.busy > 0.9) console.log(`(the load generator is at its limit: ${name})`);
        return played.answers / played.seconds;
      },
    ]),
  ) as Record<Name, () => Promise<number>>;
  return interleave(rounds, things);
}
