/** The domains of all users. */
import { defineComponent } from 'vue';
import { RouterLink } from 'vue-router';
import { read } from '../api/client.ts';
import { loadList } from '../api/load.ts';
import type { DomainItem, Page } from '../api/types.ts';
import { Card, Heading, State, When } from '../ui/basics.tsx';
import type { Column } from '../ui/data-table.tsx';
import { type Filter, Filters, useFilters } from '../ui/filters.tsx';
import { formatBytes, formatKnown, formatName, formatNumber } from '../ui/format.ts';
import { ListTable } from '../ui/list-table.tsx';
import { verify } from './domain-actions.tsx';
import { CanSend, WrongRecords } from './domain-health.tsx';

const filters: readonly Filter[] = [
  { name: 'q', label: 'Name begins with', placeholder: 'acme' },
  { name: 'user_id', label: 'User' },
  {
    name: 'status',
    label: 'Status',
    options: [
      ['', 'All'],
      ['active', 'Active'],
      ['pending', 'Pending'],
      ['suspended', 'Suspended'],
    ],
  },
  {
    name: 'can_send',
    label: 'Can send',
    options: [
      ['', 'All'],
      ['true', 'Yes'],
      ['false', 'No'],
    ],
  },
  {
    name: 'records_failed',
    label: 'Failed record',
    options: [
      ['', 'All domains'],
      ['any', 'Any'],
      ['mx', 'MX'],
      ['spf', 'SPF'],
      ['dkim', 'DKIM'],
      ['dmarc', 'DMARC'],
    ],
  },
];

/** A domain's state in one word: suspended is said first. */
export const domainState = ({ suspended, status }: DomainItem) =>
  suspended ? 'suspended' : status;

export const Domains = defineComponent(() => {
  const chosen = useFilters(filters.map(({ name }) => name));
  const list = loadList(
    chosen,
    (query, cursor, signal) => read<Page<DomainItem>>('/domains', { ...query, cursor }, signal),
    ({ domain, user_id }) => `${domain} ${user_id}`,
  );
  const columns: readonly Column<DomainItem>[] = [
    { head: 'Domain', isWide: true, cell: (row) => <DomainLink {...row} /> },
    { head: 'Status', cell: (row) => <State name={domainState(row)} /> },
    { head: 'Can send', cell: (row) => <CanSend domain={row} /> },
    { head: 'Wrong in DNS', cell: (row) => <WrongRecords domain={row} /> },
    { head: 'Mail goes to', cell: ({ forward_mode: mode }) => formatName(mode) },
    { head: 'Accounts', isNumber: true, cell: ({ accounts }) => formatNumber(accounts) },
    { head: 'Messages', isNumber: true, cell: ({ messages }) => formatKnown(messages) },
    { head: 'Stored', isNumber: true, cell: ({ bytes }) => formatKnown(bytes, formatBytes) },
    { head: 'Created', cell: ({ created_at }) => <When at={created_at} /> },
    {
      head: 'Actions',
      cell: (row) => (
        <div class="row-actions">
          <button
            type="button"
            class="plain"
            aria-label={`Verify ${row.domain}`}
            onClick={() => void verify(row, list.reload)}
          >
            Verify
          </button>
        </div>
      ),
    },
  ];
  return () => (
    <div class="screen">
      <Heading title="Domains" lead="The domains of all users, with the size of their mailboxes." />
      <Filters filters={filters} label="Domains" />
      <Card>
        {() => (
          <ListTable
            caption="Domains"
            columns={columns}
            list={list}
            empty={['No domain matches', 'Products claim domains by POST /v2/domain.']}
          />
        )}
      </Card>
    </div>
  );
});

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
