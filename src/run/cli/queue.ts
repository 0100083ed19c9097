/** `postroom queue`: what waits for whom and why, and orders for many deliveries at once. */
import { Command } from 'commander';
import { many } from '../../platform/errors/errors.ts';
import { type Step, untilDone } from '../../platform/time/time.ts';
import type { OrderStep } from '../../servers/operator/operator.ts';
import { openProgress, report } from './command.ts';
import {
  addFilters,
  confirm,
  connect,
  describeItem,
  givenOf,
  type List,
  listCommand,
  onService,
  type ServiceArguments,
  showItem,
} from './lists.ts';

const filters = {
  destination: 'a receiver, as the list names it',
  q: "a part of the receiver's name",
  domain: 'of one domain',
  account: 'of one account, by its address',
  sender: 'from this address',
  kind: 'webhook, forward, bounce, send, mailbox, copy or event',
  status: 'queued, held, failed, or waiting: the first two',
  reason: 'a part of the reason of the last failed attempt',
  older_than: 'queued at least so many seconds ago',
  due_within: 'next attempt within so many seconds',
};

function without<Value>(all: Readonly<Record<string, Value>>, name: string): Record<string, Value> {
  return Object.fromEntries(Object.entries(all).filter(([one]) => one !== name));
}

const receivers: List = {
  name: 'list',
  path: 'queue/receivers',
  filters,
  description: 'receivers with what waits for them, the oldest first',
  columns:
    'destination kinds counts.queued counts.held oldest_at next_attempt_at reason_count reason domains last_success_at',
};

const failed: List = {
  name: 'failed',
  path: 'queue/receivers',
  fixed: { status: 'failed' },
  filters: without(filters, 'status'),
  description: 'receivers at which deliveries failed in the last 30 days, the latest first',
  columns: 'destination kinds counts.failed failed_at reason_count reason domains last_success_at',
};

const deliveries: List = {
  name: 'deliveries',
  path: 'queue/deliveries',
  filters,
  description: 'single deliveries',
  columns:
    'id status kind destination url domain sender recipient attempts next_attempt_at last_error',
};

export function queueCommand(): Command {
  const command = new Command('queue')
    .description('deliveries that wait, and why')
    .addCommand(listCommand(receivers))
    .addCommand(listCommand(failed))
    .addCommand(showCommand())
    .addCommand(listCommand(deliveries));
  for (const [action, description] of Object.entries(actions)) {
    const order = addFilters(onService(command.command(action).description(description)), filters)
      .option('--ids <ids...>', 'single deliveries, by number')
      .option('--dry-run', 'only counts what matches, by status, domain and reason');
    if (action === 'retry') order.option('--one', 'tries one of them, to see whether it works');
    if (action === 'drop') order.option('--yes', 'drops without asking');
    order.action((given: ServiceArguments) => actOnQueue(action, given));
  }
  return command;
}

const actions = {
  retry: 'tries deliveries again now',
  hold: 'keeps deliveries back until they are released',
  release: 'releases held deliveries',
  drop: 'ends deliveries without a bounce',
};

/** `postroom queue show`: what fits the filters, by reason, domain and sender. */
function showCommand(): Command {
  return addFilters(onService(new Command('show')), filters)
    .description('what waits, by reason, domain and sender')
    .action(async (given: ServiceArguments) => {
      const query = new URLSearchParams(givenOf(filters, given));
      await showItem(`queue/summary?${query}`, given);
    });
}

async function actOnQueue(action: string, given: ServiceArguments): Promise<void> {
  const client = await connect(given.url);
  const { ids, one, dryRun, yes, json } = given;
  const { older_than: age, due_within: soon, ...texts } = givenOf(filters, given);
  const body = {
    ...texts,
    ...(age !== undefined && { older_than: Number(age) }),
    ...(soon !== undefined && { due_within: Number(soon) }),
    ...(Array.isArray(ids) && { ids: ids.map(Number) }),
    ...(one === true && { limit: 1 }),
  };
  const path = `/v2/operator/queue/${action}`;
  if (dryRun || (action === 'drop' && !yes)) {
    const counted = await client.call<OrderStep>('POST', path, { ...body, dry_run: true });
    const { matched, more } = counted;
    // A count that takes longer than one call says so: it is for a decision, and not for the books.
    const deliveries = `${more ? 'More than ' : ''}${many(matched, 'delivery', 'deliveries')}`;
    const found = describeFound(counted);
    if (dryRun) {
      report(
        json,
        { ok: true, ...counted },
        `An order would find ${deliveries}. Nothing was done.${found}`,
      );
      return;
    }
    if (found) process.stderr.write(`${found.trimStart()}\n`);
    await confirm(`This drops ${deliveries}.`, String(matched), '--yes');
  }
  const show = openProgress();
  const { matched, changed, skipped } = await untilDone(
    (next) => client.call<Step>('POST', path, { ...body, ...(next && { next }) }),
    (soFar) => {
      show(`${action}: ${soFar.changed} of ${soFar.matched} deliveries`);
      return true;
    },
  );
  show();
  const done =
    matched === 0
      ? `No delivery matches: nothing was done.${describeSkipped(skipped)}`
      : `${action}: ${changed} of ${many(matched, 'delivery', 'deliveries')}.${describeSkipped(skipped)}`;
  report(json, { ok: true, matched, changed, skipped }, done);
}

/** Why deliveries stay as they are. */
const reasons: Readonly<Record<string, string>> = {
  under_way: 'an attempt is under way.',
  changed_since: 'changed after the order was given.',
  due: 'due and tried anyway, or waiting for the time that the sender set.',
  not_kept: 'the message is not kept any more (DELIVERY_BODY_HOURS).',
  held_otherwise: 'held by the suspension of the domain, which only its end releases.',
};

function describeSkipped(skipped: Readonly<Record<string, number | undefined>> = {}): string {
  return Object.entries(skipped)
    .map(([why, count]) => `\n${count} not changed: ${reasons[why] ?? why}`)
    .join('');
}

/** What an order would change, by state, domain and reason, and what would stay as it is. */
export function describeFound({ parts, skipped }: Pick<OrderStep, 'parts' | 'skipped'>): string {
  const isEmpty = Object.values(parts ?? {}).every((list) => list.length === 0);
  return `${isEmpty ? '' : `\n${describeItem(parts ?? {})}`}${describeSkipped(skipped)}`;
}
