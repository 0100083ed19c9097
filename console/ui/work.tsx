/**
 * Work on many things at once, as strips below the header: how much is done, Stop, and at the end what was done. A strip stays
 * while other screens are opened, until it is put away.
 *
 *     startWork({ title: 'Drop mail of ada@acme.test', matched, done: 'dropped',
 *       step: (next) => act<Step>('/queue/drop', { ...filter, next }), after: list.reload });
 */
import { defineComponent, reactive } from 'vue';
import { type Step, type Sum, untilDone } from '../../src/platform/time/until-done.ts';
import { asApiError } from '../api/load.ts';
import { formatName, formatNumber } from './format.ts';
import { Icon, type IconName } from './state.tsx';

interface Work {
  /** What is done, as a heading: `Retry 336 deliveries to hooks.acme.test`. */
  readonly title: string;
  /** How many were counted before. Infinity: nobody counted them all. */
  readonly matched: number;
  /** How one that was changed is called: `dropped`. */
  readonly done: string;
  /** Why things are left as they are, by the names of the API. */
  readonly left?: Readonly<Record<string, string>>;
  /** Does a part, from where the one before ended; it is called until nothing is left. */
  readonly step: (next: string | undefined) => Promise<Step>;
  /** Called at the end, also after Stop or a failure. */
  readonly after?: () => Promise<void>;
}

interface Strip {
  readonly id: number;
  readonly work: Work;
  changed: number;
  skipped: Sum['skipped'];
  state: 'running' | 'stopping' | 'done' | 'stopped' | 'failed';
  error: string;
}

const strips = reactive<Strip[]>([]);
let lastId = 0;

export function startWork(work: Work): void {
  lastId += 1;
  strips.push({ id: lastId, work, changed: 0, skipped: {}, state: 'running', error: '' });
  const strip = strips.at(-1);
  if (strip) void runToEnd(strip, work);
}

/** Stops all after the step that is under way, and puts their strips away. */
export function endWorks(): void {
  for (const strip of strips.splice(0)) strip.state = 'stopping';
}

async function runToEnd(strip: Strip, { step, after }: Work): Promise<void> {
  try {
    await untilDone(step, ({ changed, skipped }) => {
      strip.changed = changed;
      strip.skipped = skipped;
      return strip.state !== 'stopping';
    });
    strip.state = strip.state === 'stopping' ? 'stopped' : 'done';
  } catch (error) {
    strip.state = 'failed';
    strip.error = asApiError(error).message;
  }
  await after?.();
}

/** What became of it, as a sentence. */
function tell({
  changed,
  skipped,
  state,
  error,
  work: { matched, done, left = {} },
}: Strip): string {
  const so = `${formatNumber(changed)}${matched === Infinity ? '' : ` of ${formatNumber(matched)}`} ${done}`;
  if (state === 'running') return so;
  if (state === 'stopping') return `${so}, stopping…`;
  if (state === 'stopped') return `Stopped: ${so}.`;
  if (state === 'failed') return `${so}, then it failed: ${error}`;
  const whys = Object.entries(skipped).map(
    ([why, count = 0]) => ` ${formatNumber(count)} skipped: ${left[why] ?? formatName(why)}.`,
  );
  return `${so}.${whys.join('')}`;
}

const icons: Readonly<Record<Strip['state'], IconName>> = {
  running: 'loop',
  stopping: 'loop',
  done: 'check',
  stopped: 'slash',
  failed: 'cross',
};

/** All strips; stands once in the page. */
export const Works = defineComponent(() => {
  const putAway = (strip: Strip) => strips.splice(strips.indexOf(strip), 1);
  const stop = (strip: Strip) => {
    strip.state = 'stopping';
  };
  return () => (
    <div class="works">
      {strips.map((strip) => (
        <section key={strip.id} class={['work', strip.state]} aria-label={strip.work.title}>
          <Icon name={icons[strip.state]} />
          <b>{strip.work.title}</b>
          <span role="status">{tell(strip)}</span>
          {strip.state === 'running' && Number.isFinite(strip.work.matched) && (
            <progress max={strip.work.matched} value={strip.changed} aria-label="Done" />
          )}
          {strip.state === 'running' && (
            <button type="button" class="plain" onClick={() => stop(strip)}>
              Stop
            </button>
          )}
          {['done', 'stopped', 'failed'].includes(strip.state) && (
            <button type="button" class="plain" onClick={() => putAway(strip)}>
              Close
            </button>
          )}
        </section>
      ))}
    </div>
  );
});
