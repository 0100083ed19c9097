/** One row for a message: what became of it. */
import { defineComponent } from 'vue';
import { RouterLink, useRoute } from 'vue-router';
import { read } from '../api/client.ts';
import { type LoadedList, loadList } from '../api/load.ts';
import type { MessageItem, Page } from '../api/types.ts';
import { Card, State, When } from '../ui/basics.tsx';
import type { Column } from '../ui/data-table.tsx';
import { formatBytes, formatKnown, formatNumber } from '../ui/format.ts';
import { ListTable } from '../ui/list-table.tsx';
import { useSearch } from '../ui/search-box.tsx';
import { qualifiers, toQuery } from './message-search.ts';

const LOOK_EVERY_MS = 15_000;

/** Messages that fit the box, or those that are given. */
export function loadMessages(fixed: () => Readonly<Record<string, string>>) {
  const search = useSearch(qualifiers);
  const route = useRoute();
  return loadList(
    () => ({ search: search(), span: String(route.query.span ?? ''), fixed: fixed() }),
    (asked, cursor, signal) => {
      const query = { ...toQuery(asked, Date.now()), ...asked.fixed, cursor };
      return read<Page<MessageItem>>('/messages', query, signal);
    },
    ({ id }) => id,
    LOOK_EVERY_MS,
  );
}

interface TableProps {
  list: LoadedList<MessageItem>;
  /** The text of the box that shows the same list. */
  q: string;
}

export const MessageTable = defineComponent(
  (props: TableProps) => {
    const route = useRoute();
    return () => {
      const { list, q } = props;
      const { span } = route.query;
      const query = { ...(q && { q }), ...(span && { span }) };
      return (
        <>
          <Card>
            {() => (
              <ListTable
                caption="Messages, the newest first"
                columns={[
                  {
                    head: 'From and to',
                    isWide: true,
                    cell: (row) => <Ends message={row} query={query} />,
                  },
                  ...columns,
                ]}
                list={list}
                nameOf={({ recipients, id }) => recipients[0] ?? id}
                empty={[
                  'No message matches',
                  list.hasMore.value
                    ? 'None among those that were looked at: look further, or narrow the time.'
                    : 'It never reached this server, or the trace of that time is no longer kept (TRACE_DAYS). Of a client with very many refusals only some are kept.',
                ]}
              />
            )}
          </Card>
          {list.data.value?.length === 0 && list.hasMore.value && (
            <button type="button" class="plain" onClick={() => void list.more()}>
              Look further
            </button>
          )}
        </>
      );
    };
  },
  { props: ['list', 'q'] },
);

/** The messages of a domain, each of which opens beside the list of all. */
export const DomainMessages = defineComponent(
  (props: { domain: string }) => {
    const list = loadMessages(() => ({ domain: props.domain }));
    return () => <MessageTable list={list} q={`domain:${props.domain}`} />;
  },
  { props: ['domain'] },
);

const columns: readonly Column<MessageItem>[] = [
  { head: 'Status', priority: 1, cell: (row) => <StatusOf message={row} /> },
  { head: 'Subject', priority: 3, cell: ({ subject }) => subject ?? '–' },
  {
    head: 'Why',
    isWide: true,
    cell: ({ reason }) => (reason ? <span class="soft">{reason}</span> : '–'),
  },
  {
    head: 'Next attempt',
    priority: 3,
    cell: ({ next_attempt_at: at }) => (at ? <When at={at} /> : '–'),
  },
  {
    head: 'Size',
    priority: 4,
    isNumber: true,
    cell: ({ size }) => formatKnown(size, formatBytes),
  },
  { head: 'Time', cell: ({ at }) => <When at={at} /> },
];

interface EndsProps {
  readonly message: MessageItem;
  readonly query: Readonly<Record<string, unknown>>;
}

function Ends({ message, query }: EndsProps) {
  const { id, sender } = message;
  const to = {
    path: `/messages/${encodeURIComponent(id)}`,
    query: query as Record<string, string>,
  };
  return (
    <>
      <RouterLink to={to}>{() => recipientsOf(message)}</RouterLink>
      {sender !== undefined && (
        <span class="below">from {sender === '' ? 'a bounce' : sender}</span>
      )}
    </>
  );
}

/** `ada@acme.test and 2 more`. */
function recipientsOf({ recipients, recipient_count: count }: MessageItem): string {
  const [first = 'no recipient'] = recipients;
  return count > 1 ? `${first} and ${formatNumber(count - 1)} more` : first;
}

/** The worst first, as the API orders them. */
const worstFirst = ['failed', 'bounced', 'dropped', 'held', 'deferred', 'waiting', 'scheduled'];

/** One word, or the sum of the recipients in the colour of the worst. */
export function StatusOf({ message }: { message: Pick<MessageItem, 'status' | 'counts'> }) {
  const { status, counts } = message;
  if (status !== 'partly') return <State name={status} />;
  const names = Object.keys(counts).toSorted((a, b) => rank(a) - rank(b));
  return (
    <span class="states">
      {names.map((name) => (
        <span key={name}>
          {formatNumber(counts[name] ?? 0)} <State name={name} />
        </span>
      ))}
    </span>
  );
}

function rank(status: string): number {
  const at = worstFirst.indexOf(status);
  return at < 0 ? worstFirst.length : at;
}
