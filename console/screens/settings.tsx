/** The settings in force, without secrets. They come from the environment; here they are read. */
import { defineComponent } from 'vue';
import { read } from '../api/client.ts';
import { loadList } from '../api/load.ts';
import type { Page, SettingItem } from '../api/types.ts';
import { Card, Heading } from '../ui/basics.tsx';
import { ListTable } from '../ui/list-table.tsx';

export const Settings = defineComponent(() => {
  const list = loadList(
    () => '',
    (_none, _cursor, signal) => read<Page<SettingItem>>('/settings', {}, signal),
    ({ key }) => key,
  );
  return () => (
    <div class="screen">
      <Heading
        title="Settings"
        lead="The values in force on the node that answered, without secrets. Change them in the environment, and restart the service."
      />
      <Card>
        {() => (
          <ListTable
            caption="Settings"
            list={list}
            empty={['No settings', 'The service returned none.']}
            columns={[
              { head: 'Key', cell: ({ key }) => <code>{key}</code> },
              {
                head: 'Value',
                isWide: true,
                isWrapped: true,
                cell: (row) => <Value setting={row} />,
              },
              { head: 'From', cell: ({ set }) => (set ? 'the environment' : 'its default') },
            ]}
          />
        )}
      </Card>
    </div>
  );
});

function Value({ setting: { value, set, hidden } }: { setting: SettingItem }) {
  if (value !== undefined && value !== '') return <code>{value}</code>;
  return <span class="soft">{hidden && set ? 'hidden' : 'none'}</span>;
}
