/**
 * The state of something: an icon, an adjective and a tint, never a colour alone.
 *
 * `<State name="deferred" />` knows the states that the API names. `tone` and `icon` say how another one looks. In
 * a table a good state is plain text: only what needs a look has a tint. A state is never clickable, and a reason
 * (`451 Greylisted`) is no state: it is `<span class="soft">`.
 */
import type { FunctionalComponent } from 'vue';
import { formatName } from './format.ts';

export type Tone = 'good' | 'wait' | 'bad' | 'held' | 'info' | 'plain';

const paths = {
  check: 'm3 7.5 2.8 2.8L11 4.5',
  clock: 'M7 4v3.2l2 1.3',
  loop: 'M11.5 7a4.5 4.5 0 1 1-1.4-3.3M11.5 1.7v2.6H8.9',
  pause: 'M5.2 3.5v7M8.8 3.5v7',
  cross: 'm3.8 3.8 6.4 6.4m0-6.4-6.4 6.4',
  slash: 'm3.3 10.7 7.4-7.4',
  alert: 'M7 1.8 13 12H1zM7 5.6v2.8m0 1.7v.1',
  info: 'M7 6.4v3.4M7 4.2v.1',
  dots: 'M3 7h.1M7 7h.1M11 7h.1',
  search: 'm9.3 9.3 3 3M6 10.2a4.2 4.2 0 1 0 0-8.4 4.2 4.2 0 0 0 0 8.4',
} as const;

export type IconName = keyof typeof paths;

/** Those that stand within a circle. */
const round: readonly IconName[] = ['clock', 'slash', 'info'];

/** A drawing of 14 pixels beside a word. */
export const Icon: FunctionalComponent<{ name: IconName }> = ({ name }) => (
  <svg class="icon" viewBox="0 0 14 14" width="14" height="14" aria-hidden="true">
    {round.includes(name) && <circle cx="7" cy="7" r="5.5" />}
    <path d={paths[name]} />
  </svg>
);

const icons: Readonly<Record<Tone, IconName>> = {
  good: 'check',
  wait: 'clock',
  bad: 'cross',
  held: 'pause',
  info: 'info',
  plain: 'info',
};

type Look = readonly [tone: Tone, icon?: IconName];

const looks: Readonly<Record<string, Look>> = {
  active: ['good'],
  verified: ['good'],
  delivered: ['good'],
  stored: ['good'],
  up: ['good'],
  ok: ['good'],
  pending: ['wait'],
  waiting: ['wait'],
  queued: ['wait'],
  scheduled: ['wait'],
  deferred: ['wait', 'loop'],
  held: ['held'],
  suspended: ['held'],
  submitted: ['info', 'clock'],
  received: ['info', 'check'],
  retried: ['info', 'loop'],
  released: ['info', 'check'],
  failed: ['bad'],
  bounced: ['bad'],
  down: ['bad'],
  missing_now: ['bad'],
  expired: ['plain', 'clock'],
  revoked: ['plain', 'slash'],
  refused: ['bad', 'slash'],
  dropped: ['plain', 'slash'],
  cancelled: ['plain', 'slash'],
};

/** How good a state is that the API names. */
export function toneOf(state: string): Tone {
  return looks[state]?.[0] ?? 'plain';
}

interface StateProps {
  name: string;
  tone?: Tone | undefined;
  icon?: IconName | undefined;
}

export const State: FunctionalComponent<StateProps> = ({ name, tone = toneOf(name), icon }) => {
  const usual = looks[name]?.[0] === tone ? looks[name]?.[1] : undefined;
  return (
    <span class={['state', tone]}>
      <Icon name={icon ?? usual ?? icons[tone]} />
      {formatName(name)}
    </span>
  );
};
