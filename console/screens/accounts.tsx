/** The accounts of all users: who sends, whose mail bounces or waits, and what each stores. */
import { defineComponent } from 'vue';
import { RouterLink, useRoute } from 'vue-router';
import { ApiError, read } from '../api/client.ts';
import { loadList } from '../api/load.ts';
import type { AccountItem, Page } from '../api/types.ts';
import { Card, Heading, State, When } from '../ui/basics.tsx';
import { type Column, isPhone } from '../ui/data-table.tsx';
import { formatBytes, formatKnown, formatNumber, formatShare } from '../ui/format.ts';
import { ListTable } from '../ui/list-table.tsx';
import type { Qualifier, Search } from '../ui/search.ts';
import { SearchBox, useSearch } from '../ui/search-box.tsx';
import { actionsOf } from './account-actions.tsx';

const qualifiers: readonly Qualifier[] = [
  { name: 'domain', hint: 'Its domain', example: 'acme.test' },
  { name: 'user', hint: 'Whose it is', example: 'customer-17' },
];

const SORTED = '-sent_24h';

/** What the API is asked for. @throws ApiError where that is not what was meant */
function queryOf({ terms, words, problem }: Search): Record<string, string> {
  const negative = terms.find(({ isNot }) => isNot);
  const wrong = problem ?? (negative && `-${negative.name}: is not possible here.`);
  if (wrong !== undefined) throw new ApiError(400, 'invalid_request', wrong);
  const found = terms.map(({ name, value }) => [name === 'user' ? 'user_id' : name, value]);
  return { ...Object.fromEntries(found), ...(words.length > 0 && { q: words.join(' ') }) };
}

/** On a phone, where columns have no heads, a number says what it counts, and 0 is left out. */
const amount = (value: number, word: string) =>
  isPhone.value ? (value === 0 ? '–' : `${formatNumber(value)} ${word}`) : formatNumber(value);

const columns: readonly Column<AccountItem>[] = [
  { head: 'Address', isWide: true, sort: 'address', cell: (row) => <AccountName {...row} /> },
  {
    head: 'Sent 24 h',
    priority: 1,
    isNumber: true,
    sort: 'sent_24h',
    cell: ({ sent_24h: sent }) => amount(sent, 'sent'),
  },
  { head: 'Bounced 24 h', isNumber: true, sort: 'bounced_24h', cell: bounced },
  {
    head: 'Received 24 h',
    priority: 3,
    isNumber: true,
    sort: 'received_24h',
    cell: ({ received_24h: received }) => formatNumber(received),
  },
  {
    head: 'Waiting',
    isNumber: true,
    sort: 'waiting',
    cell: ({ waiting }) => amount(waiting, 'wait'),
  },
  { head: 'Stored', isNumber: true, sort: 'quota_used', cell: (row) => <Stored account={row} /> },
  {
    head: 'Last login',
    priority: 4,
    sort: 'last_login_at',
    cell: ({ last_login_at: at }) => (at ? <When at={at} /> : 'Never'),
  },
];

export const Accounts = defineComponent(() => () => (
  <div class="screen">
    <Heading
      title="Accounts"
      lead="The accounts of all users: what each sends, what of it bounces or waits, and what it stores."
    />
    <SearchBox label="Accounts" qualifiers={qualifiers} placeholder="Beginning of an address" />
    <AccountList fixed={{}} />
  </div>
));

/** Accounts that fit the box, and what is given. */
export const AccountList = defineComponent(
  (props: { fixed: Readonly<Record<string, string>> }) => {
    const route = useRoute();
    const search = useSearch(qualifiers);
    const sort = () => (typeof route.query.sort === 'string' ? route.query.sort : SORTED);
    const list = loadList(
      () => ({ search: search(), sort: sort(), fixed: props.fixed }),
      async ({ search: asked, sort: order, fixed }, cursor, signal) => {
        const query = { ...queryOf(asked), ...fixed, sort: order, cursor };
        return read<Page<AccountItem>>('/accounts', query, signal);
      },
      ({ id }) => id,
    );
    return () => (
      <Card>
        {() => (
          <ListTable
            caption="Accounts"
            columns={columns}
            list={list}
            sorted={SORTED}
            nameOf={({ address }) => address}
            actions={(row) => actionsOf(row, list.reload)}
            empty={[
              'No account matches',
              'Products make accounts by POST /v2/email-accounts/create.',
            ]}
          />
        )}
      </Card>
    );
  },
  { props: ['fixed'] },
);

function AccountName({ id, address, user_id, status }: AccountItem) {
  return (
    <>
      <RouterLink to={`/accounts/${id}`}>{() => address}</RouterLink>
      {/* A phone has two lines a row: eight rows are to be seen. */}
      {!isPhone.value && <span class="below">{user_id}</span>}
      {status !== 'active' && [' ', <State name={status} />]}
    </>
  );
}

function bounced({ bounced_24h: count, sent_24h: sent }: AccountItem) {
  if (count === 0) return amount(0, 'bounced');
  const share = sent > 0 && !isPhone.value ? `, ${formatShare(count, sent)}` : '';
  return `${amount(count, 'bounced')}${share}`;
}

/** What is stored; with a quota, how much of it: plain to 80 %, then a warning, from 95 % on bad. */
export function Stored({
  account: { bytes, quota_bytes: quota },
}: {
  account: Pick<AccountItem, 'bytes' | 'quota_bytes'>;
}) {
  if (!quota || bytes === undefined) {
    const stored = formatKnown(bytes, formatBytes);
    return <span>{isPhone.value ? `${stored} stored` : stored}</span>;
  }
  const share = Math.round((100 * bytes) / quota);
  if (isPhone.value) return <span>{`${share} % of ${formatBytes(quota)}`}</span>;
  return (
    <>
      {formatBytes(bytes)} of {formatBytes(quota)}
      <meter
        aria-label="Quota used"
        title={`${share} %`}
        min={0}
        max={quota}
        low={quota * 0.8}
        high={quota * 0.95}
        optimum={0}
        value={bytes}
      >
        {share} %
      </meter>
    </>
  );
}
