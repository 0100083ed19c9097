/** A part of a result: `1:100` are the first hundred, `-1:-100` the last ones (RFC 9394). */
import { BadCommand, type Cursor } from './cursor.ts';

export interface PartialRange {
  /** As it was asked for. */
  readonly text: string;
  /** Positions from 1 on, both included. */
  readonly from: number;
  readonly to: number;
  readonly isFromEnd: boolean;
}

/** A page has at most so many messages. */
const POSITION_MAX = 2 ** 32;

export function readPartialRange(command: Cursor): PartialRange {
  const isFromEnd = command.has('-');
  const first = command.number('a position');
  command.expect(isFromEnd ? ':-' : ':');
  const last = command.number('a position');
  const [from, to] = [Math.min(first, last), Math.max(first, last)];
  if (from < 1 || to >= POSITION_MAX) throw new BadCommand('Expected positions from 1 on');
  const sign = isFromEnd ? '-' : '';
  return { text: `${sign}${first}:${sign}${last}`, from, to, isFromEnd };
}

export function cutPartial<T>(
  all: readonly T[],
  { from, to, isFromEnd }: PartialRange,
): readonly T[] {
  if (!isFromEnd) return all.slice(from - 1, to);
  return all.slice(Math.max(0, all.length - to), Math.max(0, all.length - from + 1));
}
