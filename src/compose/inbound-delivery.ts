/** Builds what brings inbound mail to the operator's mail server, where mail is kept there. */
import type { Logger } from 'pino';
import type { Bodies } from '../bodies/bodies.ts';
import { type Config, ConfigError } from '../config/config.ts';
import type { Database } from '../database/database.ts';
import { createInboundDelivery, type InboundOptions } from '../mail-server/mail-server.ts';
import type { InboundDelivery } from '../mailstore/mailstore.ts';
import type { Queue } from '../queue/queue.ts';

export interface InboundDeliveryOptions {
  readonly config: Config;
  readonly database: Database;
  readonly bodies: Bodies;
  readonly queue: Queue;
  readonly logger: Logger;
  /** What the IMAP side of the mail store does for delivery. */
  readonly imap: Pick<InboundOptions, 'appendByImap' | 'isDelivered' | 'announce'>;
}

/**
 * By LMTP to `LMTP_URL`; without one every message is added to its mailbox by IMAP APPEND, which
 * works with any server but passes its filters by.
 *
 * @returns undefined where the mail store is our own
 * @throws ConfigError where neither reaches the mailboxes
 */
export function buildInboundDelivery(options: InboundDeliveryOptions): InboundDelivery | undefined {
  const { config, database, bodies, queue, logger, imap } = options;
  if (config.mailstore.kind === 'embedded') return undefined;
  const { deliverTo } = config.mailstore;
  if (!deliverTo && !imap.appendByImap) {
    throw new ConfigError(['LMTP_URL: expected lmtp://host:24 with MAILSTORE_URL, got nothing']);
  }
  return createInboundDelivery({
    ...imap,
    database,
    bodies,
    queue,
    lmtp: deliverTo && { server: deliverTo, hostname: config.mailHostname },
    log: logger,
  });
}
