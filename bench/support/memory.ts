/** What a process holds once everything that can go is gone. Needs `--expose-gc`. */

export interface MemoryUse {
  /** Octets resident. */
  readonly resident: number;
  /** Octets of JavaScript objects and what hangs on them outside the heap. */
  readonly held: number;
}

export async function measureMemory(): Promise<MemoryUse> {
  for (let turn = 0; turn < 3; turn++) {
    globalThis.gc?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { rss, heapUsed, external } = process.memoryUsage();
  return { resident: rss, held: heapUsed + external };
}
