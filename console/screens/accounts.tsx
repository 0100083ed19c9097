/** The accounts of all users, with what they hold and may hold. */
import { defineComponent } from 'vue';
import { RouterLink } from 'vue-router';
import type { Step } from '../../src/platform/time/until-done.ts';
import { ApiError, act, read } from '../api/client.ts';
import { loadList } from '../api/load.ts';
import type { AccountItem, Page } from '../api/types.ts';
import { Card, Heading, State, When } from '../ui/basics.tsx';
import type { Column } from '../ui/data-table.tsx';
import { ask } from '../ui/dialogs.tsx';
import { type Filter, Filters, useFilters } from '../ui/filters.tsx';
import { formatBytes, formatKnown } from '../ui/format.ts';
import { ListTable } from '../ui/list-table.tsx';
import { say } from '../ui/messages.tsx';
import { askForAction } from './queue-actions.tsx';

const filters: readonly Filter[] = [
  { name: 'q', label: 'Address begins with', placeholder: 'ada@acme.test' },
  { name: 'domain', label: 'Domain' },
  { name: 'user_id', label: 'User' },
];

export const Accounts = defineComponent(() => () => (
  <div class="screen">
    <Heading title="Accounts" lead="The accounts of all users, with the size of their mailboxes." />
    <Filters filters={filters} label="Accounts" />
    <AccountList fixed={{}} />
  </div>
));

/** Accounts that fit the filters of the address, and those that are given. */
export const AccountList = defineComponent(
  (props: { fixed: Readonly<Record<string, string>> }) => {
    const chosen = useFilters(filters.map(({ name }) => name));
    const list = loadList(
      () => ({ ...chosen(), ...props.fixed }),
      (query, cursor, signal) => read<Page<AccountItem>>('/accounts', { ...query, cursor }, signal),
      ({ id }) => id,
    );
    const columns: readonly Column<AccountItem>[] = [
      { head: 'Address', isWide: true, cell: (row) => <AccountName {...row} /> },
      {
        head: 'Status',
        cell: ({ status }) => <State name={status} />,
      },
      { head: 'Messages', isNumber: true, cell: ({ messages }) => formatKnown(messages) },
      { head: 'Stored', isNumber: true, cell: (row) => <Stored account={row} /> },
      {
        head: 'Last login',
        cell: ({ last_login_at: at }) => (at ? <When at={at} /> : 'not in half a year'),
      },
      { head: 'Actions', cell: (row) => <Actions account={row} reload={list.reload} /> },
    ];
    return () => (
      <Card>
        {() => (
          <ListTable
            caption="Accounts"
            columns={columns}
            list={list}
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

function AccountName({ address, user_id }: AccountItem) {
  return (
    <>
      <RouterLink
        to={{ path: '/messages', query: { q: `account:${address}` } }}
        title="Its messages"
      >
        {() => address}
      </RouterLink>
      <span class="below">{user_id}</span>
    </>
  );
}

/** What is stored; with a quota, how much of it. */
function Stored({ account: { bytes, quota_bytes: quota } }: { account: AccountItem }) {
  if (!quota || bytes === undefined) return <span>{formatKnown(bytes, formatBytes)}</span>;
  const share = Math.round((100 * bytes) / quota);
  return (
    <>
      {formatBytes(bytes)} of {formatBytes(quota)}
      <meter
        aria-label="Quota used"
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

function Actions({ account, reload }: { account: AccountItem; reload: () => Promise<void> }) {
  const { status, address } = account;
  const word = status === 'suspended' ? 'Resume' : 'Suspend';
  return (
    <div class="row-actions">
      <button
        type="button"
        class="plain"
        aria-label={`Quota of ${address}`}
        onClick={() => askForQuota(account, reload)}
      >
        Quota
      </button>
      <button
        type="button"
        class="plain"
        aria-label={`${word} ${address}`}
        onClick={() => change(account, reload)}
      >
        {word}
      </button>
    </div>
  );
}

function change({ id, address, status }: AccountItem, reload: () => Promise<void>): void {
  const suspended = status === 'suspended';
  ask({
    title: `${suspended ? 'Resume' : 'Suspend'} ${address}?`,
    action: suspended ? 'Resume' : 'Suspend',
    isDangerous: !suspended,
    text: () => (
      <p>
        {suspended
          ? 'The account signs in again, and its mail is taken.'
          : 'Its tokens stop at once, its sockets end, and mail for it is deferred. Nothing is lost. Mail that it sent and that still waits goes on: you are asked whether to drop it.'}
      </p>
    ),
    run: async () => {
      await act(`/accounts/${suspended ? 'resume' : 'suspend'}`, { id });
      say(`${address} ${suspended ? 'works again' : 'is suspended'}.`);
      await reload();
      if (suspended) return;
      const sent = { account: address, kind: 'send' };
      const { matched } = await act<Step>('/queue/drop', { ...sent, dry_run: true });
      if (matched > 0) await askForAction('drop', sent, `of ${address}`, reload);
    },
  });
}

const MB = 1_000_000;

function askForQuota({ id, address }: AccountItem, reload: () => Promise<void>): void {
  ask({
    title: `Quota of ${address}`,
    action: 'Set',
    field: { label: 'Megabytes', hint: 'Empty: QUOTA_BYTES. 0: no limit.' },
    text: () => (
      <p>A quota below what is stored removes nothing. Mail that does not fit is deferred.</p>
    ),
    run: async (text) => {
      const bytes = Math.round(Number(text) * MB);
      if (!Number.isSafeInteger(bytes) || bytes < 0) {
        throw new ApiError(0, 'no_number', 'The quota has to be a number of megabytes.');
      }
      await act('/accounts/quota', { id, quota_bytes: text === '' ? null : bytes });
      say(`The quota of ${address} is set.`);
      await reload();
    },
  });
}
