/** What needs somebody now, most urgent first. */
import { defineComponent } from 'vue';
import { RouterLink } from 'vue-router';
import { read } from '../api/client.ts';
import { load } from '../api/load.ts';
import type { Attention as Answer, Finding } from '../api/types.ts';
import { Card, State, type Tone, When } from '../ui/basics.tsx';
import { count, formatTime } from '../ui/format.ts';

const EVERY_MS = 15_000;
/** Lines that are shown at once. */
const LINES = 7;

const tones: Readonly<Record<Finding['level'], Tone>> = {
  critical: 'bad',
  warning: 'wait',
  note: 'plain',
};

export const Attention = defineComponent(() => {
  const { data, error } = load(
    () => '',
    (_, signal) => read<Answer>('/attention', {}, signal),
    EVERY_MS,
  );
  return () => (
    <Card title="Needs attention">
      {() => (
        <>
          {error.value && (
            <p role="alert">
              {data.value
                ? `The checks could not be read since ${formatTime(data.value.checked_at)}.`
                : 'The checks could not be read.'}
            </p>
          )}
          {data.value && <Findings answer={data.value} isOld={error.value !== undefined} />}
        </>
      )}
    </Card>
  );
});

function Findings({ answer, isOld }: { answer: Answer; isOld: boolean }) {
  const { items, checks, checked_at: at } = answer;
  const unknown = checks.filter(({ state }) => state === 'unknown');
  const shown = items.slice(0, LINES);
  const others = items.length - shown.length;
  return (
    <>
      {shown.length > 0 && (
        <ul class="findings">
          {shown.map((item) => (
            <li key={item.name}>
              <State name={item.level} tone={tones[item.level]} />{' '}
              <RouterLink to={item.link}>{() => item.text}</RouterLink>
              {item.since && (
                <span class="soft">
                  {' '}
                  <When at={item.since} />
                </span>
              )}
            </li>
          ))}
        </ul>
      )}
      {others > 0 && <p class="soft">And {others} more.</p>}
      {unknown.length > 0 && (
        <p>
          {count(unknown.length, 'check')} could not be made:{' '}
          {unknown.map(({ name }) => name.replaceAll('_', ' ')).join(', ')}.
        </p>
      )}
      {items.length === 0 && unknown.length === 0 && !isOld && (
        <p>
          Nothing needs attention. {count(checks.length, 'check')}, the last at {formatTime(at)}.
        </p>
      )}
    </>
  );
}
