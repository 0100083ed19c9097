/** One domain: its DNS records, route, accounts, deliveries and usage, and what can be done to it. */
import { TabsContent, TabsList, TabsRoot, TabsTrigger } from 'reka-ui';
import { defineComponent } from 'vue';
import { useRoute, useRouter } from 'vue-router';
import { call, read } from '../api/client.ts';
import { load } from '../api/load.ts';
import type { DnsRecord, DomainInfo, DomainPage } from '../api/types.ts';
import { Card, Copyable, Facts, Failure, Heading, State, When } from '../ui/basics.tsx';
import { DataTable, Loading } from '../ui/data-table.tsx';
import { formatBytes, formatKnown, formatName, formatNumber } from '../ui/format.ts';
import { AccountList } from './accounts.tsx';
import { DeliveryList } from './deliveries.tsx';
import { remove, resume, rotateDkim, suspend, verify } from './domain-actions.tsx';
import { CanSend, isMissing, RecordState } from './domain-health.tsx';
import { domainState } from './domains.tsx';
import { UsageTable } from './usage.tsx';

const tabs = [
  ['records', 'DNS records'],
  ['route', 'Route'],
  ['accounts', 'Accounts'],
  ['deliveries', 'Deliveries'],
  ['usage', 'Usage'],
] as const;

export const Domain = defineComponent(() => {
  const route = useRoute();
  const router = useRouter();
  const name = String(route.params.domain);
  const { data, error, reload } = load(
    () => ({ user_id: route.query.user_id as string | undefined }),
    (query, signal) => read<DomainPage>(`/domains/${encodeURIComponent(name)}`, query, signal),
  );
  const tab = () => String(route.query.tab ?? 'records');
  const open = (value: string | number) =>
    void router.replace({ query: { ...route.query, tab: String(value) } });
  return () => (
    <div class="screen">
      <Heading title={name}>
        {() => data.value && <Actions domain={data.value} reload={reload} />}
      </Heading>
      <Failure error={error.value} retry={() => void reload()} />
      {!data.value && !error.value && <Loading />}
      {data.value && [
        <Summary domain={data.value} />,
        <TabsRoot modelValue={tab()} onUpdate:modelValue={open}>
          {() => [
            <TabsList class="tabs" aria-label={`Parts of ${name}`}>
              {() =>
                tabs.map(([value, label]) => (
                  <TabsTrigger key={value} value={value}>
                    {() => label}
                  </TabsTrigger>
                ))
              }
            </TabsList>,
            <TabsContent value={tab()} key={tab()}>
              {() => data.value && <Part domain={data.value} tab={tab()} />}
            </TabsContent>,
          ]}
        </TabsRoot>,
      ]}
    </div>
  );
});

function Actions({ domain, reload }: { domain: DomainPage; reload: () => Promise<void> }) {
  const router = useRouter();
  return (
    <>
      <button type="button" class="main" onClick={() => void verify(domain, reload)}>
        Verify
      </button>
      <button type="button" class="plain" onClick={() => rotateDkim(domain, reload)}>
        Change DKIM key
      </button>
      {domain.suspended ? (
        <button type="button" class="plain" onClick={() => resume(domain, reload)}>
          Resume
        </button>
      ) : (
        <button type="button" class="plain" onClick={() => suspend(domain, reload)}>
          Suspend
        </button>
      )}
      <button
        type="button"
        class="danger"
        onClick={() => void remove(domain, () => void router.push('/domains'))}
      >
        Delete
      </button>
    </>
  );
}

function Summary({ domain }: { domain: DomainPage }) {
  const state = domainState(domain);
  return (
    <Card>
      {() => (
        <Facts
          isAcross={true}
          facts={[
            ['Status', <State name={state} />],
            ['Can send', <CanSend domain={domain} />],
            ...(domain.suspend_reason ? [['Reason', domain.suspend_reason] as const] : []),
            ['User', domain.user_id],
            ['Accounts', formatNumber(domain.accounts)],
            [
              'Stored',
              `${formatKnown(domain.messages)} messages, ${formatKnown(domain.bytes, formatBytes)}`,
            ],
            ['Created', <When at={domain.created_at} />],
            ['Verified', <When at={domain.verified_at} />],
            ['Next check', <When at={domain.next_check_at} />],
          ]}
        />
      )}
    </Card>
  );
}

function Part({ domain, tab }: { domain: DomainPage; tab: string }) {
  if (tab === 'route') return <RouteFacts domain={domain} />;
  if (tab === 'accounts') return <AccountList fixed={{ domain: domain.domain }} />;
  if (tab === 'deliveries') return <DeliveryList fixed={{ domain: domain.domain }} />;
  if (tab === 'usage') return <UsageTable domain={domain.domain} />;
  return <Records records={domain.dns} />;
}

function Records({ records }: { records: readonly DnsRecord[] }) {
  return (
    <Card>
      {() => (
        <DataTable
          caption="DNS records"
          rows={records}
          keyOf={({ id }) => id}
          columns={[
            { head: 'Type', cell: ({ record_type }) => record_type },
            { head: 'Host', cell: ({ host }) => <code>{host}</code> },
            { head: 'Priority', isNumber: true, cell: ({ priority }) => priority ?? '–' },
            { head: 'To publish', isWide: true, cell: (row) => <RecordValue record={row} /> },
            { head: 'Status', cell: (row) => <RecordState record={row} /> },
          ]}
        />
      )}
    </Card>
  );
}

function RecordValue({ record }: { record: DnsRecord }) {
  const { expected_value: expected, observed_value: observed, detail } = record;
  return (
    <>
      <Copyable text={expected} name={`the ${record.record_type} record of ${record.host}`} />
      {observed !== undefined && (record.status !== 'verified' || isMissing(record)) && (
        <span class="below">
          Seen in DNS: <code>{observed}</code>
        </span>
      )}
      {detail && <span class="below">{detail}</span>}
    </>
  );
}

/** The route with its addresses, which the list does not have. */
const RouteFacts = defineComponent(
  (props: { domain: DomainPage }) => {
    const { data, error } = load(
      () => props.domain,
      ({ domain, user_id }, signal) =>
        call<DomainInfo>('GET', `/v2/domains/${encodeURIComponent(domain)}/info`, {
          query: { user_id },
          signal,
        }),
    );
    return () => {
      const route = data.value?.route;
      return (
        <Card>
          {() => [
            <Failure error={error.value} />,
            route && (
              <Facts
                facts={[
                  ['Mail goes to', formatName(route.forward_mode)],
                  ...fact('Webhook', route.webhook_url),
                  ...fact('Forwarded to', route.forward_to_email),
                ]}
              />
            ),
          ]}
        </Card>
      );
    };
  },
  { props: ['domain'] },
);

/** A value of the route, where it has one. */
function fact(name: string, value: string | undefined) {
  return value ? [[name, <code>{value}</code>] as const] : [];
}
