/** The kind of delivery that is queued of a message that an account sent. */
import { type Static, Type } from 'typebox';
import { payloadFormat } from '../queue/queue.ts';

export const SEND = 'send';

/** Who the recipients are stands in `send_recipients`; the message is the body of the delivery. */
const send = Type.Object({
  sendId: Type.Integer(),
  account: Type.Object({ accountId: Type.Integer(), address: Type.String() }),
  /** Name of the account's domain. */
  domain: Type.String(),
  /** Envelope sender. */
  from: Type.String(),
  /** When it was accepted, milliseconds since 1970. */
  acceptedAt: Type.Integer(),
  /** What its Received field has as id. */
  id: Type.String(),
});

export type SendPayload = Static<typeof send>;

export const sendPayloads = payloadFormat(1, send);
