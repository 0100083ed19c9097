/** What may happen in the life of an account and its tabs. */
import fc from 'fast-check';
import { pick, surroundings } from './surroundings.ts';

/** The one that an app may delete. */
export const WORK = 'Work';
export const BOXES = ['INBOX', 'Archive', 'Trash', WORK];
export const SEEN = '\\Seen';

const box = fc.constantFrom(...BOXES);
const flag = fc.constantFrom(SEEN, '\\Flagged', '$Later');
/** The request that meets a fault: the next one, or the next of a kind. */
const path = fc.constantFrom(
  undefined,
  '/mail/send',
  '/mail/move',
  '/mail/copy',
  '/mail/drafts',
  '/mail/sync',
);

export const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('deliver' as const),
      count: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('other flags' as const),
      box,
      pick,
      flag,
      on: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('other removes' as const, 'other moves' as const),
      box,
      pick,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constantFrom('forget' as const, 'recreate' as const), box }),
  },
  {
    weight: 2,
    // Another app deletes a mailbox with its mail, and makes one with its name that much later.
    arbitrary: fc.record({
      do: fc.constant('remake' as const),
      box: fc.constant(WORK),
      ms: fc.constantFrom(0, 10, 300, 2000, 40_000),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('flag' as const),
      tab: pick,
      box,
      pick,
      flag,
      on: fc.boolean(),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom('move' as const, 'copy' as const),
      tab: pick,
      box,
      pick,
      to: box,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('delete' as const),
      tab: pick,
      box,
      pick,
      forever: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('undo' as const), pick }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('draft' as const, 'send' as const, 'cancel' as const),
      tab: pick,
    }),
  },
  ...surroundings(path),
  { weight: 1, arbitrary: fc.record({ do: fc.constant('freeze' as const), tab: pick }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('clock' as const),
      ms: fc.constantFrom(-86_400_000, -3_600_000, -20_000, 20_000, 3_600_000, 86_400_000),
    }),
  },
);
export type Step = typeof step extends fc.Arbitrary<infer One> ? One : never;
