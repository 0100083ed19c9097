/** What a domain took, sent and stored, day by day. */
import { defineComponent } from 'vue';
import { read } from '../api/client.ts';
import { loadList } from '../api/load.ts';
import type { Page, UsageItem } from '../api/types.ts';
import { Card } from '../ui/basics.tsx';
import { formatBytes, formatDay, formatNumber } from '../ui/format.ts';
import { ListTable } from '../ui/list-table.tsx';

const DAYS = 30;
const DAY_MS = 86_400_000;
const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10);

export const UsageTable = defineComponent(
  (props: { domain: string }) => {
    const list = loadList(
      () => ({ domain: props.domain, by: 'domain' }),
      (query, cursor, signal) => {
        // At each look: a page that stays open sees the new day.
        const now = Date.now();
        const days = { from: dayOf(now - DAYS * DAY_MS), to: dayOf(now) };
        return read<Page<UsageItem>>('/usage', { ...query, ...days, cursor }, signal);
      },
      ({ day }) => day,
    );
    return () => (
      <Card>
        {() => (
          <ListTable
            caption="Usage by day (UTC)"
            list={list}
            empty={['No mail in the last 30 days', 'Usage is counted by day (UTC).']}
            columns={[
              { head: 'Day', cell: ({ day }) => formatDay(day) },
              { head: 'Messages in', isNumber: true, cell: (row) => formatNumber(row.messages_in) },
              { head: 'Bytes in', isNumber: true, cell: (row) => formatBytes(row.bytes_in) },
              {
                head: 'Messages out',
                isNumber: true,
                cell: (row) => formatNumber(row.messages_out),
              },
              { head: 'Bytes out', isNumber: true, cell: (row) => formatBytes(row.bytes_out) },
              {
                head: 'Stored',
                isNumber: true,
                cell: ({ stored_bytes: stored }) =>
                  stored === undefined ? '–' : formatBytes(stored),
              },
            ]}
          />
        )}
      </Card>
    );
  },
  { props: ['domain'] },
);
