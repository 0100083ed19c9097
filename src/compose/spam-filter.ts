/** Builds the spam filter, where the operator has one. */
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { createSpamFilter, type SpamFilter } from '../delivery/delivery.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { NetworkTest } from '../net/net.ts';

export interface BuildSpamFilterOptions {
  readonly config: Config;
  /** Whether mail of a client is not asked about. */
  readonly isTrusted: NetworkTest;
  readonly metrics: Metrics;
  readonly log: Pick<Logger, 'warn' | 'info'>;
}

export function buildSpamFilter({
  config,
  isTrusted,
  metrics,
  log,
}: BuildSpamFilterOptions): SpamFilter | undefined {
  const { rspamdUrl: url } = config.senderChecks;
  if (url === undefined) return undefined;
  metrics.setSpamFilterUp(true);
  return createSpamFilter({
    url,
    hostname: config.mailHostname,
    isTrusted,
    onChecked: (outcome, ms) => metrics.countSpamCheck(outcome, ms),
    onOutage(isOut, reason) {
      metrics.setSpamFilterUp(!isOut);
      if (isOut)
        log.warn({ url, reason }, 'Rspamd does not answer: mail is accepted without a spam check');
      else log.info({ url }, 'Rspamd answers again: new mail is checked for spam');
    },
  });
}
