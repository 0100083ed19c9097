/** One domain: what it can do, the health of its DNS records, its accounts, queue, route and usage, and what can be done to it. */
import { TabsContent, TabsList, TabsRoot, TabsTrigger } from 'reka-ui';
import { defineComponent } from 'vue';
import { useRoute, useRouter } from 'vue-router';
import { call, read } from '../api/client.ts';
import { load } from '../api/load.ts';
import type { DomainInfo, DomainPage } from '../api/types.ts';
import { Card, Facts, Failure, Heading, State, When } from '../ui/basics.tsx';
import { Loading } from '../ui/data-table.tsx';
import { formatBytes, formatKnown, formatName, formatNumber } from '../ui/format.ts';
import { ActionMenu } from '../ui/menu.tsx';
import { AccountList } from './accounts.tsx';
import { AuditList } from './audit.tsx';
import { DeliveryList } from './deliveries.tsx';
import { remove, resume, rotateDkim, suspend, verify } from './domain-actions.tsx';
import { CanSend, Health, Receives } from './domain-health.tsx';
import { domainState } from './domains.tsx';
import { DomainMessages } from './message-list.tsx';
import { SuppressionList } from './suppressions.tsx';
import { UsageTable } from './usage.tsx';

const tabs = [
  ['health', 'Health'],
  ['messages', 'Messages'],
  ['accounts', 'Accounts'],
  ['queue', 'Queue'],
  ['suppressions', 'Suppressions'],
  ['route', 'Route'],
  ['usage', 'Usage'],
  ['changes', 'Changes'],
] as const;

export const Domain = defineComponent(() => {
  const route = useRoute();
  const router = useRouter();
  const name = String(route.params.domain);
  const { data, error, reload } = load(
    () => ({ user_id: route.query.user_id as string | undefined }),
    (query, signal) => read<DomainPage>(`/domains/${encodeURIComponent(name)}`, query, signal),
  );
  const tab = () => String(route.query.tab ?? 'health');
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
  const { path } = useRoute();
  const { last_checked_at: last } = domain.checks;
  // Where another screen is open by then, it stays.
  const leave = () => {
    if (router.currentRoute.value.path === path) void router.push('/domains');
  };
  return (
    <>
      <span class="soft">
        {last ? ['checked ', <When at={last} />] : 'not checked yet'}, next{' '}
        <When at={domain.next_check_at} />
      </span>
      <button type="button" class="main" onClick={() => void verify(domain, reload)}>
        Check DNS now
      </button>
      <ActionMenu
        label={`Actions of ${domain.domain}`}
        actions={[
          { label: 'Change DKIM key', run: () => rotateDkim(domain, reload) },
          domain.suspended
            ? { label: 'Resume', run: () => resume(domain, reload) }
            : { label: 'Suspend', isDangerous: true, run: () => suspend(domain, reload) },
          {
            label: 'Delete',
            isDangerous: true,
            run: () => void remove(domain, leave),
          },
        ]}
      />
    </>
  );
}

function Summary({ domain }: { domain: DomainPage }) {
  return (
    <Card>
      {() => (
        <Facts
          isAcross={true}
          facts={[
            ['Receives', <Receives domain={domain} />],
            ['Can send', <CanSend domain={domain} />],
            ['Status', <State name={domainState(domain)} />],
            ...(domain.suspend_reason ? [['Reason', domain.suspend_reason] as const] : []),
            ['User', domain.user_id],
            ['Accounts', formatNumber(domain.accounts)],
            [
              'Stored',
              `${formatKnown(domain.messages)} messages, ${formatKnown(domain.bytes, formatBytes)}`,
            ],
            ['Created', <When at={domain.created_at} />],
          ]}
        />
      )}
    </Card>
  );
}

function Part({ domain, tab }: { domain: DomainPage; tab: string }) {
  if (tab === 'route') return <RouteFacts domain={domain} />;
  if (tab === 'accounts') return <AccountList fixed={{ domain: domain.domain }} />;
  if (tab === 'suppressions') return <SuppressionList domain={domain} />;
  if (tab === 'queue') return <DeliveryList fixed={{ domain: domain.domain }} />;
  if (tab === 'messages') return <DomainMessages domain={domain.domain} />;
  if (tab === 'changes') return <AuditList target={domain.domain} />;
  if (tab === 'usage') return <UsageTable domain={domain.domain} />;
  return <Health domain={domain.domain} records={domain.dns} />;
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
