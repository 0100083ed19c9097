/** Prepares the listeners for mail that accounts submit by SMTP (RFC 6409, RFC 8314). */
import type { Logger } from 'pino';
import { testNetworks } from '../../platform/net/net.ts';
import {
  type SmtpListener,
  type SmtpOptions,
  type Submission,
  startSmtp,
} from '../../servers/smtp/smtp.ts';
import type { Config } from '../config/config.ts';
import type { Parts } from './parts.ts';

/** A program may write to more people at once than RFC 5321 section 4.5.3.1.8 asks for; the limit of a day still counts. */
const RECIPIENTS_MAX = 500;
/** Milliseconds to wait for a login, in all. */
const LOGIN_MS = 60_000;

/** Lets an account in, and takes its mail as `POST /mail/send` does. */
function submissionOf({ flow: { sending }, tokens }: Parts): Submission {
  return {
    async logIn(given, ip) {
      const access = await (given.kind === 'token'
        ? tokens.authenticate(given.token)
        : tokens.checkMailPassword({ ...given, ip }, 'submission'));
      return sending.submitter(access);
    },
  };
}

/** @returns starts a listener on a port */
export function prepareSubmission(
  config: Config,
  parts: Parts,
  tls: SmtpOptions['tls'],
  logger: Logger,
): (on: Pick<SmtpOptions, 'port' | 'isSecure'>) => Promise<SmtpListener> {
  const { submission, smtp } = config;
  const options = {
    delivery: submissionOf(parts),
    hostname: config.mailHostname,
    host: submission.host,
    protocol: 'smtp' as const,
    trace: parts.trace,
    traffic: parts.metrics.mailTraffic('submission'),
    tls,
    maxMessageBytes: config.limits.maxMessageBytes,
    maxPerIp: smtp.maxPerIp,
    maxConnections: smtp.maxConnections,
    // A program logs in, or is a stranger: nobody is trusted for its address.
    isTrusted: () => false,
    isBalancer: testNetworks(submission.proxyNetworks),
    logger: logger.child({ purpose: 'submission' }),
    limits: { greetingDelay: 0, recipientsMax: RECIPIENTS_MAX, lifetime: LOGIN_MS },
  };
  return (on) => startSmtp({ ...options, ...on });
}
