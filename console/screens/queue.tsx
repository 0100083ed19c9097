/** What waits for somebody outside: a row for each receiver, the oldest first, with the reason; and what failed. */
import { defineComponent, type VNodeChild } from 'vue';
import { RouterLink } from 'vue-router';
import { ApiError, read } from '../api/client.ts';
import { loadList } from '../api/load.ts';
import type { Page, QueueReceiver } from '../api/types.ts';
import { Card, Heading, State, When } from '../ui/basics.tsx';
import { type Column, isPhone } from '../ui/data-table.tsx';
import { formatName, formatNumber, formatSpan } from '../ui/format.ts';
import { type Chosen, ListTable } from '../ui/list-table.tsx';
import type { Search } from '../ui/search.ts';
import { SearchBox, useSearch } from '../ui/search-box.tsx';
import { menuFor } from './queue-actions.tsx';
import { type QueueQuery, qualifiers, rewrite, toQuery } from './queue-search.ts';

/** How often a list of the queue is read again. */
export const QUEUE_EVERY_MS = 10_000;
/** A delivery may be due for so long before it counts as late: workers look every few seconds. */
const LATE_SECONDS = 60;

export const chips = [
  ['Waiting', ''],
  ['Held', 'is:held'],
  ['Older than 1 h', 'older:1h'],
  ['Failed', 'is:failed'],
] as const;

/** What the API is asked for by the box. @throws ApiError where that is not what was meant */
export function queryOf(search: Search): QueueQuery {
  const { query, problem } = toQuery(search);
  if (problem !== undefined) throw new ApiError(400, 'invalid_request', problem);
  return query;
}

export const Queue = defineComponent(() => {
  const search = useSearch(qualifiers);
  const list = loadList(
    search,
    async (asked, cursor, signal) =>
      read<Page<QueueReceiver>>('/queue/receivers', { ...queryOf(asked), cursor }, signal),
    ({ destination }) => destination,
    QUEUE_EVERY_MS,
  );
  const filterOf = (destination: string) => ({ ...WAITING, ...queryOf(search()), destination });
  const menuOf = ({ destination, counts }: QueueReceiver) =>
    menuFor(present(counts), [filterOf(destination)], `to ${destination}`, list.reload);
  const bulk = ({ keys, isAll, clear }: Chosen) => {
    const rows = (list.data.value ?? []).filter(({ destination }) => keys.includes(destination));
    const filters = isAll
      ? [{ ...WAITING, ...queryOf(search()) }]
      : rows.map(({ destination }) => filterOf(destination));
    const where = isAll
      ? 'that match'
      : `to ${rows.length === 1 ? keys[0] : `${rows.length} receivers`}`;
    return menuFor(
      rows.flatMap(({ counts }) => present(counts)),
      filters,
      where,
      async () => {
        clear();
        await list.reload();
      },
    );
  };
  return () => {
    const isFailed = search().terms.some(({ name, value }) => name === 'is' && value === 'failed');
    return (
      <div class="screen">
        <Heading
          title="Queue"
          lead="Webhooks, events for hooks, forwarded and sent mail, and bounces that wait for a receiver outside."
        />
        <SearchBox
          label="Queue"
          qualifiers={qualifiers}
          placeholder="A part of a receiver's name"
          chips={chips}
        />
        <Card>
          {() => (
            <ListTable
              caption={
                isFailed
                  ? 'Receivers at which deliveries failed'
                  : 'Receivers with waiting deliveries'
              }
              columns={isFailed ? failed(search()) : waiting(search())}
              list={list}
              actions={menuOf}
              bulk={bulk}
              canTakeAll={true}
              empty={
                isFailed
                  ? ['Nothing failed', 'No delivery that matches failed in the last 30 days.']
                  : ['Nothing waits', 'All deliveries that match have ended.']
              }
            />
          )}
        </Card>
      </div>
    );
  };
});

/** What is meant where the box names no state. */
const WAITING = { status: 'waiting' };

const present = (counts: QueueReceiver['counts']) =>
  Object.entries(counts).flatMap(([state, amount]) => (amount > 0 ? [state] : []));

const receiver = (search: Search): Column<QueueReceiver> => ({
  head: 'Receiver',
  isWide: true,
  cell: ({ destination, kinds }) => (
    <>
      <RouterLink
        to={{ path: '/queue/deliveries', query: { q: rewrite(search, { to: destination }) } }}
      >
        {() => destination}
      </RouterLink>
      {/* A phone has two lines a row: eight rows are to be seen. */}
      {!isPhone.value && <span class="below">{kinds.map(formatName).join(', ')}</span>}
    </>
  ),
});

const reason: Column<QueueReceiver> = {
  head: 'Top reason',
  isWide: true,
  cell: ({ reason: text, reason_count: amount = 0, counts }) =>
    text === undefined ? (
      <span class="soft">Not tried yet</span>
    ) : (
      <span class="soft" title={text}>
        {formatNumber(amount)} of {formatNumber(counts.queued + counts.held + counts.failed)}:{' '}
        {text}
      </span>
    ),
};

const domains: Column<QueueReceiver> = {
  head: 'Domains',
  priority: 3,
  cell: ({ domains: names, domain_count: amount }) =>
    amount > 1 ? (
      <span title={names.join(', ')}>{`${names[0]} and ${amount - 1} more`}</span>
    ) : (
      names[0]
    ),
};

const lastSuccess: Column<QueueReceiver> = {
  head: 'Last success',
  priority: 4,
  cell: ({ last_success_at: at }) => (at === undefined ? '–' : <When at={at} />),
};

const waiting = (search: Search): readonly Column<QueueReceiver>[] => [
  receiver(search),
  {
    head: 'Waiting',
    priority: 1,
    isNumber: true,
    cell: ({ counts }) => formatNumber(counts.queued + counts.held),
  },
  { head: 'Oldest', priority: 1, cell: ({ oldest_at: at }) => <When at={at} /> },
  { head: 'Next attempt', cell: nextAttempt },
  reason,
  {
    head: 'Held',
    isNumber: true,
    cell: ({ counts }) => (counts.held > 0 ? formatNumber(counts.held) : '–'),
  },
  domains,
  lastSuccess,
];

const failed = (search: Search): readonly Column<QueueReceiver>[] => [
  receiver(search),
  {
    head: 'Failed',
    priority: 1,
    isNumber: true,
    cell: ({ counts }) => formatNumber(counts.failed),
  },
  { head: 'Last failure', priority: 1, cell: ({ failed_at: at }) => <When at={at} /> },
  reason,
  domains,
  lastSuccess,
];

interface Due {
  readonly next_attempt_at?: string;
  readonly overdue_seconds?: number;
}

/** When the next attempt comes; "late" only where it should have come a while ago. */
export function nextAttempt({ next_attempt_at: at, overdue_seconds: late = 0 }: Due): VNodeChild {
  if (at === undefined) return '–';
  if (late <= LATE_SECONDS) return late > 0 ? 'now' : <When at={at} />;
  return (
    <>
      <State name="late" tone="wait" /> {formatSpan(late, 1)}
    </>
  );
}
