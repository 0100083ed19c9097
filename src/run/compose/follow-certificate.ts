/** Reads the certificate of STARTTLS again when its files change, so that a renewal needs no restart. */
import { X509Certificate } from 'node:crypto';
import type { Logger } from 'pino';
import { Repeat } from '../../platform/time/time.ts';
import type { Metrics } from '../../servers/metrics/metrics.ts';
import {
  type Certificate,
  type CertificateOptions,
  ConfigError,
  loadCertificate,
} from '../config/config.ts';

/** An ACME client renews weeks before the end, so a minute is soon enough. */
const LOOK_EVERY_MS = 60_000;

export interface FollowOptions extends CertificateOptions {
  readonly metrics: Pick<Metrics, 'setCertificateEnd' | 'setCertificateBroken'>;
  readonly logger: Pick<Logger, 'info' | 'warn' | 'error'>;
  /** Milliseconds between two checks of the files; a minute by default. */
  readonly everyMs?: number;
}

export interface FollowedCertificate {
  readonly certificate: Certificate;
  /** Called with each new certificate from now on. */
  follow(use: (certificate: Certificate) => void): void;
  stop(): void;
}

/**
 * Loads the certificate, and reads it again every minute. If the files have no usable one, the current one stays in
 * use, and a log line and a metric say so. A half-written one is read at the next check.
 *
 * @throws ConfigError where there is none at the start
 */
export async function followCertificate(options: FollowOptions): Promise<FollowedCertificate> {
  const { metrics, logger, everyMs = LOOK_EVERY_MS } = options;
  const certificate = await loadCertificate(options);
  let used = certificate;
  let lastProblem = '';
  let use: (certificate: Certificate) => void = () => {};
  const warnOfEnd = ({ cert }: Certificate) => {
    const { validTo: until, validToDate } = new X509Certificate(cert);
    if (validToDate.getTime() < Date.now()) {
      logger.warn(
        { until },
        'the certificate has ended: mail programs and some mail servers refuse it until TLS_CERT has a new one',
      );
    }
  };
  const tellMetrics = () => {
    metrics.setCertificateEnd(new X509Certificate(used.cert).validToDate);
    metrics.setCertificateBroken(false);
  };
  tellMetrics();
  warnOfEnd(used);
  const look = async () => {
    try {
      const found = await loadCertificate(options);
      lastProblem = '';
      if (found.cert !== used.cert || found.key !== used.key) {
        use(found);
        used = found;
        const until = new X509Certificate(found.cert).validTo;
        logger.info({ until }, 'the certificate files changed: STARTTLS uses the new certificate');
        warnOfEnd(found);
      }
      tellMetrics();
    } catch (err) {
      metrics.setCertificateBroken(true);
      const problem = err instanceof ConfigError ? err.message : String(err);
      if (problem !== lastProblem) {
        logger.error({ err }, 'the changed certificate cannot be read: the old one stays in use');
      }
      lastProblem = problem;
    }
  };
  const looks = new Repeat({ everyMs, task: look });
  // Our own, where no file is given, is valid for ten years.
  if (options.cert) looks.start();
  return {
    certificate,
    follow(listener) {
      use = listener;
      // The files changed since the start of this process.
      if (used !== certificate) use(used);
    },
    stop: () => void looks.stop(),
  };
}
