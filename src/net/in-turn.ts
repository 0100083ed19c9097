import type { LimitFunction } from 'p-limit';

/**
 * Waits for a place of a limit and works in it.
 *
 * @param signal ends the waiting: the work then never runs; work that runs has to heed it by itself
 * @throws the signal's reason where it ended the waiting; what the work throws
 */
export function runInTurn<Value>(
  limit: LimitFunction,
  signal: AbortSignal,
  work: () => Promise<Value>,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const leave = () => reject(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    void limit(async () => {
      signal.removeEventListener('abort', leave);
      // Whoever left has been told already; the place goes to the next in line.
      if (!signal.aborted) await work().then(resolve, reject);
    });
  });
}
