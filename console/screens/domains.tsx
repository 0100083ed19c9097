/** The domains of all users: whether each receives and can send, and what DNS lacks. */
import { defineComponent } from 'vue';
import { RouterLink } from 'vue-router';
import { ApiError, read } from '../api/client.ts';
import { loadList } from '../api/load.ts';
import type { DomainItem, Page } from '../api/types.ts';
import { Card, Heading, When } from '../ui/basics.tsx';
import { type Column, isPhone } from '../ui/data-table.tsx';
import { formatBytes, formatKnown, formatNumber, formatShare } from '../ui/format.ts';
import { type Chosen, ListTable } from '../ui/list-table.tsx';
import type { Qualifier, Search } from '../ui/search.ts';
import { SearchBox, useSearch } from '../ui/search-box.tsx';
import { checkAll, resume, resumeAll, suspend, suspendAll, verify } from './domain-actions.tsx';
import { CanSend, DnsWords, Receives } from './domain-health.tsx';

const qualifiers: readonly Qualifier[] = [
  { name: 'user', hint: 'Whose it is', example: 'customer-17' },
  {
    name: 'can',
    hint: 'What it can; -can:send finds those that cannot',
    example: 'send',
    values: ['send', 'receive'],
  },
  {
    name: 'dns',
    hint: 'A record that failed',
    example: 'dkim',
    values: ['any', 'mx', 'spf', 'dkim', 'dmarc'],
  },
  {
    name: 'status',
    hint: 'Its status',
    example: 'active',
    values: ['active', 'pending', 'suspended'],
  },
  {
    name: 'route',
    hint: 'What happens to its mail',
    example: 'webhook',
    values: ['store', 'webhook', 'webhook_then_store', 'forward_email'],
  },
];

const chips = [
  ['All', ''],
  ['Cannot send', '-can:send status:active'],
  ['Cannot receive', '-can:receive status:active'],
  ['Failed in DNS', 'dns:any'],
  ['Pending', 'status:pending'],
  ['Suspended', 'status:suspended'],
] as const;

const parameters: Readonly<Record<string, string>> = {
  dns: 'records_failed',
  user: 'user_id',
  route: 'forward_mode',
};

/** What the API is asked for. @throws ApiError where that is not what was meant */
function queryOf({ terms, words, problem }: Search): Record<string, string> {
  const negative = terms.find(({ name, isNot }) => isNot && name !== 'can');
  const wrong = problem ?? (negative && `-${negative.name}: is not possible here.`);
  if (wrong !== undefined) throw new ApiError(400, 'invalid_request', wrong);
  const found = terms.map(({ name, value, isNot }): [string, string] => {
    if (name === 'can') return [`can_${value}`, String(!isNot)];
    return [parameters[name] ?? name, value];
  });
  return { ...Object.fromEntries(found), ...(words.length > 0 && { q: words.join(' ') }) };
}

/** A domain's state in one word: suspended is said first. */
export const domainState = ({ suspended, status }: DomainItem) =>
  suspended ? 'suspended' : status;

const columns: readonly Column<DomainItem>[] = [
  { head: 'Domain', isWide: true, cell: (row) => <DomainLink {...row} /> },
  { head: 'Receives', priority: 1, cell: (row) => <Receives domain={row} /> },
  { head: 'Can send', priority: 1, cell: (row) => <CanSend domain={row} /> },
  { head: 'DNS', cell: dnsCell },
  {
    head: 'In',
    priority: 3,
    isNumber: true,
    cell: ({ received_24h: count }) => formatNumber(count),
  },
  { head: 'Out', priority: 3, isNumber: true, cell: ({ sent_24h: n }) => formatNumber(n) },
  {
    head: 'Bounced',
    priority: 3,
    isNumber: true,
    cell: bouncedCell,
  },
  { head: 'Waiting', isNumber: true, cell: waitingCell },
  { head: 'Accounts', priority: 4, isNumber: true, cell: accountsCell },
];

export const Domains = defineComponent(() => {
  const search = useSearch(qualifiers);
  const keyOf = ({ domain, user_id }: DomainItem) => `${domain} ${user_id}`;
  const list = loadList(
    search,
    async (asked, cursor, signal) =>
      read<Page<DomainItem>>('/domains', { sort: 'trouble', ...queryOf(asked), cursor }, signal),
    keyOf,
  );
  const bulk = ({ keys, clear }: Chosen) => {
    const rows = (list.data.value ?? []).filter((row) => keys.includes(keyOf(row)));
    const suspended = rows.filter((row) => row.suspended);
    const others = rows.filter((row) => !row.suspended);
    const done = async () => {
      clear();
      await list.reload();
    };
    return [
      { label: 'Check DNS now', run: () => checkAll(rows, done) },
      ...(suspended.length > 0 ? [{ label: 'Resume', run: () => resumeAll(suspended, done) }] : []),
      ...(others.length > 0
        ? [{ label: 'Suspend', isDangerous: true, run: () => suspendAll(others, done) }]
        : []),
    ];
  };
  const actions = (row: DomainItem) => [
    { label: 'Check DNS now', run: () => void verify(row, list.reload) },
    row.suspended
      ? { label: 'Resume', run: () => resume(row, list.reload) }
      : { label: 'Suspend', isDangerous: true, run: () => suspend(row, list.reload) },
  ];
  return () => (
    <div class="screen">
      <Heading
        title="Domains"
        lead="The domains of all users: what each can do, what DNS lacks, and its mail of the last 24 hours."
      />
      <SearchBox
        label="Domains"
        qualifiers={qualifiers}
        placeholder="Beginning of a domain's name"
        chips={chips}
      />
      <Card>
        {() => (
          <ListTable
            caption="Domains"
            columns={columns}
            list={list}
            nameOf={({ domain }) => domain}
            actions={actions}
            bulk={bulk}
            empty={['No domain matches', 'Products claim domains by POST /v2/domain.']}
          />
        )}
      </Card>
    </div>
  );
});

/** What waits; on a phone, where columns have no heads, it says so, and 0 is left out. */
function waitingCell({ domain, waiting }: DomainItem) {
  if (waiting === 0) return isPhone.value ? '–' : '0';
  return (
    <RouterLink to={{ path: '/queue', query: { q: `domain:${domain}` } }}>
      {() => `${formatNumber(waiting)}${isPhone.value ? ' wait' : ''}`}
    </RouterLink>
  );
}

/** The records, and below them when they are looked at again. */
function dnsCell(row: DomainItem) {
  return (
    <>
      <DnsWords domain={row} />
      {!isPhone.value && (
        <span class="below">
          next check <When at={row.next_check_at} />
        </span>
      )}
    </>
  );
}

function bouncedCell({ bounced_24h: bounced, sent_24h: sent }: DomainItem) {
  if (bounced === 0) return '0';
  return (
    <>
      {formatNumber(bounced)}
      <span class="below">{formatShare(bounced, sent)}</span>
    </>
  );
}

/** How many accounts it has, and below that how much they store. */
function accountsCell({ accounts, bytes }: DomainItem) {
  return (
    <>
      {formatNumber(accounts)}
      <span class="below">{formatKnown(bytes, formatBytes)}</span>
    </>
  );
}

function DomainLink({ domain, user_id }: Pick<DomainItem, 'domain' | 'user_id'>) {
  return (
    <>
      <RouterLink to={{ path: `/domains/${domain}`, query: { user_id } }}>
        {() => domain}
      </RouterLink>
      <span class="below">{user_id}</span>
    </>
  );
}
