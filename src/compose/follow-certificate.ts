/** Reads the certificate of STARTTLS again when its files change, so that a renewal needs no restart. */
import { X509Certificate } from 'node:crypto';
import type { Logger } from 'pino';
import {
  type Certificate,
  type CertificateOptions,
  ConfigError,
  loadCertificate,
} from '../config/config.ts';
import type { Metrics } from '../metrics/metrics.ts';

/** An ACME client renews weeks before the end: a minute is soon. */
const LOOK_EVERY_MS = 60_000;

export interface FollowOptions extends CertificateOptions {
  readonly metrics: Pick<Metrics, 'setCertificateEnd' | 'setCertificateBroken'>;
  readonly logger: Pick<Logger, 'info' | 'error'>;
  /** Milliseconds from one look at the files to the next; a minute when left out. */
  readonly everyMs?: number;
}

export interface FollowedCertificate {
  readonly certificate: Certificate;
  /** Told of each new one from now on. */
  follow(use: (certificate: Certificate) => void): void;
  stop(): void;
}

/**
 * Loads the certificate, and looks at it again every minute. Where the files hold none that can be used, the one
 * in use stays, and a log line and a metric say so. One that is half written is taken at the next look.
 *
 * @throws ConfigError where there is none at the start
 */
export async function followCertificate(options: FollowOptions): Promise<FollowedCertificate> {
  const { metrics, logger, everyMs = LOOK_EVERY_MS } = options;
  const certificate = await loadCertificate(options);
  let used = certificate;
  let lastProblem = '';
  let use: (certificate: Certificate) => void = () => {};
  const tellMetrics = () => {
    metrics.setCertificateEnd(new X509Certificate(used.cert).validToDate);
    metrics.setCertificateBroken(false);
  };
  tellMetrics();
  const look = async () => {
    try {
      const found = await loadCertificate(options);
      lastProblem = '';
      if (found.cert !== used.cert || found.key !== used.key) {
        use(found);
        used = found;
        const until = new X509Certificate(found.cert).validTo;
        logger.info({ until }, 'the certificate files changed: STARTTLS uses the new certificate');
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
  let isLooking = false;
  const lookAlone = () => {
    if (isLooking) return;
    isLooking = true;
    void look().finally(() => {
      isLooking = false;
    });
  };
  // Ours, where no file is given, is made for ten years.
  const timer = options.cert && setInterval(lookAlone, everyMs).unref();
  return {
    certificate,
    follow(listener) {
      use = listener;
      // What changed since the start of this process.
      if (used !== certificate) use(used);
    },
    stop: () => clearInterval(timer || undefined),
  };
}
