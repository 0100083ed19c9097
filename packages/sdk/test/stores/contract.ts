/**
 * What every store does, in Node and in browsers: so it uses nothing of either. Most of it is a comparison with the
 * store in memory, over random changes.
 */
import { memoryStore } from '../../src/mail/memory-store.ts';
import type { Change, Durability, Key, RangeQuery, Store } from '../../src/mail/store.ts';

/** Opens an empty store; opens the same one again. */
export interface Subject {
  open(): Promise<Store>;
  /** Whether what is stored is there again after it is closed. */
  readonly stays: boolean;
  /** Whether it can be open twice at once. */
  readonly isShared: boolean;
}

const write = (store: Store, durability: Durability, changes: readonly Change[]) =>
  store.update('accounts', ['a'], () => changes, durability);

function equal(found: unknown, expected: unknown, what: string): void {
  const [one, other] = [found, expected].map((value) => JSON.stringify(sorted(value)));
  if (one !== other) throw new Error(`${what}: ${one}, expected ${other}`);
}

/** Members by their names: stores keep them in orders of their own. */
function sorted(value: unknown): unknown {
  if (value instanceof Uint8Array) return { bytes: [...value] };
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value ?? null;
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([name, one]) => [name, sorted(one)]));
}

async function fails(work: Promise<unknown>, what: string): Promise<Error> {
  try {
    await work;
  } catch (error) {
    if (error instanceof Error) return error;
    throw error;
  }
  throw new Error(`${what}: it succeeded`);
}

/** Numbers that look random, the same for each run (mulberry32). */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

async function locksOut(subject: Subject): Promise<void> {
  const first = await subject.open();
  if (!first.lock) return first.close();
  const second = subject.isShared ? await subject.open() : first;
  const ending = new AbortController();
  const order: string[] = [];
  let letGo = (): void => undefined;
  const isHeld = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const one = first.lock?.('a', ending.signal, async () => {
    order.push('first');
    await isHeld;
    order.push('first is over');
  });
  await first.lock?.('b', ending.signal, async () => void order.push('another name'));
  const other = second.lock?.('a', ending.signal, async () => void order.push('second'));
  const aborted = new AbortController();
  const late = second.lock?.('a', aborted.signal, async () => void order.push('aborted'));
  aborted.abort();
  letGo();
  await Promise.all([one, other, late && fails(late, 'a wait that was ended')]);
  equal(order, ['first', 'another name', 'first is over', 'second'], 'who had the lock');
  await first.close();
  if (second !== first) await second.close();
}

const message = (box: number, uid: number, more: object = {}) => ({
  put: 'messages' as const,
  row: { account: 'a', box, generation: 1, uid, date: 1000 - uid, ...more },
});

async function keepsRows(subject: Subject): Promise<void> {
  let store = await subject.open();
  const row = {
    account: 'a',
    box: 1,
    generation: 1,
    uid: 4_294_967_295,
    date: 1_795_244_400_123,
    envelope: { subject: '“Grüße” 😀 \u0000 \u2028', from: [{ name: '', address: 'a@b.c' }] },
    flags: ['\\Seen'],
    seen: true,
    nothing: null,
    part: 0.5,
  };
  const blob = { account: 'a', blob: 1, type: 'x', bytes: new Uint8Array([0, 10, 255, 13]) };
  const later = {
    put: 'operations',
    row: { account: 'a', seq: 10, plain: { bytes: [] } },
  } as const;
  const first = { put: 'operations', row: { account: 'a', seq: 9 } } as const;
  await write(store, 'strict', [{ put: 'messages', row }, { put: 'blobs', row: blob }, later]);
  await write(store, 'relaxed', [first]);
  const look = async () => {
    equal(await store.get('messages', [1, 1, 4_294_967_295]), row, 'a row');
    equal(await store.get('blobs', ['a', 1]), blob, 'bytes');
    const found = await store.get('blobs', ['a', 1]);
    if (!(found?.bytes instanceof Uint8Array)) throw new Error('bytes are no Uint8Array');
    equal(await store.get('blobs', ['a', 2]), undefined, 'no row');
    const all = await store.range({ table: 'operations', prefix: ['a'] });
    equal(all, [first.row, later.row], 'the order of numbers');
  };
  await look();
  await store.close();
  if (!subject.stays) return;
  store = await subject.open();
  await look();
  await store.close();
}

async function updatesOneByOne(subject: Subject): Promise<void> {
  const stores = [await subject.open()];
  if (subject.isShared) stores.push(await subject.open());
  const count = (store: Store) =>
    store.update('accounts', ['n'], (row) => [
      { put: 'accounts', row: { account: 'n', value: Number(row?.value ?? 0) + 1 } },
      { put: 'operations', row: { account: 'n', seq: Number(row?.value ?? 0) + 1 } },
    ]);
  await Promise.all(
    Array.from({ length: 20 }, (_, i) => count(stores[i % stores.length] as Store)),
  );
  for (const store of stores) {
    equal(await store.get('accounts', ['n']), { account: 'n', value: 20 }, 'the sum of updates');
    equal((await store.range({ table: 'operations', prefix: ['n'] })).length, 20, 'their rows');
  }
  const [store] = stores as [Store];
  const wrong = await fails(
    store.update('accounts', ['n'], () => {
      throw new RangeError('decided against it');
    }),
    'an update that throws',
  );
  equal(wrong.message, 'decided against it', 'its error');
  await store.update('accounts', ['n'], () => []);
  equal((await store.get('accounts', ['n']))?.value, 20, 'nothing changed');
  for (const one of stores) await one.close();
}

async function carriesOutAllOrNothing(subject: Subject): Promise<void> {
  const store = await subject.open();
  await write(store, 'strict', [message(1, 1)]);
  const circle: { self?: unknown } = {};
  circle.self = () => circle;
  const bad = { put: 'messages', row: { ...message(1, 3).row, circle } } as const;
  const refused = write(store, 'strict', [
    message(1, 2),
    { remove: 'messages', key: [1, 1, 1] },
    bad,
  ]);
  // A row that is no plain data. Memory and JSON take it; the browser refuses it, and then undoes all.
  const isRefused = await refused.then(
    () => false,
    () => true,
  );
  const uids = (await store.range({ table: 'messages', prefix: [1, 1] })).map(({ uid }) => uid);
  equal(uids, isRefused ? [1] : [2, 3], 'all or nothing');
  await store.close();
}

/** Random changes, on this store and in memory, and random questions to both. */
async function isAsMemory(subject: Subject): Promise<void> {
  const random = numbers(7);
  const reference = memoryStore();
  let store = await subject.open();
  for (let round = 0; round < 60; round++) {
    const changes = Array.from({ length: random(8) }, () => randomChange(random));
    await write(store, random(2) === 0 ? 'strict' : 'relaxed', changes);
    await write(reference, 'strict', changes);
    for (let asked = 0; asked < 4; asked++) {
      const query = randomQuery(random);
      const [found, expected] = [await store.range(query), await reference.range(query)];
      equal(found, expected, JSON.stringify(query));
    }
    if (subject.stays && round % 20 === 19) {
      await store.close();
      store = await subject.open();
    }
  }
  await store.close();
}

function randomChange(random: (below: number) => number): Change {
  const [box, generation, uid] = [random(2), random(2), random(12)];
  if (random(4) === 0) return { remove: 'messages', key: [box, generation, uid] };
  const thread = random(3);
  const threadId = thread === 0 ? {} : { threadId: `t${thread}` };
  const account = random(2) === 0 ? 'a' : 'b';
  return {
    put: 'messages',
    row: { account, box, generation, uid, date: random(4), ...threadId },
  };
}

const SHAPES: readonly (readonly [string | undefined, readonly ('n' | 'a' | 't')[]])[] = [
  [undefined, ['n', 'n', 'n']],
  ['byDate', ['n', 'n', 'n', 'n']],
  ['byThread', ['a', 't']],
];

function randomQuery(random: (below: number) => number): RangeQuery {
  const [index, shape] = SHAPES[random(SHAPES.length)] ?? [undefined, []];
  const part = (kind: 'n' | 'a' | 't') =>
    kind === 'n' ? random(3) : kind === 'a' ? 'ab'.charAt(random(2)) : `t${random(3)}`;
  const fixed = random(shape.length + 1);
  const rest = shape.slice(fixed);
  const bound = (): Key => rest.slice(0, 1 + random(rest.length)).map(part);
  const both = rest.length > 0;
  return {
    table: 'messages',
    ...(index !== undefined && { index }),
    prefix: shape.slice(0, fixed).map(part),
    ...(both && random(3) === 0 && { after: bound() }),
    ...(both && random(3) === 0 && { before: bound() }),
    ...(random(2) === 0 && { reverse: true }),
    ...(random(2) === 0 && { limit: random(5) }),
  };
}

/** By what they say. */
export const contract: Readonly<Record<string, (subject: Subject) => Promise<void>>> = {
  'rows and bytes come back as they were': keepsRows,
  'updates happen one after the other': updatesOneByOne,
  'a transaction is carried out as a whole or not at all': carriesOutAllOrNothing,
  'one at a time has a lock, where there are locks': locksOut,
  'ranges are those of memory, whatever was changed': isAsMemory,
};
