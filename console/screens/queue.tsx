/** What waits for somebody outside: by destination and domain, with the reason. */
import { defineComponent } from 'vue';
import { RouterLink } from 'vue-router';
import { read } from '../api/client.ts';
import { loadList } from '../api/load.ts';
import type { Page, QueueGroup } from '../api/types.ts';
import { Card, Heading, State } from '../ui/basics.tsx';
import type { Column } from '../ui/data-table.tsx';
import { type Filter, Filters, useFilters } from '../ui/filters.tsx';
import { describeError, formatName, formatNumber, formatSpan } from '../ui/format.ts';
import { ListTable } from '../ui/list-table.tsx';
import { actionsFor, askForAction, type QueueFilter, words } from './queue-actions.tsx';

const filters: readonly Filter[] = [
  { name: 'destination', label: 'Destination', placeholder: 'https://hooks.acme.test' },
  { name: 'domain', label: 'Domain', placeholder: 'acme.test' },
  {
    name: 'status',
    label: 'Status',
    options: [
      ['', 'All'],
      ['queued', 'Queued'],
      ['held', 'Held'],
      ['failed', 'Failed'],
    ],
  },
];

const statuses = ['queued', 'held', 'failed'];

export const Queue = defineComponent(() => {
  const chosen = useFilters(filters.map(({ name }) => name));
  const list = loadList(
    chosen,
    (query, cursor, signal) => read<Page<QueueGroup>>('/queue', { ...query, cursor }, signal),
    ({ destination, domain, kind }) => `${kind} ${destination} ${domain}`,
  );
  const columns: readonly Column<QueueGroup>[] = [
    { head: 'Destination', isWide: true, cell: (row) => <Destination group={row} /> },
    { head: 'Domain', cell: ({ domain }) => domain },
    { head: 'Deliveries', cell: ({ counts }) => <Counts counts={counts} /> },
    { head: 'Overdue', cell: ({ overdue_seconds: late }) => (late ? formatSpan(late) : '–') },
    {
      head: 'Actions',
      cell: (row) => <Actions group={row} status={chosen().status} reload={list.reload} />,
    },
  ];
  return () => (
    <div class="screen">
      <Heading
        title="Queue"
        lead="Webhooks, forwarded and sent mail, and bounces that wait for a receiver outside."
      >
        {() => <AllActions filter={chosen()} reload={list.reload} />}
      </Heading>
      <Filters filters={filters} label="Queue" />
      <Card>
        {() => (
          <ListTable
            caption="Queue by destination and domain"
            columns={columns}
            list={list}
            empty={['Nothing waits', 'All deliveries have ended.']}
          />
        )}
      </Card>
    </div>
  );
});

interface AllActionsProps {
  readonly filter: QueueFilter;
  readonly reload: () => Promise<void>;
}

/** What can be done to everything that fits the filters; without any there is nothing to press. */
function AllActions({ filter, reload }: AllActionsProps) {
  if (Object.keys(filter).length === 0) return null;
  const present = filter.status ? [String(filter.status)] : statuses;
  return (
    <>
      {actionsFor(present).map((action) => (
        <button
          key={action}
          type="button"
          class="plain"
          onClick={() => void askForAction(action, filter, 'that match the filters', reload)}
        >
          {words[action].verb} all
        </button>
      ))}
    </>
  );
}

function Destination({ group }: { group: QueueGroup }) {
  const { destination, domain, kind, last_error: error } = group;
  return (
    <>
      <RouterLink to={{ path: '/queue/deliveries', query: { destination, domain, kind } }}>
        {() => destination}
      </RouterLink>
      <span class="below">{formatName(kind)}</span>
      {error && <span class="below reason">{describeError(error)}</span>}
    </>
  );
}

function Counts({ counts }: { counts: QueueGroup['counts'] }) {
  return (
    <span class="states">
      {statuses
        .filter((status) => counts[status])
        .map((status) => (
          <span key={status}>
            {formatNumber(counts[status] ?? 0)} <State name={status} />
          </span>
        ))}
    </span>
  );
}

interface ActionsProps {
  readonly group: QueueGroup;
  readonly status: string | undefined;
  readonly reload: () => Promise<void>;
}

function Actions({ group: { destination, domain, kind, counts }, status, reload }: ActionsProps) {
  const filter = { destination, domain, kind, ...(status && { status }) };
  const present = statuses.filter((one) => counts[one] && (!status || status === one));
  return (
    <div class="row-actions">
      {actionsFor(present).map((action) => (
        <button
          key={action}
          type="button"
          class="plain"
          aria-label={`${words[action].verb} ${domain} to ${destination}`}
          onClick={() =>
            void askForAction(action, filter, `of ${domain} to ${destination}`, reload)
          }
        >
          {words[action].verb}
        </button>
      ))}
    </div>
  );
}
