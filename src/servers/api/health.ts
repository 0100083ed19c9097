/**
 * For load balancers and supervisors: whether the process is alive, and can do its work.
 */
import type { Logger } from 'pino';
import { Type } from 'typebox';
import { Refusal } from '../../platform/errors/errors.ts';
import { within } from '../../platform/time/time.ts';
import { credentials, type RouteGroup } from './route-tools.ts';

/**
 * Whether one thing that the service needs works; a rejection counts as no. `degraded`: some of the work waits for it,
 * and the rest continues.
 */
export type ReadinessCheck = () => Promise<boolean | 'degraded'>;

/** A check that takes longer than this has failed. */
const CHECK_TIMEOUT_MS = 5_000;

const Health = Type.Object({ status: Type.String({ examples: ['ok'] }) }, { title: 'Health' });
const Readiness = Type.Object(
  {
    status: Type.Union([Type.Literal('ready'), Type.Literal('degraded')]),
    detail: Type.Optional(Type.String({ description: 'The parts that some work waits for.' })),
  },
  { title: 'Readiness' },
);

/** The check that fails while the service starts or stops, which has log lines of its own. */
const STARTING = 'listeners';

/** `GET /healthz` and `GET /readyz`. @param checks by the name of their part, which is in the answer and the log */
export function healthRoutes(
  checks: Readonly<Record<string, ReadinessCheck>>,
  log: Pick<Logger, 'info' | 'warn'>,
): RouteGroup {
  let said = '';
  const say = (failing: string, degraded: string) => {
    const now = `${failing};${degraded}`;
    if (failing === STARTING || now === said || (said === '' && now === ';')) return;
    said = now;
    if (failing)
      log.warn(
        { failing },
        'not ready: /readyz answers 503, so load balancers send no requests here',
      );
    else if (degraded) log.warn({ degraded }, 'partly ready: the part named in "degraded" waits');
    else log.info('ready again');
  };
  return (app) => {
    app.get('/healthz', {
      config: { charge: 'none' },
      schema: {
        tags: ['Service'],
        summary: 'Is the process alive?',
        operationId: 'health',
        security: credentials.none,
        response: { 200: Health },
      },
      handler: () => ({ status: 'ok' }),
    });
    app.get('/readyz', {
      config: { charge: 'none', refusals: ['unavailable'] },
      schema: {
        tags: ['Service'],
        summary: 'Can it do its work?',
        description:
          'Ready when the database, the listeners, the bodies and the mail server, if there is one, work; else `detail` names those that do not. `degraded` when some of the work waits for a part, such as mail above 64 KiB for a bucket that does not answer, for a folder that cannot be written, or for a full disk. A node whose disk is full is not ready where another one has room. Not ready from the moment when the process is told to stop.',
        operationId: 'readiness',
        security: credentials.none,
        response: { 200: Readiness },
      },
      handler: async () => {
        const verdicts = await Promise.all(
          Object.entries(checks).map(async ([part, check]) => ({ part, is: await verdict(check) })),
        );
        const named = (wanted: false | 'degraded') =>
          verdicts
            .filter(({ is }) => is === wanted)
            .map(({ part }) => part)
            .join(', ');
        const [failing, degraded] = [named(false), named('degraded')];
        say(failing, degraded);
        if (failing) throw new Refusal('unavailable', `not ready: ${failing}`);
        if (degraded) return { status: 'degraded' as const, detail: degraded };
        return { status: 'ready' as const };
      },
    });
  };
}

async function verdict(check: ReadinessCheck): ReturnType<ReadinessCheck> {
  try {
    return await within(check(), CHECK_TIMEOUT_MS, false);
  } catch {
    return false;
  }
}
