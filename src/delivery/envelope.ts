/** What `smtp/` hands over, and what it is answered. */
import type { Refusal } from '../errors/errors.ts';

/** How a message reached us; becomes the Received header (RFC 5321 section 4.4). */
export interface Arrival {
  /** Protocol keyword of RFC 3848 or RFC 6531: SMTP, ESMTP, ESMTPS, UTF8SMTPS, LMTP ... */
  readonly protocol: string;
  /** Name given in HELO, EHLO or LHLO; hostile text. */
  readonly heloName: string;
  readonly remoteAddress: string;
  /** TLS protocol and cipher where there is TLS, e.g. `TLSv1.3 TLS_AES_256_GCM_SHA384`. */
  readonly tls?: string;
  /** Id of the connection, for the log. */
  readonly sessionId: string;
}

/** The SMTP envelope (RFC 5321 section 2.3.1). */
export interface InboundEnvelope {
  /** What the message is known by: to the client, in the log, and in the Received field. */
  readonly id: string;
  /** Reverse-path without angle brackets, `''` for the null sender. */
  readonly from: string;
  /** Forward-paths as the client gave them, at least one. */
  readonly to: readonly string[];
  readonly arrival: Arrival;
}

/** What became of one recipient. `temporary` and `permanent` carry the refusal to answer with. */
export type RecipientOutcome =
  | { readonly recipient: string; readonly result: 'delivered' }
  | {
      readonly recipient: string;
      readonly result: 'temporary' | 'permanent';
      readonly refusal: Refusal;
    };

export interface MailReceiver {
  /**
   * Judges whether there is room for a message, before it is sent.
   *
   * @param octets what the client says that it has; 0 where it does not say
   * @returns the refusal to answer with, or undefined where it may be sent
   */
  checkRoom(octets: number): Promise<Refusal | undefined>;
  /**
   * Judges one forward-path at RCPT time.
   *
   * @param from reverse-path of the same transaction, `''` for the null sender
   * @returns the refusal to answer with, or undefined where the recipient is taken
   */
  checkRecipient(recipient: string, from: string): Promise<Refusal | undefined>;
  /**
   * Takes a message for good: when the answer says `delivered`, it is durable.
   *
   * By SMTP all recipients are taken or none is (one refusal is thrown); by LMTP each has an
   * outcome of its own (RFC 2033 section 4.2). Outcomes come in the order of `envelope.to`.
   *
   * @param source the message as it came, dots already unstuffed; read to its end or destroyed
   * @throws Refusal for the message as a whole
   */
  receive(
    envelope: InboundEnvelope,
    source: AsyncIterable<Uint8Array>,
  ): Promise<RecipientOutcome[]>;
}
