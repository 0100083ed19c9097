/**
 * For load balancers and supervisors: is the process alive, can it do its work.
 */
import { Type } from 'typebox';
import { Refusal } from '../errors/errors.ts';
import { credentials, type RouteGroup } from './server.ts';

/** Whether one thing that the service needs is working; a rejection counts as no. */
export type ReadinessCheck = () => Promise<boolean>;

/** A check that takes longer than this says no. */
const CHECK_TIMEOUT_MS = 5_000;

const Health = Type.Object({ status: Type.String({ examples: ['ok'] }) }, { title: 'Health' });

/** `GET /healthz` and `GET /readyz`. */
export function healthRoutes(checks: readonly ReadinessCheck[]): RouteGroup {
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
            'Ready when the database and all listeners answer, and no query came upon a damaged page.',
          operationId: 'readiness',
          security: credentials.none,
          response: { 200: Health },
        },
      },
      async () => {
        const verdicts = await Promise.all(checks.map(passes));
        if (verdicts.includes(false)) throw new Refusal('unavailable', 'not ready yet');
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
