/** Who changed what. */
import { defineComponent } from 'vue';
import { read } from '../api/client.ts';
import { loadList } from '../api/load.ts';
import type { AuditItem, Page } from '../api/types.ts';
import { Card, Heading, When } from '../ui/basics.tsx';
import { formatName, formatNumber } from '../ui/format.ts';
import { ListTable } from '../ui/list-table.tsx';

export const Audit = defineComponent(() => {
  const list = loadList(
    () => '',
    (_none, cursor, signal) => read<Page<AuditItem>>('/audit', { cursor }, signal),
    ({ id }) => id,
  );
  return () => (
    <div class="screen">
      <Heading
        title="Audit"
        lead="Who changed what, with which key. An actor is the start of the SHA-256 of an API key."
      />
      <Card>
        {() => (
          <ListTable
            caption="What was changed, the newest first"
            list={list}
            empty={['Nothing was changed yet', 'Every change by an operator is written here.']}
            columns={[
              { head: 'Action', cell: ({ action }) => <code>{action}</code> },
              { head: 'Time', priority: 1, cell: ({ at }) => <When at={at} exact={true} /> },
              { head: 'What', isWide: true, cell: (row) => <Target item={row} /> },
              { head: 'Actor', cell: ({ actor }) => <code>{actor}</code> },
              { head: 'Node', cell: ({ node }) => node ?? '–' },
            ]}
          />
        )}
      </Card>
    </div>
  );
});

function Target({ item: { target, counts } }: { item: AuditItem }) {
  const figures = Object.entries(counts ?? {}).map(
    ([name, value]) => `${formatNumber(value)} ${formatName(name).toLowerCase()}`,
  );
  return (
    <>
      {target ?? '–'}
      {figures.length > 0 && <span class="below">{figures.join(', ')}</span>}
    </>
  );
}
