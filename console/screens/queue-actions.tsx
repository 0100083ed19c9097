/** What is done to many deliveries at once: counted first, then confirmed, then done in steps. */
import { ref } from 'vue';
import { type Step, untilDone } from '../../src/platform/time/until-done.ts';
import { act } from '../api/client.ts';
import { asApiError } from '../api/load.ts';
import { ask } from '../ui/dialogs.tsx';
import { count, formatNumber } from '../ui/format.ts';
import { say } from '../ui/messages.tsx';

export type QueueAction = 'retry' | 'hold' | 'release' | 'drop';

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
  hold: ['queued'],
  release: ['held'],
  drop: ['queued', 'held'],
};

/** What can be done where deliveries are in these states. */
export function actionsFor(present: readonly string[]): QueueAction[] {
  const actions = Object.keys(states) as QueueAction[];
  return actions.filter((action) => states[action].some((state) => present.includes(state)));
}

/** Counts what an action would change, asks, and does it. */
export async function askForAction(
  action: QueueAction,
  filter: QueueFilter,
  where: string,
  done: () => Promise<void>,
): Promise<void> {
  const { verb, follows } = words[action];
  try {
    const { matched, more } = await act<Step>(`/queue/${action}`, {
      ...filter,
      dry_run: true,
    });
    if (matched === 0) return say(`Nothing to ${action} ${where}.`);
    const changed = ref(0);
    ask({
      title: `${verb} ${more ? 'more than ' : ''}${count(matched, 'delivery', 'deliveries')}?`,
      action: verb,
      isDangerous: action === 'drop',
      ...(action === 'drop' && { typed: 'drop' }),
      text: () => (
        <>
          <p>
            {formatNumber(matched)} {where}. {follows}
          </p>
          {changed.value > 0 && <p role="status">{formatNumber(changed.value)} so far…</p>}
        </>
      ),
      run: () => runToEnd(action, filter, changed).then(done),
    });
  } catch (error) {
    say(`Nothing was changed: ${asApiError(error).message}`, 'bad');
  }
}

/** Calls until all is done: the API stops after some seconds each time. */
async function runToEnd(
  action: QueueAction,
  filter: QueueFilter,
  changed: { value: number },
): Promise<void> {
  await untilDone(
    (next) => act<Step>(`/queue/${action}`, { ...filter, ...(next && { next }) }),
    (soFar) => {
      changed.value = soFar.changed;
      return true;
    },
  );
  say(`${count(changed.value, 'delivery', 'deliveries')} ${words[action].done}.`);
}
