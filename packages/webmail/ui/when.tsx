/** A time: short, and in full where the pointer rests. */
import type { FunctionalComponent } from 'vue';
import { formatFull, formatWhen } from './format.ts';

export const When: FunctionalComponent<{ at: string }> = ({ at }) => (
  <time datetime={at} title={formatFull(at)}>
    {formatWhen(at)}
  </time>
);
