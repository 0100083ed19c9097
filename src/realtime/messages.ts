/**
 * The messages that clients get: the JSON of contract section 6, as UTF-8.
 */
import type { MailboxChange } from '../changes/changes.ts';

/** Where a mailbox stands: the token is the one that a sync would return now. */
export interface MailboxTip {
  readonly mailbox: string;
  readonly uidvalidity: string;
  readonly token: string;
}

export interface Hello {
  /** The account's address. */
  readonly user: string;
  readonly connectionId: string;
  /** Milliseconds since 1970. */
  readonly serverTime: number;
  readonly heartbeatSeconds: number;
  readonly mailboxes: readonly MailboxTip[];
}

/** The first message: a client that was away sees at once which mailboxes it is behind in. */
export function encodeHello(hello: Hello): Buffer {
  return encode({
    type: 'hello',
    user: hello.user,
    connectionId: hello.connectionId,
    serverTime: new Date(hello.serverTime).toISOString(),
    heartbeatSeconds: hello.heartbeatSeconds,
    mailboxes: hello.mailboxes.map(({ mailbox, uidvalidity, token }) => ({
      mailbox,
      uidvalidity,
      token,
    })),
  });
}

/** A mailbox moved on. */
export function encodeChange({ mailbox, uidvalidity, token, eventType }: MailboxChange): Buffer {
  return encode({ type: 'mailbox_changed', mailbox, uidvalidity, token, eventType });
}

function encode(message: object): Buffer {
  return Buffer.from(JSON.stringify(message));
}
