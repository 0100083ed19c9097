/** What the protocol is told at its start, and the events by which it tells its owner what the client wants. */
import type { GivenLogin } from '../../protocols/sasl/sasl.ts';

export interface ProtocolOptions {
  /** Our host name. */
  readonly hostname: string;
  readonly protocol: 'smtp' | 'lmtp';
  /** Whether clients must log in (RFC 4954), and whether they may only by TLS; they need not where it is left out. */
  readonly login?: 'anywhere' | 'by TLS' | undefined;
  /** Octets of the largest message (RFC 1870). */
  readonly maxMessageBytes: number;
  /** Recipients of one message. By SMTP, more refused ones than this without a message end a connection. */
  readonly recipientsMax: number;
  /** Wrong commands without a message between them that end a connection. */
  readonly errorsMax: number;
  /** Commands without a message between them that end a connection. */
  readonly commandsMax: number;
  /** Called with each command in upper case, whatever its reply. */
  readonly onCommand?: ((verb: string) => void) | undefined;
}

/** What the client gave as its name (RFC 5321 section 4.1.1.1). */
export interface Hello {
  readonly name: string;
  /** Whether it used EHLO or LHLO. */
  readonly isExtended: boolean;
}

/** A mail transaction (RFC 5321 section 3.3) whose message comes next. */
export interface Transaction {
  readonly hello: Hello;
  /** The argument of `ServerProtocol.secured`; undefined in plaintext. */
  readonly tls: string | undefined;
  readonly isLoggedIn: boolean;
  readonly from: string;
  /** The size that SIZE announced (RFC 1870); 0 where it announced none. */
  readonly size: number;
  /** Whether the client asked for SMTPUTF8 (RFC 6531). */
  readonly isUtf8: boolean;
  /** Accepted recipients in order, each once. */
  readonly to: readonly string[];
}

export type ProtocolEvent =
  /** May the client log in with this? Later recipients and messages are of its account. */
  | { readonly kind: 'login'; readonly given: GivenLogin }
  /** May the client send a message of this size? 0 where it did not announce one. */
  | { readonly kind: 'mail'; readonly from: string; readonly size: number }
  /** May the message go to this recipient? */
  | {
      readonly kind: 'recipient';
      readonly recipient: string;
      readonly from: string;
      /** As MAIL announced it; 0 where it announced none. */
      readonly size: number;
    }
  /** May the message come now? If so, `content` follows. */
  | { readonly kind: 'data'; readonly transaction: Transaction }
  /** The next octets of the message, and whether they are the last. The buffer is not used again. */
  | { readonly kind: 'content'; readonly bytes: Buffer; readonly isLast: boolean }
  /** After the output is sent, TLS begins. */
  | { readonly kind: 'starttls' };
