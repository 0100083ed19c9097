/** What operators find of a message that was taken: where it came from, where it is, and what goes on. */
import type { TraceEvent } from '../trace/trace.ts';
import type { AcceptedMail, QueuedMail } from './queue-mail.ts';

/** What every recipient who was answered 250 has in the trace. */
export function receivedEvents(
  { envelope, message, verdicts }: AcceptedMail,
  recipients: readonly string[],
): TraceEvent[] {
  const { id: mailId, from: sender, arrival } = envelope;
  const { protocol, heloName, remoteAddress } = arrival;
  const { size, envelope: header } = message.parsed;
  const checks = verdicts
    ? `, SPF ${verdicts.spf.result}, DMARC ${verdicts.dmarc.result}, ${verdicts.action}`
    : '';
  const received = {
    mailId,
    event: 'received',
    sender,
    messageId: header.messageId,
    status: '250',
    detail: `${protocol} from ${heloName}, ${size} bytes${checks}`,
    client: remoteAddress,
  };
  return recipients.map((recipient) => ({ ...received, recipient }));
}

/** @param place where in the mailboxes of the account, or who has it now */
export function storedEvent(mailId: string, recipient: string, place: string): TraceEvent {
  return { mailId, event: 'stored', recipient, detail: place };
}

/** @param failed what a first attempt was answered that was made at once */
export function queuedEvent(
  { kind, destination, mailId = '', recipients, publicId }: QueuedMail,
  deliveryId: number,
  failed?: string,
): TraceEvent {
  const tried = failed === undefined ? '' : `, after a first attempt: ${failed}`;
  return {
    mailId,
    event: 'queued',
    recipient: recipients?.join(', '),
    deliveryId,
    webhookId: publicId,
    detail: `${kind} to ${destination}${tried}`,
  };
}
