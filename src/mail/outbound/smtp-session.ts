/** Sends one message to one host, for one or several recipients, and reads their outcomes from its answers. */
import { oneLine } from '../../protocols/message/message.ts';
import {
  type ConnectionTimeouts,
  type Endpoint,
  enhancedOf,
  isFinalRefusal,
  isInternationalized,
  isWritablePath,
  type Login,
  type Reply,
  SmtpConnection,
  SmtpFailure,
  sizeLimit,
  type RecipientResult as TransactionResult,
} from '../../protocols/smtp-client/smtp-client.ts';
import { failure, type SendFailure, type SendOutcome } from './outcome.ts';
import type { SendSlot, Wait } from './patience.ts';

/** A message with its envelope. */
export interface OutgoingMessage {
  /** Reverse-path without angle brackets; `''` is the null sender. */
  readonly from: string;
  /** The recipients, all of one domain. */
  readonly to: readonly string[];
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
  /** What the attempt holds; left out where it takes the slot of no other. */
  readonly slot?: SendSlot | undefined;
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
  /** For a host that may be too slow for those who wait for the slot. */
  readonly wait?: Wait | undefined;
  /** Ends the session. */
  readonly signal: AbortSignal;
}

export interface SessionResult {
  /** One for each recipient, in the order of the message. */
  readonly results: readonly RecipientResult[];
  /** STARTTLS was offered and failed. */
  readonly tlsFailed: boolean;
}

export interface RecipientResult {
  readonly outcome: SendOutcome;
  /** What failed: the session with the host, or the message. */
  readonly about: 'connection' | 'message';
  /** Whether another host may be tried: this one did not accept the message, and did not refuse it for good. */
  readonly tryNext: boolean;
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
        onSent: () => wait?.onSent(),
      },
      wait?.signal ?? signal,
    );
  } catch (error) {
    if (!(error instanceof SmtpFailure)) throw error;
    const { result, tlsFailed } = judgeFailure(error, endpoint, options);
    return { results: message.to.map(() => result), tlsFailed };
  }
  try {
    return { results: await transfer(connection, message, options), tlsFailed: false };
  } finally {
    if (connection.isUsable) connection.quit();
    else connection.destroy();
  }
}

/** One transaction for all recipients that the host can take at all. */
async function transfer(
  connection: SmtpConnection,
  message: OutgoingMessage,
  { host, wait, signal }: SessionOptions,
): Promise<RecipientResult[]> {
  const lacking = new Map<string, RecipientResult>();
  for (const to of message.to) {
    const found = findLacking(connection, message, to, host);
    if (found)
      lacking.set(to, about('message', found, !UNWRITABLE.has(found.error.enhancedStatus)));
  }
  const able = message.to.filter((to) => !lacking.has(to));
  if (able.length === 0) return message.to.flatMap((to) => lacking.get(to) ?? []);
  const { from, size, eightBit, smtpUtf8, open } = message;
  const envelope = {
    from,
    to: able,
    size,
    eightBit,
    smtpUtf8: smtpUtf8 || isInternationalized(from + able.join()),
  };
  const sent = judgeTransaction(
    await connection.send(envelope, open, wait?.signal ?? signal),
    host,
    signal,
  );
  const results = new Map(able.map((to, at) => [to, sent[at]]));
  return message.to.map((to) => {
    const result = results.get(to);
    // The others may have got it: what the host lacks for this one is found out when it is alone.
    return result ?? putOff(failure('temporary', '4.5.3', 'it goes in another transaction', host));
  });
}

/** RFC 3463 section 3.2: no command can contain the address of the recipient or the sender; no host accepts it. */
const UNWRITABLE = new Set(['5.1.3', '5.1.7']);

/** The extension that the message needs and the far end lacks. */
function findLacking(
  { server }: SmtpConnection,
  { size, from, smtpUtf8 }: OutgoingMessage,
  to: string,
  host: string,
): SendFailure | undefined {
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
): { readonly result: RecipientResult; readonly tlsFailed: boolean } {
  const tlsFailed = during === 'tls';
  if (!reply) {
    const isUnreached = during === 'connect';
    const where = `${host} at ${endpoint.host} port ${endpoint.port}`;
    const text = isUnreached ? `no connection to ${where}: ${message}` : message;
    const status = isUnreached && !signal.aborted ? '4.4.1' : '4.4.2';
    const result = about('connection', failure('temporary', status, text, host), true);
    return { result, tlsFailed };
  }
  // A failure of encryption or login is never the fault of the message.
  const kind = isFinalRefusal(reply) && !during ? 'permanent' : 'temporary';
  // A host that accepts no mail at all says nothing about the next one (RFC 7504 section 4).
  return { result: about('connection', refusedBy(reply, kind, host), true), tlsFailed };
}

function judgeTransaction(
  results: readonly TransactionResult[],
  host: string,
  signal: AbortSignal,
): RecipientResult[] {
  const firstTaken = results.findIndex((one) => !('reply' in one && one.isToRcpt));
  return results.map((result, at) => {
    const judged = judgeResult(result, host, signal);
    const isOver = firstTaken >= 0 && firstTaken < at && isTooMany(result);
    return isOver && judged.outcome.result !== 'delivered' ? putOff(judged.outcome) : judged;
  });
}

/**
 * Whether a host that accepted others takes no more recipients in this transaction: 452, or 552 of older hosts (RFC
 * 5321 section 4.5.3.1.10), unless their enhanced code has another reason; x.5.3 (RFC 3463 section 3.6); or the text,
 * of hosts with other codes. An error costs one attempt: then the recipient is in another transaction.
 */
function isTooMany(result: TransactionResult): boolean {
  if (!('reply' in result) || !result.isToRcpt) return false;
  const { code, enhanced, text } = result.reply;
  if (enhanced?.endsWith('.5.3') || /too many (?:rcpt|recip)/i.test(text)) return true;
  return enhanced === undefined && (code === 452 || code === 552);
}

function putOff({ error }: SendFailure): RecipientResult {
  return about('message', { result: 'temporary', error, isPutOff: true }, true);
}

function judgeResult(
  result: TransactionResult,
  host: string,
  signal: AbortSignal,
): RecipientResult {
  if ('reply' in result) {
    const { reply } = result;
    if (reply.code < 300) return about('message', deliveredBy(reply, host), false);
    const kind = isFinalRefusal(reply) ? 'permanent' : 'temporary';
    const answers = result.isToRcpt ? 'recipient' : 'message';
    const refused = refusedBy(reply, kind, host, answers);
    return about('message', refused, kind === 'temporary');
  }
  const isSent = result.stage === 'sent';
  const doubt = ', after the whole message was sent: it may have been accepted';
  const text = isSent ? `${result.failure}${doubt}` : result.failure;
  const { error } = failure('temporary', '4.4.2', text, host);
  // It broke off within the transaction: that may be because of a recipient or the message.
  const outcome: SendFailure = { result: 'temporary', error: { ...error, answers: 'message' } };
  return about('connection', outcome, !isSent && !signal.aborted);
}

function about(
  what: RecipientResult['about'],
  outcome: SendOutcome,
  tryNext: boolean,
): RecipientResult {
  return { outcome, about: what, tryNext };
}

function deliveredBy({ code, enhanced = '', text }: Reply, host: string): SendOutcome {
  return { result: 'delivered', host, detail: oneLine(`${code} ${enhanced} ${text}`) };
}

function refusedBy(
  reply: Reply,
  result: 'temporary' | 'permanent',
  host: string,
  answers?: 'recipient' | 'message',
): SendFailure {
  const { code: status, text } = reply;
  const said = { status, enhancedStatus: enhancedOf(reply), text: oneLine(text), host };
  return { result, error: { ...said, ...(answers && { answers }) } };
}
