/** Turns an app's request to send into a message that can be written. */
import { Readable } from 'node:stream';
import type { Mailstore, MailUser } from '../../mailboxes/mailstore/mailstore.ts';
import { invalidField, readInstant } from '../../platform/errors/errors.ts';
import { DAY_MS, type EpochMs } from '../../platform/time/time.ts';
import {
  fieldValue,
  findPart,
  parseAddress,
  parsePartNumber,
  readHeader,
} from '../../protocols/message/message.ts';
import type { SendingAccount } from '../../tenants/accounts/accounts.ts';
import {
  type ComposedAttachment,
  type Composition,
  type Correspondent,
  checkComposition,
} from './compose-message.ts';
import { type MessageLocation, pinLocation } from './copies.ts';

/** A file: its bytes are in the request, or are a part of a message of the account. */
export type GivenAttachment = {
  readonly filename?: string;
  readonly contentType?: string;
  readonly contentId?: string;
  readonly inline?: boolean;
  /** Base64 (RFC 4648 section 4). */
  readonly content?: string;
  readonly mailbox?: string;
  readonly uid?: number;
  /** Of the mailbox; its current one when left out. */
  readonly uidvalidity?: string;
  /** IMAP part number. */
  readonly part?: string;
};

/** When a message is sent: at once, or at one of these. */
export interface SendTimes {
  /** RFC 3339. */
  readonly sendAt?: string;
  readonly delaySeconds?: number;
}

type GivenFields = Pick<Composition, 'from' | 'to' | 'cc' | 'bcc' | 'replyTo' | 'subject'> &
  Pick<Composition, 'text' | 'html' | 'headers'>;

/** An app's message; addresses and texts are not checked yet. */
export interface ComposeRequest extends SendTimes, Partial<GivenFields> {
  readonly attachments?: readonly GivenAttachment[];
  readonly inReplyTo?: MessageLocation;
  /** The draft that it was written in, removed when the mail is sent. */
  readonly draft?: MessageLocation;
}

/** The same before it is complete. The draft is the one that it takes the place of. */
export type DraftRequest = Omit<ComposeRequest, keyof SendTimes>;

/** Fields that Postroom writes. */
export interface OwnFields {
  readonly messageId: string;
  readonly date: Date;
}

/** Told of octets of other messages that are about to be read; what it throws ends the request before that. */
export type OnRead = (octets: number) => void;

/** What is needed to read a request. */
export interface RequestContext {
  readonly mailstore: Pick<Mailstore, 'fetchMessage' | 'fetchPart' | 'listMailboxes'>;
  readonly user: MailUser;
  readonly account: SendingAccount;
  readonly own: OwnFields;
  readonly onRead?: OnRead | undefined;
}

/**
 * @param check what is asked of it
 * @throws Refusal invalid_request that names the field; mailbox_not_found, message_not_found or part_not_found for the
 *   answered message or an attachment
 */
export async function readRequest(
  request: DraftRequest,
  context: RequestContext,
  check: (composition: Composition) => void = checkComposition,
): Promise<Composition> {
  const { to = [], cc = [], bcc = [], replyTo = [], subject = '', text, html } = request;
  const attachments: ComposedAttachment[] = [];
  for (const [index, given] of (request.attachments ?? []).entries()) {
    attachments.push(await readAttachment(given, `attachments.${index}`, context));
  }
  const composition = {
    ...context.own,
    from: readFrom(request.from, context.account),
    to,
    cc,
    bcc,
    replyTo,
    subject,
    attachments,
    ...(text !== undefined && { text }),
    ...(html !== undefined && { html }),
    ...(request.inReplyTo && (await readThread(request.inReplyTo, context))),
    headers: request.headers ?? {},
  };
  check(composition);
  return composition;
}

/** The account itself, with a name or a tag of its choice. */
function readFrom(
  given: Correspondent | undefined,
  { address, displayName }: SendingAccount,
): Correspondent {
  if (!given) return { name: displayName, address };
  if (!isOwnAddress(given.address, address)) {
    throw invalidField('from.address', `must be ${address}, or that with a +tag`);
  }
  return { name: given.name ?? displayName, address: given.address };
}

/** Whether mail to an address reaches the account: case and `+tag` are ignored. */
export function isOwnAddress(text: string, own: string): boolean {
  const address = parseAddress(text);
  const account = parseAddress(own);
  if (!address || !account || address.domain !== account.domain) return false;
  const local = address.local.toLowerCase();
  return local === account.local || local.startsWith(`${account.local}+`);
}

/** The most Message-IDs of a thread that an answer names: the first, and the last ones. */
const REFERENCES_MAX = 50;
const MESSAGE_ID = /<[!-;=?-~]{1,900}>/g;

/** The fields of an answer about the message that it answers (RFC 5322 section 3.6.4). */
async function readThread(
  { mailbox, uid }: MessageLocation,
  { mailstore, user }: RequestContext,
): Promise<Pick<Composition, 'inReplyTo' | 'references'>> {
  const message = await mailstore.fetchMessage(user, mailbox, uid);
  const { fields } = await readHeader(message.open());
  const idsIn = (wanted: string) => {
    const field = fields.find(({ name }) => name === wanted);
    return field ? [...fieldValue(field).matchAll(MESSAGE_ID)].map(([id]) => id) : [];
  };
  const [inReplyTo] = idsIn('message-id');
  if (inReplyTo === undefined) return {};
  const before = idsIn('references');
  const parents = before.length > 0 ? before : idsIn('in-reply-to').slice(0, 1);
  const [first, ...rest] = [...new Set([...parents, inReplyTo])];
  return { inReplyTo, references: [first ?? inReplyTo, ...rest.slice(-REFERENCES_MAX)] };
}

/** Octets that the composer gets at a time, so that other work gets a turn. */
const PIECE = 64 * 1024;
const ANY_TYPE = 'application/octet-stream';

function readAttachment(
  { content, mailbox, uid, uidvalidity, part, ...given }: GivenAttachment,
  field: string,
  context: RequestContext,
): Promise<ComposedAttachment> | ComposedAttachment {
  if (mailbox !== undefined && uid !== undefined && part !== undefined && content === undefined) {
    const location = { mailbox, uid, ...(uidvalidity !== undefined && { uidvalidity }) };
    return readPart(given, location, part, context);
  }
  const named = [mailbox, uid, uidvalidity, part];
  if (content === undefined || named.some((one) => one !== undefined)) {
    throw invalidField(field, 'must have content, or mailbox, uid and part');
  }
  if (content.length % 4 !== 0 || !/^[A-Za-z\d+/]*={0,2}$/.test(content)) {
    throw invalidField(`${field}.content`, 'must be base64, padded, on one line');
  }
  const bytes = Buffer.from(content, 'base64');
  const open = () => Readable.from(piecesOf(bytes));
  return { ...given, contentType: typeOf(given.contentType), open };
}

function* piecesOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
}

/** A part of a message of the account; its bytes do not pass through the app. */
async function readPart(
  given: Omit<GivenAttachment, 'content' | keyof MessageLocation | 'part'>,
  location: MessageLocation,
  part: string,
  { mailstore, user, onRead }: RequestContext,
): Promise<ComposedAttachment> {
  const { mailbox, uid, uidvalidity } = location;
  const content = await mailstore.fetchPart(user, mailbox, uid, part);
  onRead?.(content.size);
  const message = await mailstore.fetchMessage(user, mailbox, uid);
  // Afterwards: where the mailbox was made anew meanwhile, both may be of another message.
  if (uidvalidity !== undefined) await pinLocation(mailstore, user, location);
  const number = parsePartNumber(part);
  const found = number === undefined ? undefined : findPart(message.structure, number);
  const filename = given.filename ?? content.filename;
  return {
    ...given,
    ...(filename !== undefined && { filename }),
    contentType: typeOf(given.contentType ?? found?.type),
    open: () => Readable.from(content.open()),
  };
}

/** A message within a message is sent as a file: only the composer writes structure. */
function typeOf(type: string = ANY_TYPE): string {
  return /^(?:multipart|message)\//i.test(type) ? ANY_TYPE : type;
}

/** Tolerance for the clocks of clients. */
const SKEW_MS = 60_000;
const LATEST_MS = 366 * DAY_MS;

/**
 * Reads when a message is to be sent.
 *
 * @returns milliseconds since 1970; undefined for at once
 * @throws Refusal invalid_request (`sendAt`, `delaySeconds`)
 */
export function readSendAt({ sendAt, delaySeconds }: SendTimes, now: EpochMs): number | undefined {
  if (delaySeconds !== undefined) {
    if (sendAt !== undefined) throw invalidField('delaySeconds', 'must not stand beside sendAt');
    return delaySeconds === 0 ? undefined : now + delaySeconds * 1_000;
  }
  if (sendAt === undefined) return undefined;
  const instant = readInstant('sendAt', sendAt);
  if (instant < now - SKEW_MS) throw invalidField('sendAt', 'must not be in the past');
  if (instant > now + LATEST_MS) throw invalidField('sendAt', 'must be within a year');
  return instant <= now ? undefined : instant;
}
