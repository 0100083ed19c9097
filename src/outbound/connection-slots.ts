/** So many sessions at a time, the others in the order they came. */

export interface ConnectionSlots {
  /**
   * Waits for a free slot and works in it.
   *
   * @throws the reason of `signal` where it ends the waiting; what `work` throws
   */
  run<Value>(signal: AbortSignal, work: () => Promise<Value>): Promise<Value>;
}

export function createConnectionSlots(max: number): ConnectionSlots {
  let free = max;
  const waiting = new Set<() => void>();

  /** Hands the slot to the next in line, or back. */
  function release(): void {
    const [next] = waiting;
    if (!next) {
      free++;
      return;
    }
    waiting.delete(next);
    next();
  }

  function take(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      if (free > 0) {
        free--;
        resolve();
        return;
      }
      const start = () => {
        signal.removeEventListener('abort', stop);
        resolve();
      };
      const stop = () => {
        waiting.delete(start);
        reject(signal.reason);
      };
      waiting.add(start);
      signal.addEventListener('abort', stop, { once: true });
    });
  }

  return {
    async run(signal, work) {
      await take(signal);
      try {
        // Time may have been over while the slot was handed on.
        signal.throwIfAborted();
        return await work();
      } finally {
        release();
      }
    },
  };
}
