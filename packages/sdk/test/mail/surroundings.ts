/** What may happen around the tabs of any life: time, faults, the network, and tabs that come and go. */
import fc from 'fast-check';
import type { Fault } from '../../src/testing/testing.ts';
import { BUSY, type Tab, type World } from './world.ts';

export const pick = fc.nat(30);

const ms = fc.constantFrom(0, 10, 300, 2000, 40_000);
const passing: fc.Arbitrary<Fault> = fc.oneof(
  fc.constantFrom<Fault>({ lose: 'request' }, { lose: 'answer' }),
  fc.constantFrom<Fault>(
    { status: 503, retryAfter: 2 },
    { status: 500 },
    { status: 429, retryAfter: 20 },
  ),
  fc.constant<Fault>({ delayMs: 3000 }),
);
const fault = fc.oneof(
  { weight: 4, arbitrary: passing },
  { weight: 1, arbitrary: fc.constant<Fault>({ status: 401, code: 'unauthorized' }) },
);
/** Of a server that is in trouble: some of its answers are right, and come at once. */
const faults = fc.array(fc.oneof(passing, fc.constant<Fault>({ delayMs: 0 })), { maxLength: 8 });
const aside = fc.constantFrom('kill' as const, 'drop' as const, 'deafen' as const);
const when = fc.constantFrom('before' as const, 'after' as const);

/** @param path of the request that meets a fault: the next one, or the next of a kind */
export const surroundings = (path: fc.Arbitrary<string | undefined>) =>
  [
    { weight: 6, arbitrary: fc.record({ do: fc.constant('wait' as const), ms }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('fault' as const), fault, path }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('trouble' as const), faults }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('network' as const), on: fc.boolean() }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('busy' as const), tab: pick }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('open' as const), tab: pick }) },
    { weight: 1, arbitrary: fc.record({ do: aside, tab: pick }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('crash' as const), tab: pick, when }) },
  ] as const;

type Around = ReturnType<typeof surroundings>[number] extends { arbitrary: infer Arbitrary }
  ? Arbitrary extends fc.Arbitrary<infer One>
    ? One
    : never
  : never;

/** Those of the tabs that are awake. */
export function tabOf(world: World, number: number): Tab | undefined {
  const awake = world.living.filter(({ frozen }) => !frozen);
  return awake[number % awake.length];
}

/**
 * @param open a tab
 * @returns whether the step was one of these
 */
export async function befall(
  one: Around | { readonly do: string },
  world: World,
  open: () => Promise<unknown>,
): Promise<boolean> {
  const { server } = world;
  const step = one as Around;
  const tab = 'tab' in step ? tabOf(world, step.tab) : undefined;
  switch (step.do) {
    case 'wait':
      await world.pass(step.ms);
      return true;
    case 'fault':
      server.failNext(step.fault, step.path);
      return true;
    case 'trouble':
      for (const one of step.faults) server.failNext(one);
      return true;
    case 'network':
      server.online = step.on;
      if (!step.on) server.dropSockets();
      return true;
    case 'drop':
      server.dropSockets();
      return true;
    case 'deafen':
      world.deafen();
      return true;
    case 'open':
      if (world.living.length < 3) await open();
      return true;
    case 'kill':
      if (tab) world.kill(tab);
      return true;
    case 'busy':
      world.busy = tab;
      return true;
    case 'crash':
      if (tab) world.crash = { tab, when: step.when };
      return true;
    default:
      return false;
  }
}

/** Two refused tokens end a session: the user signs in again, as often as faults that are left end it. */
export async function signInAgain(world: World): Promise<void> {
  const stopped = () => world.living.filter(({ client }) => client.state === 'stopped');
  // A life has forty steps at most, and two of them end a session.
  for (let left = 20; left > 0 && stopped().length > 0; left--) {
    for (const { client } of stopped()) client.reconnect();
    await world.pass(60_000);
  }
}

/** What a promise of a tab gives; undefined where the tab died over it, or its store was busy. */
export async function settled<T>(
  world: World,
  promise: Promise<T>,
  mayFail = false,
): Promise<T | undefined> {
  const over = Promise.allSettled([promise]);
  let result: PromiseSettledResult<T> | undefined;
  void over.then(([one]) => {
    result = one;
  });
  // Nothing waits for time: all of it is in the store.
  await world.pass(0, over);
  if (result?.status === 'fulfilled') return result.value;
  if (result && !mayFail && !String(result.reason).includes(BUSY)) throw result.reason;
  return undefined;
}
