import type { Bodies } from '../../../bodies/bodies.ts';
import { createSenderChecks } from '../../sender-checks/check-sender.ts';
import { createStaging, type Staging } from '../staging.ts';

/** Staging without DNS: what the checks find is tested where they are. */
export function blindStaging(bodies: Pick<Bodies, 'stage' | 'discard'>): Staging {
  const checks = createSenderChecks({
    lookup: async () => ({ kind: 'unanswered', reason: 'no DNS in this test' }),
    hostname: 'mx.test',
    enforce: true,
  });
  return createStaging({ bodies, checks, hostname: 'mx.test' });
}
