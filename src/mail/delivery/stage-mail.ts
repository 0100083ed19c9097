/**
 * Staging: all that is found out about a message before its recipients are resolved. One pass over its bytes
 * checks its sender, parses it, and keeps its source.
 */
import { type Bodies, GrowingBuffer, INLINE_MAX } from '../../mailboxes/bodies/bodies.ts';
import {
  prependHeader,
  type StagedMessage,
  stageMessage,
} from '../../mailboxes/mailstore/mailstore.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { formatDate } from '../../protocols/message/message.ts';
import type { SenderChecks, Verdicts } from './sender-checks/check-sender.ts';
import { type SpamFilter, type SpamVerdict, spamStatus } from './spam-filter.ts';
import type { CheckedMail, MailToCheck, StagingThread } from './staging.ts';

/** A message that has arrived, without its bytes. */
export interface ArrivedMail {
  readonly envelope: InboundEnvelope;
  readonly receivedAt: EpochMs;
}

export interface StagedMail {
  /** With our trace headers in front. */
  readonly message: StagedMessage;
  /** Absent where the sender was not checked (LMTP: our own MTA did). */
  readonly verdicts?: Verdicts | undefined;
  /** Absent where the spam filter was not asked, or gave no answer. */
  readonly spam?: SpamVerdict | undefined;
}

export interface StagingOptions {
  readonly bodies: Pick<Bodies, 'stage' | 'discard' | 'read'>;
  readonly checks: SenderChecks;
  /** Checks small messages where several come at once; by default all are checked on the event loop. */
  readonly thread?: Pick<StagingThread, 'isReady' | 'check'> | undefined;
  /** Asked about what comes by SMTP. */
  readonly spamFilter?: Pick<SpamFilter, 'check'> | undefined;
  /** Our name in Received headers. */
  readonly hostname: string;
}

/**
 * Reads a message to its end.
 *
 * @param isAlone whether no other message is being received
 * @throws any error of the source or the disk; then nothing of the message is kept
 */
export async function stageMail(
  options: StagingOptions,
  { envelope, receivedAt }: ArrivedMail,
  source: AsyncIterable<Uint8Array>,
  isAlone = true,
): Promise<StagedMail> {
  const { bodies, spamFilter, hostname } = options;
  const path = returnPath(envelope);
  const head = received(envelope, { hostname, at: receivedAt });
  if (isLmtp(envelope)) {
    return { message: await stageMessage(bodies, source, Buffer.concat([path, head])) };
  }
  const { heloName, remoteAddress } = envelope.arrival;
  const client = { from: envelope.from, heloName, remoteAddress, at: receivedAt };
  const { message, judgement } = await (isAlone
    ? checkHere(options, { client, head }, source)
    : checkBeside(options, { client, head }, source));
  const { authenticationResults, clientName, ...verdicts } = judgement;
  // The checks end after the message, but their field stands in front of our Received field.
  const results = [path, Buffer.from(authenticationResults)];
  const spam =
    verdicts.action === 'reject' || verdicts.action === 'defer'
      ? undefined
      : await spamFilter?.check({
          envelope,
          clientName,
          octets: message.body.size - head.length,
          source: () => bodies.read(message.body, { start: head.length, end: message.body.size }),
        });
  if (!spam) return { message: prependHeader(Buffer.concat(results), message), verdicts };
  const top = Buffer.concat([...results, Buffer.from(spamStatus(spam))]);
  const action = spam.action === 'junk' ? 'quarantine' : verdicts.action;
  return { message: prependHeader(top, message), verdicts: { ...verdicts, action }, spam };
}

type FromClient = Omit<MailToCheck, 'bytes'>;

/** Checks and parses a message while it comes in. */
async function checkHere(
  { bodies, checks }: StagingOptions,
  { client, head }: FromClient,
  source: AsyncIterable<Uint8Array>,
): Promise<CheckedMail> {
  const check = checks.begin(client);
  const message = await stageMessage(bodies, check.through(source), head);
  try {
    return { message, judgement: await check.verdicts() };
  } catch (bug) {
    await bodies.discard(message.body);
    throw bug;
  }
}

/** Lets the thread check and parse a message that is small enough to be held in memory. */
async function checkBeside(
  options: StagingOptions,
  about: FromClient,
  source: AsyncIterable<Uint8Array>,
): Promise<CheckedMail> {
  const { thread } = options;
  if (!thread?.isReady()) return checkHere(options, about, source);
  const start = new GrowingBuffer();
  const pieces = source[Symbol.asyncIterator]();
  let next = await pieces.next();
  for (; !next.done && start.size <= INLINE_MAX; next = await pieces.next()) start.add(next.value);
  const isSmall = next.done && start.size <= INLINE_MAX;
  // Meanwhile others may have filled the thread, or it ended.
  if (isSmall && thread.isReady()) return thread.check({ ...about, bytes: start.take() });
  const read = next.done ? [start.take()] : [start.take(), next.value];
  return checkHere(options, about, continued(read, pieces));
}

/** A source whose beginning was read. */
async function* continued(
  read: readonly Uint8Array[],
  pieces: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  try {
    yield* read;
    for (let next = await pieces.next(); !next.done; next = await pieces.next()) yield next.value;
  } finally {
    await pieces.return?.();
  }
}

/** @throws Refusal sender_rejected, sender_unclear, spam_rejected, spam_deferred where the results forbid to accept the message */
export function refuseJudged({ verdicts, spam }: Pick<StagedMail, 'verdicts' | 'spam'>): void {
  const { domain, result } = verdicts?.dmarc ?? {};
  if (verdicts?.action === 'defer') {
    throw new Refusal(
      'sender_unclear',
      `the checks of ${domain} need DNS, which has not answered: try again later`,
    );
  }
  // RFC 7489 section 6.3: refused where the owner of the domain asks for it and the operator enforces it.
  if (verdicts?.action === 'reject') {
    throw new Refusal(
      'sender_rejected',
      result === 'permerror'
        ? 'its From does not say clearly who it is from (RFC 5322 section 3.6.2)'
        : `${domain} asks to refuse mail that fails DMARC as this does`,
    );
  }
  if (spam?.action === 'reject') throw new Refusal('spam_rejected', 'the message looks like spam');
  if (spam?.action === 'defer') {
    throw new Refusal('spam_deferred', 'the message is deferred: try again in some minutes');
  }
}

export function isLmtp({ arrival }: Pick<InboundEnvelope, 'arrival'>): boolean {
  return arrival.protocol.includes('LMTP');
}

/* What `smtp/` passes on, and what it gets back. */

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
  /** The id of the message in the answer to the client, in the log, and in the Received field. */
  readonly id: string;
  /** Reverse-path without angle brackets, `''` for the null sender. */
  readonly from: string;
  /** Forward-paths as the client gave them, at least one. */
  readonly to: readonly string[];
  readonly arrival: Arrival;
}

/** The outcome for one recipient. `temporary` and `permanent` carry the refusal to answer with. */
export type RecipientOutcome =
  | {
      readonly recipient: string;
      readonly result: 'delivered';
      /** The id of the message, where it is not that of the envelope. */
      readonly id?: string;
    }
  | {
      readonly recipient: string;
      readonly result: 'temporary' | 'permanent';
      readonly refusal: Refusal;
    };

export interface MailReceiver {
  /**
   * Judges whether there is room for a message, before it is sent.
   *
   * @param octets the size that the client announces; 0 where it announces none
   * @returns the refusal to answer with, or undefined where there is room
   */
  checkRoom(octets: number): Promise<Refusal | undefined>;
  /**
   * Judges one forward-path at RCPT time.
   *
   * @param transaction its reverse-path, `''` for the null sender, and the size in octets that the client
   *   announces; 0 where it announces none
   * @returns the refusal to answer with
   */
  checkRecipient(
    recipient: string,
    transaction: { readonly from: string; readonly octets: number },
  ): Promise<Refusal | undefined>;
  /**
   * Accepts a message: when the outcome says `delivered`, the message is durable.
   *
   * By SMTP all recipients are accepted or none is (one refusal is thrown); by LMTP each has an outcome of
   * its own (RFC 2033 section 4.2). Outcomes come in the order of `envelope.to`.
   *
   * @param source the message as it came, dots already unstuffed; read to its end or destroyed
   * @throws Refusal for the message as a whole
   */
  receive(
    envelope: InboundEnvelope,
    source: AsyncIterable<Uint8Array>,
  ): Promise<RecipientOutcome[]>;
}

/* The lines that final delivery puts in front of a message (RFC 5321 section 4.4). */

/** Long enough for any host name; longer text is not one. */
const HELO_SHOWN = 255;

/** The client chooses its greeting name: no character of it may end the comment or the line. */
function printable(text: string, most: number): string {
  return text.replace(/[^A-Za-z0-9.\-_:[\]]/g, '?').slice(0, most) || 'unknown';
}

/** A reverse-path in a header: controls and angle brackets would end it. */
function pathText(path: string): string {
  return path.replace(/[\p{Cc}<>]/gu, '');
}

function addressLiteral(address: string): string {
  return address.includes(':') ? `[IPv6:${address}]` : `[${address}]`;
}

/** The Return-Path field of a final delivery, ending in CRLF. */
export function returnPath({ from }: Pick<InboundEnvelope, 'from'>): Buffer {
  return Buffer.from(`Return-Path: <${pathText(from)}>\r\n`);
}

/**
 * The Received field, ending in CRLF. It names the recipient only where there is one: otherwise it would show
 * a blind copy to the others (RFC 5321 section 7.2).
 */
export function received(
  { id, to, arrival }: Pick<InboundEnvelope, 'id' | 'to' | 'arrival'>,
  { hostname, at }: { hostname: string; at: number },
): Buffer {
  const recipient = to.length === 1 && to[0] !== undefined ? `\r\n for <${pathText(to[0])}>` : '';
  const tls =
    arrival.tls === undefined
      ? ''
      : `\r\n (using ${printable(arrival.tls, 100).replaceAll('?', ' ')})`;
  const client = `${printable(arrival.heloName, HELO_SHOWN)} (${addressLiteral(arrival.remoteAddress)})`;
  return Buffer.from(
    `Received: from ${client}${tls}\r\n by ${hostname} with ${arrival.protocol} id ${id}` +
      `${recipient}; ${formatDate(at)}\r\n`,
  );
}
