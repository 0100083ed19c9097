/** Builds the spam filter, where the operator has one. */
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { createSpamFilter, type SpamFilter } from '../delivery/delivery.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { testNetworks } from '../net/net.ts';

export function buildSpamFilter(
  config: Config,
  metrics: Metrics,
  log: Pick<Logger, 'warn' | 'info'>,
): SpamFilter | undefined {
  const { rspamdUrl: url } = config.senderChecks;
  if (url === undefined) return undefined;
  metrics.setSpamFilterUp(true);
  return createSpamFilter({
    url,
    hostname: config.mailHostname,
    isTrusted: testNetworks(config.smtp.trustedNetworks),
    onChecked: (outcome, ms) => metrics.countSpamCheck(outcome, ms),
    onOutage(isOut, reason) {
      metrics.setSpamFilterUp(!isOut);
      if (isOut) log.warn({ url, reason }, 'Rspamd does not answer: mail is taken without it');
      else log.info({ url }, 'Rspamd answers again: new mail is filtered');
    },
  });
}
