/**
 * For load balancers and supervisors: is the process alive, can it do its work.
 */
import type { Logger } from 'pino';
import { Type } from 'typebox';
import { Refusal } from '../errors/errors.ts';
import { credentials, type RouteGroup } from './server.ts';

/** Whether one thing that the service needs is working; a rejection counts as no. */
export type ReadinessCheck = () => Promise<boolean>;

/** A check that takes longer than this says no. */
const CHECK_TIMEOUT_MS = 5_000;

const Health = Type.Object({ status: Type.String({ examples: ['ok'] }) }, { title: 'Health' });

/**
 * `GET /healthz` and `GET /readyz`.
 *
 * @param checks by the name of the part that they are about, which the answer and the log say
 */
export function healthRoutes(
  checks: Readonly<Record<string, ReadinessCheck>>,
  log: Pick<Logger, 'info' | 'warn'>,
): RouteGroup {
  let said = '';
  const say = (failing: string) => {
    if (failing === said) return;
    said = failing;
    if (failing) log.warn({ failing }, 'not ready: load balancers send no more requests here');
    else log.info('ready again');
  };
  return (app) => {
    app.get(
      '/healthz',
      {
        config: { charge: 'none' },
        schema: {
          tags: ['Service'],
          summary: 'Is the process alive?',
          operationId: 'health',
          security: credentials.none,
          response: { 200: Health },
        },
      },
      () => ({ status: 'ok' }),
    );
    app.get(
      '/readyz',
      {
        config: { charge: 'none', refusals: ['unavailable'] },
        schema: {
          tags: ['Service'],
          summary: 'Can it do its work?',
          description:
            'Ready when the database, the listeners, the bodies and the mail server, where there is one, do their work; else `detail` names those that do not. Not ready from the moment on that the process is told to stop.',
          operationId: 'readiness',
          security: credentials.none,
          response: { 200: Health },
        },
      },
      async () => {
        const verdicts = await Promise.all(
          Object.entries(checks).map(async ([part, check]) =>
            (await passes(check)) ? [] : [part],
          ),
        );
        const failing = verdicts.flat().join(', ');
        say(failing);
        if (failing) throw new Refusal('unavailable', `not ready: ${failing}`);
        return { status: 'ready' };
      },
    );
  };
}

async function passes(check: ReadinessCheck): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, CHECK_TIMEOUT_MS, false);
  });
  try {
    return await Promise.race([check(), late]);
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}
