/** One row for a message: what became of it, found by one box. */
import { defineComponent, watch } from 'vue';
import { RouterLink, useRoute, useRouter } from 'vue-router';
import { read } from '../api/client.ts';
import { loadList } from '../api/load.ts';
import type { MessageItem, Page } from '../api/types.ts';
import { Card, Heading, State, When } from '../ui/basics.tsx';
import type { Column } from '../ui/data-table.tsx';
import { formatNumber } from '../ui/format.ts';
import { ListTable } from '../ui/list-table.tsx';
import { SearchBox, useSearch } from '../ui/search-box.tsx';
import { isMessageId, qualifiers, spans, toQuery } from './message-search.ts';

const LOOK_EVERY_MS = 15_000;

const chips = [
  ['All', ''],
  ['Problems', 'is:deferred,held,bounced,failed'],
  ['Waiting', 'is:waiting,deferred,scheduled,held'],
  ['Bounced', 'is:bounced'],
  ['Refused', 'is:refused'],
] as const;

export const Messages = defineComponent(() => {
  const search = useSearch(qualifiers);
  const route = useRoute();
  const router = useRouter();
  // An id is of one message.
  watch(
    () => search().words.find(isMessageId),
    (id) => id && void router.replace(`/messages/${id}`),
    { immediate: true },
  );
  const input = () => ({ search: search(), span: String(route.query.span ?? '') });
  const list = loadList(
    input,
    (asked, cursor, signal) =>
      read<Page<MessageItem>>('/messages', { ...toQuery(asked, Date.now()), cursor }, signal),
    ({ id }) => id,
    LOOK_EVERY_MS,
  );
  const columns: readonly Column<MessageItem>[] = [
    { head: 'From and to', isWide: true, cell: (row) => <Ends message={row} /> },
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
    { head: 'Time', cell: ({ at }) => <When at={at} /> },
  ];
  return () => (
    <div class="screen">
      <Heading
        title="Messages"
        lead="Every message that came in, was refused or went out, and what became of it."
      />
      <SearchBox
        label="Messages"
        qualifiers={qualifiers}
        placeholder="Address, domain, id or Message-ID"
        chips={chips}
      >
        {() => <SpanChoice />}
      </SearchBox>
      <Card>
        {() => (
          <ListTable
            caption="Messages, the newest first"
            columns={columns}
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
    </div>
  );
});

function Ends({ message }: { message: MessageItem }) {
  const { id, sender, recipients, recipient_count: count } = message;
  const [first = 'no recipient'] = recipients;
  const more = count > 1 ? ` and ${formatNumber(count - 1)} more` : '';
  return (
    <>
      <RouterLink to={`/messages/${encodeURIComponent(id)}`}>{() => `${first}${more}`}</RouterLink>
      {sender !== undefined && (
        <span class="below">from {sender === '' ? 'a bounce' : sender}</span>
      )}
    </>
  );
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

/** The time that is looked at, beside the box. */
function SpanChoice() {
  const route = useRoute();
  const router = useRouter();
  const choose = (event: Event) => {
    const span = (event.target as HTMLSelectElement).value;
    const { span: _before, ...others } = route.query;
    void router.replace({ query: span === '' ? others : { ...others, span } });
  };
  return (
    <label>
      <span class="unseen">Time</span>
      <select value={String(route.query.span ?? '')} onChange={choose}>
        {spans.map(([name, label]) => (
          <option key={name} value={name}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}
