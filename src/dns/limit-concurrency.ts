/**
 * Lets at most `max` works run at a time; the others wait in the order they came.
 *
 * The queue has no bound of its own: its length is that of the callers' own concurrency.
 */
export function limitConcurrency(max: number): <T>(work: () => Promise<T>) => Promise<T> {
  let free = max;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (free > 0) free--;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      // The place goes to the next in line, or back.
      const next = waiting.shift();
      if (next) next();
      else free++;
    }
  };
}
