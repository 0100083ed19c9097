/** From what an app asks to send to a message that can be written. */
import { Readable } from 'node:stream';
import type { SendingAccount } from '../accounts/accounts.ts';
import { invalidField } from '../errors/errors.ts';
import { parseAddress } from '../message/message.ts';
import {
  type ComposedAttachment,
  type Composition,
  type Correspondent,
  checkComposition,
} from './compose-message.ts';

/** A file whose bytes came with the request. */
export interface GivenAttachment {
  readonly filename?: string;
  readonly contentType?: string;
  /** Base64 (RFC 4648 section 4). */
  readonly content: string;
  readonly contentId?: string;
  readonly inline?: boolean;
}

/** What an app gives of a message; addresses and texts are not checked yet. */
export interface ComposeRequest {
  readonly from?: Correspondent;
  readonly to?: readonly Correspondent[];
  readonly cc?: readonly Correspondent[];
  readonly bcc?: readonly Correspondent[];
  readonly replyTo?: readonly Correspondent[];
  readonly subject?: string;
  readonly text?: string;
  readonly html?: string;
  readonly attachments?: readonly GivenAttachment[];
  readonly headers?: Readonly<Record<string, string>>;
}

/** What is ours to write. */
interface OwnFields {
  readonly messageId: string;
  readonly date: Date;
}

/** @throws Refusal invalid_request that names the field */
export function compositionOf(
  request: ComposeRequest,
  account: SendingAccount,
  own: OwnFields,
): Composition {
  const { to = [], cc = [], bcc = [], replyTo = [], subject = '', text, html } = request;
  const composition = {
    ...own,
    from: readFrom(request.from, account),
    ...{ to, cc, bcc, replyTo, subject },
    ...(text !== undefined && { text }),
    ...(html !== undefined && { html }),
    attachments: (request.attachments ?? []).map(readAttachment),
    headers: request.headers ?? {},
  };
  checkComposition(composition);
  return composition;
}

/** The account itself, under a name or a tag of its choice. */
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

/** Whether mail to an address comes to the account: case and `+tag` are no part of its name. */
export function isOwnAddress(text: string, own: string): boolean {
  const address = parseAddress(text);
  const account = parseAddress(own);
  if (!address || !account || address.domain !== account.domain) return false;
  const local = address.local.toLowerCase();
  return local === account.local || local.startsWith(`${account.local}+`);
}

/** Octets that are given to the composer at a time, so that others have their turn. */
const PIECE = 64 * 1024;

function readAttachment(
  { content, contentType = 'application/octet-stream', ...rest }: GivenAttachment,
  index: number,
): ComposedAttachment {
  if (content.length % 4 !== 0 || !/^[A-Za-z\d+/]*={0,2}$/.test(content)) {
    throw invalidField(`attachments[${index}].content`, 'must be base64, padded, on one line');
  }
  const bytes = Buffer.from(content, 'base64');
  return { ...rest, contentType, open: () => Readable.from(piecesOf(bytes)) };
}

function* piecesOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
}
