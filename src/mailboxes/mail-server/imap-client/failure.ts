/** Failures of an IMAP server by name: for the operator in the log, and for clients. */
import { type ErrorCode, Refusal } from '../../../platform/errors/errors.ts';

/** The part of a pino logger that is used for failures. */
export interface Log {
  warn(what: object, text: string): void;
}

/** The text of each failure for the log. */
const failureTexts = {
  unreachable: 'the IMAP server cannot be reached',
  no_greeting: 'the IMAP server does not greet',
  tls: 'the IMAP server failed TLS',
  wants_tls:
    'the IMAP server waits for TLS at this port: write imaps:// in MAILSTORE_URL, without tls=off',
  no_tls:
    'the IMAP server speaks no TLS at this port: write imap:// in MAILSTORE_URL, which uses STARTTLS',
  login_refused: 'the IMAP server refused the login',
  said_no: 'the IMAP server answered NO',
  said_bad: 'the IMAP server answered BAD',
  dropped: 'the IMAP server dropped the connection',
  no_access:
    'the IMAP server lets the master in but not into INBOX: look at its ACLs (Dovecot: acl_user)',
  lost: 'the IMAP server no longer reads the mailbox that is open',
  silent: 'the IMAP server did not answer in time',
  garbled: 'the IMAP server sent an invalid response',
  busy: 'all connections to the IMAP server are in use',
  resting: 'the IMAP server failed a moment ago and is left alone',
  refused_before: 'the IMAP server refused this login a moment ago and is not asked again yet',
  may_leave:
    'the IMAP server offers UNAUTHENTICATE, by which a mail program could leave its account: turn that off there',
  lacking: 'the IMAP server lacks an extension that this needs',
} as const;

export type FailureKind = keyof typeof failureTexts;

/** Failures that every account would get. */
const OF_SERVER = new Set<FailureKind>([
  'unreachable',
  'no_greeting',
  'tls',
  'wants_tls',
  'no_tls',
  'dropped',
  'silent',
  'garbled',
]);

/** Commands whose arguments a client chose. A NO or BAD to any other means that the server, or our use of it, failed. */
const OF_CLIENT = new Set([
  'UID STORE',
  'UID COPY',
  'UID MOVE',
  'UID EXPUNGE',
  'APPEND',
  'CREATE',
  'RENAME',
  'DELETE',
]);

/** RFC 5530 section 3. */
const TEMPORARY_CODE =
  /\b(?:UNAVAILABLE|INUSE|SERVERBUG|LIMIT|CONTACTADMIN|EXPIRED|CORRUPTION|EXPUNGEISSUED)\b/i;

/** What servers say without a code. */
const TEMPORARY_TEXT =
  /internal error|I\/O error|try again|temporar|unavailable|\blocked\b|no space left/i;

/** Codes of RFC 5530 section 3, RFC 3501 section 7.1 and RFC 9208 section 4.1.3 that have an error of their own. */
const codesOfResponse = new Map<string, ErrorCode>([
  ['HASCHILDREN', 'mailbox_has_children'],
  ['ALREADYEXISTS', 'mailbox_exists'],
  ['NONEXISTENT', 'mailbox_not_found'],
  ['TRYCREATE', 'mailbox_not_found'],
  ['OVERQUOTA', 'mailbox_full'],
]);

export interface FailureDetails {
  /** The command's name, never its arguments. */
  readonly command?: string;
  /** The text of the server or the socket. */
  readonly said?: string;
  /** Seconds. */
  readonly retryAfter?: number;
  /** In capitals. */
  readonly responseCode?: string;
}

export class ImapFailure extends Error {
  override readonly name = 'ImapFailure';
  readonly kind: FailureKind;
  readonly details: FailureDetails;

  constructor(kind: FailureKind, details: FailureDetails = {}) {
    super(failureTexts[kind]);
    this.kind = kind;
    this.details = details;
  }

  /** Whether the server failed, and not one account: then it is not used for a while. */
  get concernsServer(): boolean {
    return OF_SERVER.has(this.kind);
  }

  /** Whether nothing was tried: the failure before is already in the log. */
  get isBackoff(): boolean {
    return this.kind === 'resting' || this.kind === 'refused_before';
  }

  /** Whether a read may be tried once more, on another connection. */
  get connectionLost(): boolean {
    return this.kind === 'dropped' || this.kind === 'lost';
  }

  /** Whether a NO says that the command may work later, by its code (RFC 5530 section 3) or its text. */
  get isTemporary(): boolean {
    const { command, said = '', responseCode = '' } = this.details;
    // Of Cyrus, which deletes only one mailbox of a name in a second.
    if (command === 'DELETE' && /already exists/i.test(said)) return true;
    return TEMPORARY_CODE.test(responseCode) || TEMPORARY_TEXT.test(said);
  }

  /** The answer to a client: what the server refuses for good in its own words, anything else as `unavailable`. */
  toRefusal(): Refusal {
    const { retryAfter, command = '', said = '', responseCode = '' } = this.details;
    const isRefusal = this.kind === 'said_no' || this.kind === 'said_bad';
    if (isRefusal && OF_CLIENT.has(command) && !this.isTemporary) {
      const code = codesOfResponse.get(responseCode) ?? 'mail_server_refused';
      return new Refusal(code, `the mail server refuses this: ${said}`);
    }
    return new Refusal('unavailable', 'the mail server cannot do this right now', {
      ...(retryAfter !== undefined && { retryAfter }),
    });
  }
}

/** Whether a server answered NO; with one of these codes, where some are named. */
export function saysNo(error: unknown, ...codes: readonly string[]): error is ImapFailure {
  if (!(error instanceof ImapFailure) || error.kind !== 'said_no') return false;
  return codes.length === 0 || codes.includes(error.details.responseCode ?? '');
}

const UNREACHABLE = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
]);

/** Codes of OpenSSL's verification and of Node's TLS; plain sockets have other codes. */
const TLS = /^(?:ERR_TLS|ERR_SSL|EPROTO|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/;

/** Codes of OpenSSL where the other side answers a ClientHello with text. */
const NO_TLS = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG']);

/** Longest text of a server that is logged. */
const SAID_MAX = 200;

/** A text of the server for the log. */
export function saidOf(text: string): string {
  return text.slice(0, SAID_MAX).replace(/[\x00-\x1f\x7f]/g, ' ');
}

/** Names the error of a socket. */
export function nameFailure(error: unknown): ImapFailure {
  if (error instanceof ImapFailure) return error;
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  const said = typeof code === 'string' ? code : String(message ?? error);
  return new ImapFailure(kindOf(said), { said: saidOf(said) });
}

function kindOf(code: string): FailureKind {
  if (NO_TLS.has(code)) return 'no_tls';
  if (TLS.test(code)) return 'tls';
  return UNREACHABLE.has(code) ? 'unreachable' : 'dropped';
}
