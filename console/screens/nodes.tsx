/** The processes that share the database. */
import { defineComponent } from 'vue';
import { read } from '../api/client.ts';
import { loadList } from '../api/load.ts';
import type { NodeItem, Page } from '../api/types.ts';
import { Card, Heading, State, When } from '../ui/basics.tsx';
import { ListTable } from '../ui/list-table.tsx';

export const Nodes = defineComponent(() => {
  const list = loadList(
    () => '',
    (_none, _cursor, signal) => read<Page<NodeItem>>('/nodes', {}, signal),
    ({ id }) => id,
  );
  return () => (
    <div class="screen">
      <Heading
        title="Nodes"
        lead="The processes of the service, and those of the last day that did not stop normally."
      />
      <Card>
        {() => (
          <ListTable
            caption="Nodes, the newest first"
            list={list}
            empty={['No node is known', 'A node is listed from its first heartbeat on.']}
            columns={[
              { head: 'Host', isWide: true, cell: ({ host, pid }) => `${host}, process ${pid}` },
              {
                head: 'State',
                cell: ({ running }) => (
                  <State name={running ? 'running' : 'gone'} tone={running ? 'good' : 'bad'} />
                ),
              },
              { head: 'Version', cell: ({ version }) => version },
              { head: 'Started', cell: ({ started_at }) => <When at={started_at} /> },
              { head: 'Last heartbeat', cell: ({ seen_at }) => <When at={seen_at} /> },
            ]}
          />
        )}
      </Card>
    </div>
  );
});
