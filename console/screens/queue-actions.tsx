/** What is done to many deliveries at once: counted first, then confirmed, then done in steps below the header. */
import type { Step } from '../../src/platform/time/until-done.ts';
import { act } from '../api/client.ts';
import { askAfter } from '../ui/dialogs.tsx';
import { count, formatNumber } from '../ui/format.ts';
import type { Action } from '../ui/menu.tsx';
import { say } from '../ui/messages.tsx';
import { State } from '../ui/state.tsx';
import { startWork } from '../ui/work.tsx';

export type QueueAction = 'retry' | 'try one' | 'hold' | 'release' | 'drop';

/** Which deliveries; what is left out does not matter. */
export type QueueFilter = Readonly<Record<string, string | readonly number[]>>;

interface Words {
  readonly verb: string;
  readonly done: string;
  readonly follows: string;
}

export const words: Readonly<Record<QueueAction, Words>> = {
  retry: {
    verb: 'Retry',
    done: 'are tried again',
    follows: 'They are tried now, a few at a time, and one by one while the receiver fails.',
  },
  'try one': {
    verb: 'Try one',
    done: 'is tried again',
    follows: 'One of them is tried now, to see whether the receiver works.',
  },
  hold: { verb: 'Hold', done: 'are held', follows: 'They wait until they are released.' },
  release: { verb: 'Release', done: 'are released', follows: 'They are tried when they are due.' },
  drop: {
    verb: 'Drop',
    done: 'are dropped',
    follows:
      'They are not delivered, and no bounce is sent. Each can be retried as long as its message is kept (DELIVERY_BODY_HOURS).',
  },
};

const states: Readonly<Record<QueueAction, readonly string[]>> = {
  retry: ['queued', 'failed'],
  'try one': ['queued', 'failed'],
  hold: ['queued'],
  release: ['held'],
  drop: ['queued', 'held'],
};

/** Why deliveries are left as they are. */
const left = {
  under_way: 'an attempt is under way',
  changed_since: 'they changed after the order was given',
  due: 'they are due and tried anyway, or wait for the time that their sender set',
  not_kept: 'their message is not kept any more (DELIVERY_BODY_HOURS)',
  held_otherwise: 'the suspension of their domain holds them',
};

/** What can be done where deliveries are in these states. */
export function actionsFor(present: readonly string[]): QueueAction[] {
  const actions = Object.keys(states) as QueueAction[];
  return actions.filter((action) => states[action].some((state) => present.includes(state)));
}

/** The same as entries of a menu or bar. */
export function menuFor(
  present: readonly string[],
  filters: readonly QueueFilter[],
  where: string,
  done: () => Promise<void>,
): Action[] {
  return actionsFor(present).map((action) => ({
    label: words[action].verb,
    isDangerous: action === 'drop',
    run: () => void askForAction(action, filters, where, done),
  }));
}

interface Counted extends Step {
  readonly parts: {
    readonly statuses: readonly { readonly status: string; readonly count: number }[];
    readonly domains: readonly { readonly domain: string; readonly count: number }[];
    readonly reasons: readonly { readonly reason?: string; readonly count: number }[];
  };
}

/** Lines of each part that a question shows. */
const LINES = 5;

/**
 * Counts what an action would change, asks, and does it.
 *
 * @param meant filters of what is meant, one after the other
 */
export function askForAction(
  action: QueueAction,
  meant: QueueFilter | readonly QueueFilter[],
  where: string,
  done: () => Promise<void>,
): Promise<void> {
  const { verb, follows } = words[action];
  const path = `/queue/${action === 'try one' ? 'retry' : action}`;
  const filters: readonly QueueFilter[] = Array.isArray(meant) ? meant : [meant];
  const orders =
    action === 'try one' ? filters.map((filter) => ({ ...filter, limit: 1 })) : filters;
  return askAfter(async () => {
    const found: Counted[] = [];
    for (const order of orders) {
      found.push(await act<Counted>(path, { ...order, dry_run: true }));
    }
    const matched = found.reduce((sum, step) => sum + step.matched, 0);
    if (matched === 0) {
      say(`Nothing to ${action} ${where}.${describeLeft(found)}`);
      return undefined;
    }
    const isMore = found.some(({ more }) => more);
    const deliveries = count(matched, 'delivery', 'deliveries');
    return {
      title: `${action === 'try one' ? 'Try' : verb} ${isMore ? 'more than ' : ''}${deliveries}?`,
      action: verb,
      isDangerous: action === 'drop',
      ...(action === 'drop' && { typed: 'drop' }),
      text: () => (
        <>
          <p>
            {formatNumber(matched)} {where}. {follows}
            {describeLeft(found)}
          </p>
          <Parts found={found} />
        </>
      ),
      run: async () => start(action, orders, isMore ? Infinity : matched, { where, done }),
    };
  });
}

/** Does it, in a strip below the header. @param matched Infinity where there are more than were counted */
export function start(
  action: QueueAction,
  orders: readonly object[],
  matched: number,
  { where, done }: { readonly where: string; readonly done: () => Promise<void> },
): void {
  const { verb, done: word } = words[action];
  const path = `/queue/${action === 'try one' ? 'retry' : action}`;
  const amount = Number.isFinite(matched) ? `${count(matched, 'delivery', 'deliveries')} ` : '';
  const step = stepsOf(path, orders);
  startWork({ title: `${verb} ${amount}${where}`, matched, done: word, left, step, after: done });
}

/** One order after the other, each from where its call before ended. */
function stepsOf(path: string, orders: readonly object[]) {
  let at = 0;
  return async (next: string | undefined): Promise<Step> => {
    const step = await act<Step>(path, { ...orders[at], ...(next && { next }) });
    if (step.more) return step;
    at += 1;
    return at < orders.length ? { ...step, more: true, next: '' } : step;
  };
}

function describeLeft(found: readonly Step[]): string {
  const all = new Map<string, number>();
  for (const { skipped = {} } of found) {
    for (const [why, amount = 0] of Object.entries(skipped)) {
      all.set(why, (all.get(why) ?? 0) + amount);
    }
  }
  const said = [...all].map(
    ([why, amount]) => ` ${formatNumber(amount)} not: ${left[why as keyof typeof left] ?? why}.`,
  );
  return said.join('');
}

/** What is meant, by its state, domain and reason. */
function Parts({ found }: { found: readonly Counted[] }) {
  const tally = <One extends { readonly count: number }>(
    all: readonly One[],
    nameOf: (one: One) => string,
  ) => {
    const counts = new Map<string, number>();
    for (const one of all) counts.set(nameOf(one), (counts.get(nameOf(one)) ?? 0) + one.count);
    return [...counts].sort(([, one], [, other]) => other - one).slice(0, LINES);
  };
  const parts = found.map(({ parts: one }) => one);
  const lines = [
    [
      'By state',
      tally(
        parts.flatMap(({ statuses }) => statuses),
        ({ status }) => status,
      ),
    ],
    [
      'By domain',
      tally(
        parts.flatMap(({ domains }) => domains),
        ({ domain }) => domain,
      ),
    ],
    [
      'By reason',
      tally(
        parts.flatMap(({ reasons }) => reasons),
        ({ reason = 'Not tried yet' }) => reason,
      ),
    ],
  ] as const;
  return (
    <dl class="facts">
      {lines.map(([name, counts]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {counts.map(([value, amount]) => (
              <span key={value} class="below">
                {formatNumber(amount)} {name === 'By state' ? <State name={value} /> : value}
              </span>
            ))}
          </dd>
        </div>
      ))}
    </dl>
  );
}
