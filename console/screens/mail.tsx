/** "Where is the mail?": looks for messages in the trace. */
import { defineComponent } from 'vue';
import { RouterLink } from 'vue-router';
import { read } from '../api/client.ts';
import { loadList } from '../api/load.ts';
import type { Page, TraceItem } from '../api/types.ts';
import { Card, Heading, State, toneOf, When } from '../ui/basics.tsx';
import type { Column } from '../ui/data-table.tsx';
import { type Filter, Filters, useFilters } from '../ui/filters.tsx';
import { ListTable } from '../ui/list-table.tsx';

const filters: readonly Filter[] = [
  { name: 'recipient', label: 'Recipient', placeholder: 'ada@acme.test' },
  { name: 'sender', label: 'Sender', placeholder: 'grace@elsewhere.test' },
  { name: 'message_id', label: 'Message-ID' },
  { name: 'id', label: 'Id of the message', placeholder: 'from the answer 250' },
  { name: 'since', label: 'From', type: 'datetime-local' },
  { name: 'until', label: 'To', type: 'datetime-local' },
];

/** The address of the page has local time, the API takes UTC. */
function toQuery({ since, until, ...chosen }: Record<string, string>): Record<string, string> {
  const utc = (local: string) => new Date(local).toISOString();
  return { ...chosen, ...(since && { since: utc(since) }), ...(until && { until: utc(until) }) };
}

export const Mail = defineComponent(() => {
  const chosen = useFilters(filters.map(({ name }) => name));
  const list = loadList(
    chosen,
    (query, cursor, signal) =>
      read<Page<TraceItem>>('/trace', { ...toQuery(query), cursor }, signal),
    (row) => `${row.id} ${row.at} ${row.event} ${row.recipient}`,
  );
  const columns: readonly Column<TraceItem>[] = [
    { head: 'Time', cell: ({ at }) => <When at={at} exact={true} /> },
    { head: 'What', cell: (row) => <State name={row.event} tone={toneOfEvent(row)} /> },
    { head: 'From and to', isWide: true, cell: (row) => <Ends item={row} /> },
    { head: 'Detail', isWide: true, cell: (row) => <Detail item={row} /> },
  ];
  return () => (
    <div class="screen">
      <Heading
        title="Where is the mail?"
        lead="Every message that came in, was refused or went out, and what happened to it."
      />
      <Filters filters={filters} label="Trace" action="Find" />
      <Card>
        {() => (
          <ListTable
            caption="Trace, the newest first"
            columns={columns}
            list={list}
            empty={[
              'No mail matches',
              'It never reached this server, or the trace of that time is no longer kept (TRACE_DAYS).',
            ]}
          />
        )}
      </Card>
    </div>
  );
});

/** How an event ended: an attempt is as good as its status. */
export function toneOfEvent({ event, status }: TraceItem) {
  return event.endsWith('_attempt') && status ? toneOf(status) : toneOf(event);
}

function Ends({ item: { id, sender, recipient } }: { item: TraceItem }) {
  return (
    <>
      <RouterLink to={`/mail/${encodeURIComponent(id)}`}>
        {() => recipient ?? 'The message'}
      </RouterLink>
      {sender !== undefined && (
        <span class="below">from {sender === '' ? 'a bounce' : sender}</span>
      )}
    </>
  );
}

function Detail({ item: { detail, status } }: { item: TraceItem }) {
  return (
    <>
      {status}
      {detail && <span class="below">{detail}</span>}
    </>
  );
}
