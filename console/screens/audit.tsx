/** Who changed what. */
import { defineComponent } from 'vue';
import { read } from '../api/client.ts';
import { loadList } from '../api/load.ts';
import type { AuditItem, Page } from '../api/types.ts';
import { Card, Heading, When } from '../ui/basics.tsx';
import { formatName, formatNumber } from '../ui/format.ts';
import { ListTable } from '../ui/list-table.tsx';

export const Audit = defineComponent(() => () => (
  <div class="screen">
    <Heading
      title="Audit"
      lead="Who changed what, with which key. An actor is the start of the SHA-256 of an API key."
    />
    <AuditList />
  </div>
));

/** What was changed, or only what was done to one thing. */
export const AuditList = defineComponent(
  (props: { target?: string }) => {
    const list = loadList(
      () => props.target,
      (target, cursor, signal) => read<Page<AuditItem>>('/audit', { target, cursor }, signal),
      ({ id }) => id,
    );
    return () => (
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
    );
  },
  { props: ['target'] },
);

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
