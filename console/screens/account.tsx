/** One account: what it sends and gets, where to, why its mail waits, its mail programs, who signed in, and what can be done to it. */
import { defineComponent } from 'vue';
import { RouterLink, useRoute } from 'vue-router';
import { read } from '../api/client.ts';
import { load } from '../api/load.ts';
import type { AccountPage, AccountSpan } from '../api/types.ts';
import { Card, Empty, Facts, Failure, Heading, State, When } from '../ui/basics.tsx';
import { Chart } from '../ui/chart.tsx';
import { DataTable, Loading } from '../ui/data-table.tsx';
import {
  describeError,
  formatCompact,
  formatKnown,
  formatNumber,
  formatShare,
} from '../ui/format.ts';
import { ActionMenu } from '../ui/menu.tsx';
import { actionsOf, suspend } from './account-actions.tsx';
import { Programs } from './account-programs.tsx';
import { Stored } from './accounts.tsx';
import { mailWithin } from './links.ts';

const EVERY_MS = 60_000;

export const Account = defineComponent(() => {
  const route = useRoute();
  const { data, error, reload, at } = load(
    () => String(route.params.id),
    (id, signal) => read<AccountPage>(`/accounts/${encodeURIComponent(id)}`, {}, signal),
    EVERY_MS,
  );
  return () => {
    const account = data.value;
    return (
      <div class="screen">
        <Heading title={account?.address ?? 'Account'}>
          {() => account && <Actions account={account} reload={reload} />}
        </Heading>
        <Failure error={error.value} since={account && at.value} retry={() => void reload()} />
        {!account && !error.value && <Loading />}
        {account && <Parts account={account} />}
      </div>
    );
  };
});

function Actions({ account, reload }: { account: AccountPage; reload: () => Promise<void> }) {
  return (
    <>
      {account.status !== 'suspended' && (
        <button type="button" class="danger" onClick={() => void suspend(account, reload)}>
          Suspend
        </button>
      )}
      <ActionMenu label={`Actions of ${account.address}`} actions={actionsOf(account, reload)} />
    </>
  );
}

function Parts({ account }: { account: AccountPage }) {
  return (
    <>
      <Card>{() => <Facts isAcross={true} facts={factsOf(account)} />}</Card>
      <div class="charts">
        <Mail title="By hour" spans={account.hours} address={account.address} />
        <Mail title="By day (UTC)" spans={account.days} address={account.address} />
      </div>
      <Waiting account={account} />
      <Receivers account={account} />
      <Programs account={account} />
      <SignIns account={account} />
    </>
  );
}

function factsOf(account: AccountPage): (readonly [string, unknown])[] {
  const { user_id, domain, sent_24h: sent, bounced_24h: bounced } = account;
  const share = sent > 0 ? ` (${formatShare(bounced, sent)})` : '';
  return [
    ['Status', <State name={account.status} />],
    ['User', user_id],
    [
      'Domain',
      <RouterLink to={{ path: `/domains/${domain}`, query: { user_id } }}>
        {() => domain}
      </RouterLink>,
    ],
    ['Sent in 24 h', formatNumber(sent)],
    ['Bounced in 24 h', `${formatNumber(bounced)}${share}`],
    ['Received in 24 h', formatNumber(account.received_24h)],
    ['Beyond its limit', formatNumber(account.refused_24h)],
    [
      'Messages',
      <RouterLink to={{ path: '/messages', query: { q: `account:${account.address}` } }}>
        {() => `${formatKnown(account.messages)} stored`}
      </RouterLink>,
    ],
    ['Stored', <Stored account={account} />],
    ['Last login', account.last_login_at ? <When at={account.last_login_at} /> : 'Never'],
    ['Created', <When at={account.created_at} />],
  ];
}

interface MailProps {
  readonly title: string;
  readonly spans: readonly AccountSpan[];
  readonly address: string;
}

function Mail({ title, spans, address }: MailProps) {
  const start = Date.parse(spans[0]?.at ?? '') || Date.now();
  const mail = (terms: string) => mailWithin(start, Date.now(), terms);
  const series = [
    {
      name: 'Sent',
      values: spans.map(({ sent }) => sent),
      link: mail(`from:${address} dir:out`),
    },
    {
      name: 'Received',
      values: spans.map(({ received }) => received),
      link: mail(`to:${address}`),
    },
    {
      name: 'Bounced',
      values: spans.map(({ bounced }) => bounced),
      link: mail(`from:${address} is:bounced`),
      colour: '--bad',
    },
  ];
  const times = spans.map(({ at }) => Date.parse(at) / 1000);
  return (
    <Chart title={title} kind="columns" times={times} series={series} format={formatCompact} />
  );
}

function Waiting({
  account: { address, waiting, waiting_reasons: reasons },
}: {
  account: AccountPage;
}) {
  const all = { path: '/queue', query: { q: `account:${address}` } };
  return (
    <Card title="Waiting by reason">
      {{
        actions: () =>
          waiting > 0 && <RouterLink to={all}>{() => `All ${formatNumber(waiting)}`}</RouterLink>,
        default: () =>
          reasons.length === 0 ? (
            <Empty title="Nothing waits">{() => 'All that it sent has ended.'}</Empty>
          ) : (
            <DataTable
              caption="Waiting by reason"
              rows={reasons}
              keyOf={({ status, destination, last_error: reason }) =>
                `${status} ${destination} ${reason ? describeError(reason) : ''}`
              }
              columns={[
                {
                  head: 'Receiver',
                  cell: ({ destination }) => (
                    <RouterLink
                      to={{
                        path: '/queue/deliveries',
                        query: { q: `to:${destination} account:${address}` },
                      }}
                    >
                      {() => destination}
                    </RouterLink>
                  ),
                },
                {
                  head: 'Waiting',
                  priority: 1,
                  isNumber: true,
                  cell: ({ count }) => formatNumber(count),
                },
                { head: 'Status', cell: ({ status }) => <State name={status} /> },
                { head: 'Oldest', cell: ({ oldest_at: at }) => <When at={at} /> },
                {
                  head: 'Reason',
                  isWide: true,
                  cell: ({ last_error: reason }) => (
                    <span class="soft">{reason ? describeError(reason) : 'Not tried yet'}</span>
                  ),
                },
              ]}
            />
          ),
      }}
    </Card>
  );
}

function Receivers({ account: { receivers } }: { account: AccountPage }) {
  return (
    <Card title="Where it writes to, in 7 days">
      {() =>
        receivers.length === 0 ? (
          <Empty title="It wrote to nobody">{() => 'Its newest 5,000 recipients count.'}</Empty>
        ) : (
          <DataTable
            caption="Where it writes to"
            rows={receivers}
            keyOf={({ domain }) => domain}
            columns={[
              { head: 'Domain', isWide: true, cell: ({ domain }) => domain },
              {
                head: 'Recipients',
                priority: 1,
                isNumber: true,
                cell: ({ recipients }) => formatNumber(recipients),
              },
              {
                head: 'Bounced',
                isNumber: true,
                cell: ({ bounced, recipients }) =>
                  bounced === 0
                    ? '–'
                    : `${formatNumber(bounced)}, ${formatShare(bounced, recipients)}`,
              },
            ]}
          />
        )
      }
    </Card>
  );
}

function SignIns({ account: { sign_ins: signIns } }: { account: AccountPage }) {
  return (
    <Card title="Sign-ins with its password">
      {() =>
        signIns.length === 0 ? (
          <Empty title="Nobody signed in">{() => 'Sign-ins of half a year are kept.'}</Empty>
        ) : (
          <DataTable
            caption="Sign-ins with its password"
            rows={signIns}
            keyOf={({ client }) => client}
            columns={[
              { head: 'Client', isWide: true, cell: ({ client }) => <code>{client}</code> },
              { head: 'Last', priority: 1, cell: ({ at }) => <When at={at} /> },
            ]}
          />
        )
      }
    </Card>
  );
}
