/** Many random lives. One that fails is kept in a file too: what a test printed is soon gone. */
import { appendFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';

/** More of them: `SDK_RUNS=2000 node --test FILE`; the same again: `SDK_SEED`. */
export const RUNS = Number(process.env.SDK_RUNS ?? 40);

const FAILED = fileURLToPath(new URL('../../failed-lives.log', import.meta.url));

/** @param live one life: what happens, step by step, and the seed of its world, from 1 on */
export async function liveOften<Step>(
  name: string,
  step: fc.Arbitrary<Step>,
  runs: number,
  live: (steps: readonly Step[], seed: number) => Promise<void>,
): Promise<void> {
  const steps = fc.array(step, { maxLength: 40, size: 'max' });
  const lives = fc.asyncProperty(steps, fc.nat(), (some, seed) => live(some, seed + 1));
  const seed = process.env.SDK_SEED;
  const numRuns = Math.ceil(runs);
  try {
    await fc.assert(lives, { numRuns, ...(seed && { seed: Number(seed) }) });
  } catch (error) {
    const { message, cause } = error as Error;
    appendFileSync(FAILED, `${new Date().toISOString()} ${name}\n${message}\n${cause}\n\n`);
    throw new Error(`${message}\nkept in ${FAILED}`, { cause });
  }
}
