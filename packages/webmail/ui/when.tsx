/** A time: short, and in full where the pointer rests. */
import { formatFull, formatWhen } from './format.ts';

export const When = ({ at }: { at: string }) => (
  <time datetime={at} title={formatFull(at)}>
    {formatWhen(at)}
  </time>
);
