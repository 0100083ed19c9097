/** A part of the queue: why it waits, whose mail it is, and its deliveries one by one. */
import { defineComponent } from 'vue';
import { RouterLink } from 'vue-router';
import { read } from '../api/client.ts';
import { load, loadList } from '../api/load.ts';
import type { Page, QueueDelivery, QueueLine, QueueSummary } from '../api/types.ts';
import { Card, Failure, Heading, State, When } from '../ui/basics.tsx';
import { type Column, DataTable } from '../ui/data-table.tsx';
import { describeError, formatName, formatNumber } from '../ui/format.ts';
import { ListTable } from '../ui/list-table.tsx';
import { SearchBox, useSearch } from '../ui/search-box.tsx';
import { chips, nextAttempt, QUEUE_EVERY_MS, queryOf } from './queue.tsx';
import { menuFor } from './queue-actions.tsx';
import { type QueueQuery, qualifiers, rewrite } from './queue-search.ts';

/** What is meant where the box names no state. */
const WAITING = { status: 'waiting' };

export const Deliveries = defineComponent(() => {
  const search = useSearch(qualifiers);
  const receiver = () => search().terms.find(({ name }) => name === 'to')?.value;
  return () => (
    <div class="screen">
      <Heading
        title={receiver() ?? 'Deliveries'}
        lead="What waits or failed, why, and one by one."
      />
      <SearchBox
        label="Deliveries"
        qualifiers={qualifiers}
        placeholder="A part of a receiver's name"
        chips={chips}
      />
      <Summary />
      <DeliveryList fixed={{}} />
    </div>
  );
});

/** Reasons, domains and senders of what the box says; each leads to its own part. */
const Summary = defineComponent(() => {
  const search = useSearch(qualifiers);
  const { data, error } = load(
    search,
    async (asked, signal) =>
      read<QueueSummary>('/queue/summary', { ...WAITING, ...queryOf(asked) }, signal),
    QUEUE_EVERY_MS,
  );
  const link = (term: string, value: string) => (
    <RouterLink to={{ query: { q: rewrite(search(), { [term]: value }) } }}>
      {() => value}
    </RouterLink>
  );
  return () => {
    if (!data.value) return <Failure error={error.value} />;
    const { reasons, domains, senders, untried } = data.value;
    if (domains.length === 0) return null;
    return (
      <div class="columns">
        <Card title="Why">
          {() => [
            <Part rows={reasons} head="Reason" cell={({ reason }) => link('reason', reason)} />,
            untried > 0 && <p class="soft">{formatNumber(untried)} were not tried yet.</p>,
          ]}
        </Card>
        <Card title="Whose mail">
          {() => [
            <Part rows={domains} head="Domain" cell={({ domain }) => link('domain', domain)} />,
            <Part
              rows={senders}
              head="From"
              cell={({ sender }) => (sender ? link('from', sender) : sender === '' ? '<>' : '–')}
            />,
          ]}
        </Card>
      </div>
    );
  };
});

interface PartProps<Row> {
  readonly rows: readonly Row[];
  readonly head: string;
  readonly cell: (row: Row) => unknown;
}

function Part<Row extends QueueLine>({ rows, head, cell }: PartProps<Row>) {
  if (rows.length === 0) return null;
  const sum = ({ counts }: Row) => counts.queued + counts.held + counts.failed;
  return (
    <DataTable
      caption={head}
      rows={rows}
      keyOf={(row) => JSON.stringify(row)}
      columns={[
        { head, isWrapped: true, cell: (row) => cell(row) as string },
        { head: 'Deliveries', priority: 1, isNumber: true, cell: (row) => formatNumber(sum(row)) },
        { head: 'Oldest', cell: ({ oldest_at: at }) => <When at={at} /> },
        { head: 'Next attempt', cell: ({ next_attempt_at: at }) => (at ? <When at={at} /> : '–') },
      ]}
    />
  );
}

/** Deliveries that fit the box, and what is given. */
export const DeliveryList = defineComponent(
  (props: { fixed: QueueQuery }) => {
    const search = useSearch(qualifiers);
    const list = loadList(
      () => ({ asked: search(), fixed: props.fixed }),
      async ({ asked, fixed }, cursor, signal) =>
        read<Page<QueueDelivery>>(
          '/queue/deliveries',
          { ...WAITING, ...queryOf(asked), ...fixed, cursor },
          signal,
        ),
      ({ id }) => id,
      QUEUE_EVERY_MS,
    );
    const filter = () => ({ ...WAITING, ...queryOf(search()), ...props.fixed });
    return () => (
      <Card>
        {() => (
          <ListTable
            caption="Deliveries"
            columns={columns}
            list={list}
            nameOf={({ id }) => `delivery ${id}`}
            actions={({ id, status }) =>
              menuFor([status], [{ ids: [id] }], `with the id ${id}`, list.reload)
            }
            canTakeAll={true}
            bulk={({ keys, isAll, clear }) => {
              const rows = (list.data.value ?? []).filter(({ id }) => keys.includes(id));
              const filters = isAll ? [filter()] : [{ ids: rows.map(({ id }) => id) }];
              const where = isAll ? 'that match' : 'that are chosen';
              return menuFor(
                rows.map(({ status }) => status),
                filters,
                where,
                async () => {
                  clear();
                  await list.reload();
                },
              );
            }}
            empty={['No delivery matches', 'Delivered mail is not in the queue any more.']}
          />
        )}
      </Card>
    );
  },
  { props: ['fixed'] },
);

const columns: readonly Column<QueueDelivery>[] = [
  { head: 'Delivery', isWide: true, cell: (row) => <Delivery delivery={row} /> },
  { head: 'State', priority: 1, cell: (row) => <DeliveryState delivery={row} /> },
  {
    head: 'Why',
    isWide: true,
    cell: ({ last_error: error }) =>
      error ? <span class="soft">{describeError(error)}</span> : '–',
  },
  { head: 'From', priority: 3, cell: ({ sender }) => (sender === '' ? '<>' : (sender ?? '–')) },
  { head: 'Attempts', isNumber: true, priority: 3, cell: ({ attempts }) => attempts },
  { head: 'Queued', cell: ({ created_at }) => <When at={created_at} /> },
  { head: 'Next attempt', cell: nextAttempt },
];

function Delivery({ delivery }: { delivery: QueueDelivery }) {
  const { id, subject, recipient, destination, url, kind } = delivery;
  return (
    <>
      <RouterLink to={`/messages/${id}`}>{() => subject || `Delivery ${id}`}</RouterLink>
      <span class="below" title={url}>
        {formatName(kind)} to {url ?? destination}
        {recipient && recipient !== destination && `, for ${recipient}`}
      </span>
    </>
  );
}

function DeliveryState({ delivery: { status, held_by: holder } }: { delivery: QueueDelivery }) {
  return (
    <>
      <State name={status} />
      {holder && (
        <span class="below">by {holder === 'operator' ? 'an operator' : 'a suspension'}</span>
      )}
    </>
  );
}
