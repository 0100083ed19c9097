/** Sends one message to one host, and reads the outcome from its answers. */
import { oneLine } from '../../protocols/message/message.ts';
import {
  type ConnectionTimeouts,
  type Endpoint,
  enhancedOf,
  isFinalRefusal,
  isInternationalized,
  isWritablePath,
  type Login,
  type RecipientResult,
  type Reply,
  SmtpConnection,
  SmtpFailure,
  sizeLimit,
} from '../../protocols/smtp-client/smtp-client.ts';
import { failure, type SendOutcome } from './outcome.ts';
import type { SendPlace, Wait } from './patience.ts';

/** A message with its envelope. */
export interface OutgoingMessage {
  /** Reverse-path without angle brackets; `''` is the null sender. */
  readonly from: string;
  /** The one recipient. */
  readonly to: string;
  /** Octets, for SIZE (RFC 1870). */
  readonly size: number;
  /**
   * Whether it has octets above 127. Then it is sent as BODY=8BITMIME (RFC 6152); to the rare far end without that
   * extension it is sent unchanged, since recoding it would break its signatures.
   */
  readonly eightBit: boolean;
  /**
   * Whether its header needs SMTPUTF8 (RFC 6531 section 3.1): it came by SMTPUTF8 and has octets above 127. Whether the
   * addresses need it is found out here.
   */
  readonly smtpUtf8: boolean;
  /** What the attempt holds; left out where it takes the place of no other. */
  readonly place?: SendPlace | undefined;
  /** Reads the message from its start; may be called several times. Lines end in CRLF. */
  readonly open: () => AsyncIterable<Uint8Array>;
}

export interface SessionOptions {
  /** The far end's name, for people, for SNI and for its certificate. */
  readonly host: string;
  /** Our name for EHLO. */
  readonly hostname: string;
  /**
   * - `opportunistic`: STARTTLS where offered, with any certificate (RFC 7435 section 3)
   * - the others as in ClientOptions, the certificate verified
   */
  readonly tls: 'opportunistic' | 'none' | 'offered' | 'required' | 'implicit';
  readonly login?: Login | undefined;
  readonly timeouts: ConnectionTimeouts;
  /** For the greeting of a host that never answered. */
  readonly wait?: Wait | undefined;
  /** Ends the session. */
  readonly signal: AbortSignal;
}

export interface SessionResult {
  readonly outcome: SendOutcome;
  /** What failed: the session with the host, or the message. */
  readonly about: 'connection' | 'message';
  /** Whether another host may be tried: this one did not accept the message, and did not refuse it for good. */
  readonly tryNext: boolean;
  /** STARTTLS was offered and failed. */
  readonly tlsFailed: boolean;
}

/**
 * Connects, sends a message, and ends the session.
 *
 * @throws only errors of the message's source
 */
export async function runSession(
  endpoint: Endpoint,
  message: OutgoingMessage,
  options: SessionOptions,
): Promise<SessionResult> {
  const { host, hostname, tls, login, timeouts, wait, signal } = options;
  let connection: SmtpConnection;
  try {
    connection = await SmtpConnection.open(
      endpoint,
      {
        protocol: 'smtp',
        hostname,
        name: host,
        tls: tls === 'opportunistic' ? 'offered' : tls,
        verifiesCertificate: tls !== 'opportunistic',
        login,
        timeouts,
        onGreeting: wait?.onGreeting,
      },
      wait?.signal ?? signal,
    );
  } catch (error) {
    if (!(error instanceof SmtpFailure)) throw error;
    return judgeFailure(error, endpoint, options);
  }
  try {
    const lacking = findLacking(connection, message, host);
    if (lacking) return about('message', lacking, !UNWRITABLE.has(lacking.error.enhancedStatus));
    const { from, to, size, eightBit, smtpUtf8, open } = message;
    const envelope = {
      from,
      to: [to],
      size,
      eightBit,
      smtpUtf8: smtpUtf8 || isInternationalized(from + to),
    };
    const [result] = await connection.send(envelope, open, signal);
    if (!result) throw new Error('the recipient has no result');
    return judgeResult(result, host, signal);
  } finally {
    if (connection.isUsable) connection.quit();
    else connection.destroy();
  }
}

/** RFC 3463 section 3.2: no command can contain the address of the recipient or the sender; no host accepts it. */
const UNWRITABLE = new Set(['5.1.3', '5.1.7']);

/** The extension that the message needs and the far end lacks. */
function findLacking(
  { server }: SmtpConnection,
  { size, from, to, smtpUtf8 }: OutgoingMessage,
  host: string,
) {
  const limit = sizeLimit(server);
  if (size > limit) {
    return failure('permanent', '5.3.4', `the far end takes ${limit} octets at most`, host);
  }
  if (!isWritablePath(from)) {
    return failure('permanent', '5.1.7', 'a sender that no command can hold', host);
  }
  if (!isWritablePath(to)) {
    return failure('permanent', '5.1.3', 'an address that no command can hold', host);
  }
  if (server.extensions.has('SMTPUTF8')) return undefined;
  // RFC 6531 section 3.2: such a message is not sent to a host without the extension.
  if (isInternationalized(from + to)) {
    return failure('permanent', '5.6.7', 'the far end takes no address outside ASCII', host);
  }
  if (!smtpUtf8) return undefined;
  return failure('permanent', '5.6.9', 'the far end takes no header outside ASCII', host);
}

/** The far end refused the session, or could not be reached. */
function judgeFailure(
  { message, reply, during }: SmtpFailure,
  endpoint: Endpoint,
  { host, signal }: SessionOptions,
): SessionResult {
  const tlsFailed = during === 'tls';
  if (!reply) {
    const isUnreached = during === 'connect';
    const where = `${host} at ${endpoint.host} port ${endpoint.port}`;
    const text = isUnreached ? `no connection to ${where}: ${message}` : message;
    const status = isUnreached && !signal.aborted ? '4.4.1' : '4.4.2';
    return { ...about('connection', failure('temporary', status, text, host), true), tlsFailed };
  }
  // A failure of encryption or login is never the fault of the message.
  const result = isFinalRefusal(reply) && !during ? 'permanent' : 'temporary';
  // A host that accepts no mail at all says nothing about the next one (RFC 7504 section 4).
  return { ...about('connection', refusedBy(reply, result, host), true), tlsFailed };
}

function judgeResult(result: RecipientResult, host: string, signal: AbortSignal): SessionResult {
  if ('reply' in result) {
    const { reply } = result;
    if (reply.code < 300) return about('message', deliveredBy(reply, host), false);
    const kind = isFinalRefusal(reply) ? 'permanent' : 'temporary';
    const refused = refusedBy(reply, kind, host, result.isToRcpt);
    return about('message', refused, kind === 'temporary');
  }
  const isSent = result.stage === 'sent';
  const doubt = ', after the whole message was sent: it may have been accepted';
  const text = isSent ? `${result.failure}${doubt}` : result.failure;
  const outcome = failure('temporary', '4.4.2', text, host);
  return about('connection', outcome, !isSent && !signal.aborted);
}

function about(
  what: SessionResult['about'],
  outcome: SendOutcome,
  tryNext: boolean,
): SessionResult {
  return { outcome, about: what, tryNext, tlsFailed: false };
}

function deliveredBy({ code, enhanced = '', text }: Reply, host: string): SendOutcome {
  return { result: 'delivered', host, detail: oneLine(`${code} ${enhanced} ${text}`) };
}

function refusedBy(
  reply: Reply,
  result: 'temporary' | 'permanent',
  host: string,
  isToRcpt?: true,
): SendOutcome {
  const { code: status, text } = reply;
  const said = { status, enhancedStatus: enhancedOf(reply), text: oneLine(text), host };
  return { result, error: { ...said, ...(isToRcpt && { isToRcpt }) } };
}
