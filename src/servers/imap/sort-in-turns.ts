/** Puts many numbers in order without holding up other connections. */
import { setImmediate as turn } from 'node:timers/promises';

/** Numbers that are put in order without a pause. */
const AT_ONCE = 4_096;

/** The indexes below `length` in order: sorted in pieces, which are merged, so that others have their turn between them. */
export async function sortInTurns(
  length: number,
  compare: (a: number, b: number) => number,
): Promise<Uint32Array> {
  let sorted = Uint32Array.from({ length }, (_, index) => index);
  let merged = new Uint32Array(length);
  for (let at = 0; at < length; at += AT_ONCE) {
    await turn();
    sorted.subarray(at, at + AT_ONCE).sort(compare);
  }
  for (let size = AT_ONCE; size < length; size *= 2) {
    for (let at = 0; at < length; at += 2 * size) {
      const [left, right] = [
        sorted.subarray(at, at + size),
        sorted.subarray(at + size, at + 2 * size),
      ];
      for (let l = 0, r = 0; l + r < left.length + right.length; ) {
        if ((l + r) % AT_ONCE === 0) await turn();
        const [a, b] = [left[l], right[r]];
        const isLeft = b === undefined || (a !== undefined && compare(a, b) <= 0);
        merged[at + l + r] = (isLeft ? a : b) ?? 0;
        if (isLeft) l++;
        else r++;
      }
    }
    [sorted, merged] = [merged, sorted];
  }
  return sorted;
}
