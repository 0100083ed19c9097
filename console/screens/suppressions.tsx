/** Addresses that a domain's accounts do not write to any more, since mail to them bounced. */
import { defineComponent } from 'vue';
import { call } from '../api/client.ts';
import { asApiError, loadList } from '../api/load.ts';
import type { DomainItem, SuppressionItem } from '../api/types.ts';
import { Card, When } from '../ui/basics.tsx';
import { ListTable } from '../ui/list-table.tsx';
import { say } from '../ui/messages.tsx';

const PAGE = 50;

export const SuppressionList = defineComponent(
  (props: { domain: Pick<DomainItem, 'domain' | 'user_id'> }) => {
    const path = () => `/v2/domains/${encodeURIComponent(props.domain.domain)}/suppressions`;
    const list = loadList(
      () => props.domain,
      async ({ user_id }, cursor, signal) => {
        const offset = Number(cursor ?? 0);
        const query = { user_id, limit: String(PAGE), offset: String(offset) };
        const { items } = await call<{ items: readonly SuppressionItem[] }>('GET', path(), {
          query,
          signal,
        });
        return {
          items,
          limit: PAGE,
          ...(items.length === PAGE && { cursor: String(offset + PAGE) }),
        };
      },
      ({ address }) => address,
    );
    const lift = async (address: string) => {
      try {
        const { user_id } = props.domain;
        await call('POST', `${path()}/delete`, { body: { user_id, address } });
        say(`${address} can be written to again.`);
        await list.reload();
      } catch (error) {
        say(`Nothing was changed: ${asApiError(error).message}`, 'bad');
      }
    };
    return () => (
      <Card>
        {() => (
          <ListTable
            caption="Suppressions"
            list={list}
            columns={[
              { head: 'Address', isWide: true, cell: ({ address }) => address },
              { head: 'Why', isWide: true, cell: ({ detail }) => detail },
              { head: 'Since', cell: ({ created_at: at }) => <When at={at} /> },
            ]}
            nameOf={({ address }) => address}
            actions={({ address }) => [
              { label: 'Lift suppression', run: () => void lift(address) },
            ]}
            empty={['No address is suppressed', 'Addresses come here when mail to them bounces.']}
          />
        )}
      </Card>
    );
  },
  { props: ['domain'] },
);
