/** Mail that arrives, for tests that begin below SMTP. */
import { randomUUID } from 'node:crypto';
import {
  createMailReceiver,
  type MailReceiver,
  type MailReceiverOptions,
  OwnMailboxes,
} from '../../src/mail/delivery/delivery.ts';
import { SenderRewriting } from '../../src/mail/outbound/outbound.ts';
import { Queue } from '../../src/mail/queue/queue.ts';
import { Usage } from '../../src/tenants/usage/usage.ts';
import { sampleMessage, type TestMailstore } from './mail.ts';
import { blindChecks } from './sender-checks/blind-checks.ts';

/** @param options of the receiver; without `storage` mailboxes are our own */
export function openReceiver(
  { database, bodies, mailstore }: TestMailstore,
  options: Pick<MailReceiverOptions, 'domains' | 'accounts'> & Partial<MailReceiverOptions>,
): MailReceiver {
  const log = { info: () => {}, warn: () => {}, error: () => {} };
  const { now = Date.now } = options;
  return createMailReceiver({
    database,
    bodies,
    storage: new OwnMailboxes({ mailstore, bodies, changes: { publish: () => {} } }),
    usage: new Usage({ database, now }),
    queue: new Queue({ database, log }),
    senders: new SenderRewriting({ key: ['k'.repeat(32)], now }),
    checks: blindChecks(),
    hostname: 'mx.test',
    linkSecret: ['l'.repeat(32)],
    publicUrl: () => 'http://mx.test',
    log,
    ...options,
  });
}

/** What {@link MailReceiver.receive} takes of a message. */
export function arriving(
  to: readonly string[],
  source = sampleMessage('m'),
  protocol = 'ESMTP',
): Parameters<MailReceiver['receive']> {
  const arrival = { protocol, heloName: 'c', remoteAddress: '192.0.2.1', sessionId: 's' };
  const envelope = { id: randomUUID(), from: 'bob@example.test', to: [...to], arrival };
  return [
    envelope,
    (async function* () {
      yield Buffer.from(source);
    })(),
  ];
}
