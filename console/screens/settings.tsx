/** The settings in force, without secrets. They come from the environment; here they are read. */
import { defineComponent } from 'vue';
import { read } from '../api/client.ts';
import { load } from '../api/load.ts';
import type { Settings as Answer } from '../api/types.ts';
import { Card, Facts, Failure, Heading, When } from '../ui/basics.tsx';
import { Loading } from '../ui/data-table.tsx';

export const Settings = defineComponent(() => {
  const { data, error, reload } = load(
    () => '',
    (_none, signal) => read<Answer>('/settings', {}, signal),
  );
  return () => (
    <div class="screen">
      <Heading
        title="Settings"
        lead="As they are in force, without secrets. They are changed in the environment, and hold after a restart."
      />
      <Failure error={error.value} retry={() => void reload()} />
      {!data.value && !error.value && <Loading />}
      {data.value && (
        <Card>
          {() => (
            <Facts
              facts={Object.entries(data.value ?? {}).map(([name, value]) => [
                name,
                showValue(value),
              ])}
            />
          )}
        </Card>
      )}
    </div>
  );
});

const time = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;

/** Any value of JSON as it is read best. */
export function showValue(value: unknown) {
  if (typeof value === 'string' && time.test(value)) return <When at={value} />;
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (value === null || value === undefined || value === '') return <span class="soft">none</span>;
  return <code>{typeof value === 'object' ? JSON.stringify(value) : String(value)}</code>;
}
