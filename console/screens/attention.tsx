/** What needs somebody now, most urgent first. */
import type { FunctionalComponent } from 'vue';
import { RouterLink } from 'vue-router';
import { attention } from '../api/attention.ts';
import type { Attention as Answer, Finding } from '../api/types.ts';
import { Card, type Tone, When } from '../ui/basics.tsx';
import { count, formatClock, formatName } from '../ui/format.ts';
import { Icon, type IconName, State } from '../ui/state.tsx';

/** Lines that are shown at once. */
const LINES = 7;

const looks: Readonly<Record<Finding['level'], readonly [tone: Tone, icon: IconName]>> = {
  critical: ['bad', 'alert'],
  warning: ['wait', 'alert'],
  note: ['plain', 'info'],
};

export const Attention: FunctionalComponent = () => {
  const { data, error } = attention.value ?? {};
  const answer = data?.value;
  return (
    <Card title="Needs attention">
      {() => [
        error?.value && (
          <p class="notice bad" role="alert">
            The checks could not be read
            {answer && ` since ${formatClock(answer.checked_at)}`}: {error.value.message}
          </p>
        ),
        answer && <Findings answer={answer} isOld={error?.value !== undefined} />,
      ]}
    </Card>
  );
};

function Findings({ answer, isOld }: { answer: Answer; isOld: boolean }) {
  const { items, checks, checked_at: at } = answer;
  const shown = items.slice(0, LINES);
  const others = items.slice(LINES);
  const unknown = checks.filter(({ state }) => state === 'unknown');
  const made = `${count(checks.length, 'check')}, the last at ${formatClock(at)}`;
  const isFine = items.length === 0 && unknown.length === 0 && !isOld;
  return (
    <>
      <Lines items={shown} />
      {others.length > 0 && (
        <details>
          <summary>And {others.length} more</summary>
          <Lines items={others} />
        </details>
      )}
      {unknown.length > 0 && (
        <p>
          {count(unknown.length, 'check')} could not be made:{' '}
          {unknown.map(({ name }) => name.replaceAll('_', ' ')).join(', ')}.
        </p>
      )}
      <details class="checks">
        <summary>
          {isFine && [<Icon name="check" />, ' Nothing needs attention. ']}
          {made}
        </summary>
        <ul>
          {checks.map(({ name, state }) => (
            <li key={name}>
              <State name={state} tone={state === 'ok' ? 'good' : 'wait'} /> {formatName(name)}
            </li>
          ))}
        </ul>
      </details>
    </>
  );
}

function Lines({ items }: { items: readonly Finding[] }) {
  return (
    <ul class="findings">
      {items.map(({ name, level, text, advice, since, link }) => {
        const [tone, icon] = looks[level];
        return (
          <li key={name}>
            <span class={['level', tone]}>
              <Icon name={icon} />
              <span class="unseen">{level}: </span>
            </span>
            <div>
              <RouterLink to={link}>{() => text}</RouterLink>
              {advice && <p class="soft">{advice}</p>}
            </div>
            {since && (
              <span class="soft">
                <When at={since} />
              </span>
            )}
          </li>
        );
      })}
    </ul>
  );
}
