import { createSenderChecks, type SenderChecks } from '../check-sender.ts';

/** Sender checks without DNS: what the checks find is tested where they are. */
export function blindChecks(): SenderChecks {
  return createSenderChecks({
    dns: { lookup: async () => ({ kind: 'unanswered', reason: 'no DNS in this test' }) },
    hostname: 'mx.test',
    enforce: true,
  });
}
