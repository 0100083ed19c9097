/**
 * Single reads on PostgreSQL: those of one turn of the event loop are sent together, on one connection, and answered one
 * after the other. A round trip costs both sides more than a look into an index, and they share it. Each is still a
 * transaction of its own, and an error of one does not affect the others. But where one gets no answer in time, those
 * behind it fail with it.
 */
import type { NamedQuery } from '../engine.ts';
import { isUnavailable } from '../failures.ts';
import type { Lease } from './lease.ts';

/** Reads on one connection: one that has to wait for the disk of the server delays the others. */
const TOGETHER_MAX = 8;

interface Read {
  readonly query: NamedQuery;
  readonly parameters: readonly unknown[];
  readonly resolve: (rows: object[]) => void;
  readonly reject: (error: unknown) => void;
}

export class ReadTurns {
  readonly #acquire: () => Promise<Lease>;
  #reads: Read[] = [];

  constructor(acquire: () => Promise<Lease>) {
    this.#acquire = acquire;
  }

  run(query: NamedQuery, parameters: readonly unknown[]): Promise<object[]> {
    const { promise, resolve, reject } = Promise.withResolvers<object[]>();
    if (this.#reads.push({ query, parameters, resolve, reject }) === 1) {
      setImmediate(() => this.#endTurn());
    }
    return promise;
  }

  #endTurn(): void {
    const reads = this.#reads;
    this.#reads = [];
    for (let at = 0; at < reads.length; at += TOGETHER_MAX) {
      void this.#send(reads.slice(at, at + TOGETHER_MAX));
    }
  }

  async #send(reads: readonly Read[]): Promise<void> {
    let lease: Lease;
    try {
      lease = await this.#acquire();
    } catch (error) {
      for (const { reject } of reads) reject(error);
      return;
    }
    const answered = lease.together(() =>
      reads.map(({ query: { sql, name }, parameters, resolve, reject }) =>
        lease.query(sql, parameters, name).then(
          ({ rows }) => resolve(rows),
          (error: unknown) => {
            reject(error);
            // Those behind one that waited in vain, for a lock perhaps, would each wait as long again.
            if (isUnavailable(error)) for (const other of reads) other.reject(error);
          },
        ),
      ),
    );
    await Promise.all(answered);
    lease.release();
  }
}
