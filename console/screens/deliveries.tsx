/** Single deliveries, each with its reason and its way to the trace. */
import { defineComponent } from 'vue';
import { RouterLink } from 'vue-router';
import { read } from '../api/client.ts';
import { loadList } from '../api/load.ts';
import type { Page, QueueDelivery } from '../api/types.ts';
import { Card, Heading, State, When } from '../ui/basics.tsx';
import type { Column } from '../ui/data-table.tsx';
import { type Filter, Filters, useFilters } from '../ui/filters.tsx';
import { describeError, formatName } from '../ui/format.ts';
import { ListTable } from '../ui/list-table.tsx';
import { actionsFor, askForAction, words } from './queue-actions.tsx';

const filters: readonly Filter[] = [
  { name: 'destination', label: 'Destination' },
  { name: 'domain', label: 'Domain' },
  { name: 'account', label: 'Account' },
  {
    name: 'kind',
    label: 'Kind',
    options: [
      ['', 'All'],
      ['webhook', 'Webhook'],
      ['forward', 'Forward'],
      ['send', 'Send'],
      ['bounce', 'Bounce'],
      ['mailbox', 'Mailbox'],
      ['copy', 'Copy'],
    ],
  },
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

export const Deliveries = defineComponent(() => () => (
  <div class="screen">
    <Heading title="Deliveries" lead="One by one, the newest first." />
    <Filters filters={filters} label="Deliveries" />
    <DeliveryList fixed={{}} />
  </div>
));

/** Deliveries that fit the filters of the address, and those that are given. */
export const DeliveryList = defineComponent(
  (props: { fixed: Readonly<Record<string, string>> }) => {
    const chosen = useFilters(filters.map(({ name }) => name));
    const list = loadList(
      () => ({ ...chosen(), ...props.fixed }),
      (query, cursor, signal) =>
        read<Page<QueueDelivery>>('/queue/deliveries', { ...query, cursor }, signal),
      ({ id }) => id,
    );
    const columns: readonly Column<QueueDelivery>[] = [
      { head: 'Delivery', isWide: true, cell: (row) => <Delivery delivery={row} /> },
      { head: 'Status', cell: (row) => <DeliveryState delivery={row} /> },
      { head: 'Attempts', isNumber: true, cell: ({ attempts }) => attempts },
      { head: 'Created', cell: ({ created_at }) => <When at={created_at} /> },
      {
        head: 'Next attempt',
        cell: ({ next_attempt_at: at }) => (at === undefined ? '–' : <When at={at} />),
      },
      { head: 'Actions', cell: (row) => <Actions delivery={row} reload={list.reload} /> },
    ];
    return () => (
      <Card>
        {() => (
          <ListTable
            caption="Deliveries"
            columns={columns}
            list={list}
            empty={['No delivery matches', 'Delivered mail is not in the queue any more.']}
          />
        )}
      </Card>
    );
  },
  { props: ['fixed'] },
);

function Delivery({ delivery }: { delivery: QueueDelivery }) {
  const { id, subject, recipient, destination, kind, last_error: error } = delivery;
  return (
    <>
      <RouterLink to={`/mail/${id}`}>{() => subject || `Delivery ${id}`}</RouterLink>
      <span class="below">
        {formatName(kind)} to {destination}
        {recipient && recipient !== destination && `, for ${recipient}`}
      </span>
      {error && <span class="below reason">{describeError(error)}</span>}
    </>
  );
}

function DeliveryState({ delivery: { status, held_by: holder } }: { delivery: QueueDelivery }) {
  return (
    <span>
      <State name={status} />
      {holder && (
        <span class="below">by {holder === 'operator' ? 'an operator' : 'a suspension'}</span>
      )}
    </span>
  );
}

interface ActionsProps {
  readonly delivery: QueueDelivery;
  readonly reload: () => Promise<void>;
}

function Actions({ delivery: { id, status }, reload }: ActionsProps) {
  return (
    <div class="row-actions">
      {actionsFor([status]).map((action) => (
        <button
          key={action}
          type="button"
          class="plain"
          aria-label={`${words[action].verb} delivery ${id}`}
          onClick={() => void askForAction(action, { ids: [id] }, `with the id ${id}`, reload)}
        >
          {words[action].verb}
        </button>
      ))}
    </div>
  );
}
