import {
  createSenderChecks,
  type SenderChecks,
} from '../../../src/mail/delivery/sender-checks/check-sender.ts';

/** Sender checks without DNS: the results of the checks have tests of their own. */
export function blindChecks(): SenderChecks {
  return createSenderChecks({
    dns: { lookup: async () => ({ kind: 'unanswered', reason: 'no DNS in this test' }) },
    hostname: 'mx.test',
    enforce: true,
  });
}
