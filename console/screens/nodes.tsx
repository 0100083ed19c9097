/** The processes that share the database. */
import { defineComponent } from 'vue';
import { read } from '../api/client.ts';
import { load } from '../api/load.ts';
import type { NodeItem, Page } from '../api/types.ts';
import { Card, Facts, Failure, Heading } from '../ui/basics.tsx';
import { Loading } from '../ui/data-table.tsx';
import { formatName } from '../ui/format.ts';
import { showValue } from './settings.tsx';

export const Nodes = defineComponent(() => {
  const { data, error, reload } = load(
    () => '',
    (_none, signal) => read<Page<NodeItem>>('/nodes', {}, signal),
  );
  return () => (
    <div class="screen">
      <Heading title="Nodes" lead="The processes of this service that share the database." />
      <Failure error={error.value} retry={() => void reload()} />
      {!data.value && !error.value && <Loading />}
      <div class="columns">
        {data.value?.items.map((node) => (
          <Card key={String(node.id ?? node.host)} title={String(node.host ?? node.id)}>
            {() => (
              <Facts
                facts={Object.entries(node)
                  .filter(([name]) => name !== 'host')
                  .map(([name, value]) => [formatName(name), showValue(value)])}
              />
            )}
          </Card>
        ))}
      </div>
    </div>
  );
});
