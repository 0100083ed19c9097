/** A drawing; each stands beside a word, or in a button that has a label. */
import { type IconName, paths } from './icons.ts';

export type { IconName } from './icons.ts';

interface IconProps {
  readonly name: IconName;
  /** Filled in place of outlined: a star that is set. */
  readonly filled?: boolean;
}

export const Icon = ({ name, filled }: IconProps) => (
  <svg class={['icon', { filled }]} viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
    <path d={paths[name]} />
  </svg>
);
