/** A message that an app wrote itself: its author and its recipients. */

import type { StagedBody } from '../../mailboxes/bodies/bodies.ts';
import { prependHeader, type StagedMessage } from '../../mailboxes/mailstore/mailstore.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import {
  fieldValue,
  formatDate,
  type HeaderField,
  rawValue,
  readAddressList,
  readHeader,
} from '../../protocols/message/message.ts';
import type { SendingAccount } from '../../tenants/accounts/accounts.ts';
import {
  isDeceptive,
  isSendable,
  isSingleField,
  isTraceField,
  NOT_HIDDEN,
  RECIPIENTS_MAX,
  recipientsOf,
} from './compose-message.ts';
import { isOwnAddress, type OwnFields } from './read-request.ts';

export interface ReadSource {
  /** With the missing fields added. */
  readonly staged: StagedMessage;
  readonly messageId: string;
  /** Envelope sender; `''` for the null sender. */
  readonly from: string;
  readonly recipients: readonly string[];
}

const OF_EARLIER_HOSTS = new Set(['received', 'return-path']);

/** RFC 5322 section 3.6.4, without its obsolete forms. */
const MESSAGE_ID = /^<[!-;=?-~]{1,490}@[!-;=?-~]{1,490}>$/;

/**
 * Reads the header of a message, and adds `Message-ID` and `Date` where it has none. One that is not valid stays below ours,
 * and is left out when the message is sent.
 *
 * @param submitted the recipients of the envelope, where a mail program submitted it (RFC 6409): those that the header
 *   names do not count then, relays before us may have written `Received`, and `Return-Path` is left out when it is sent
 * @throws Refusal invalid_request that names the field; message_too_large
 */
export async function readSource(
  staged: StagedMessage,
  open: (body: StagedBody) => AsyncIterable<Uint8Array>,
  account: SendingAccount,
  own: OwnFields,
  submitted?: readonly string[],
): Promise<ReadSource> {
  const { fields, isWhole } = await readHeader(open(staged.body));
  if (!isWhole) throw new Refusal('message_too_large', 'the header is too long to be sent');
  const seen = new Set<string>();
  for (const field of fields) {
    const isOfEarlierHost = submitted && OF_EARLIER_HOSTS.has(field.name);
    if (isTraceField(field.name) && !isOfEarlierHost) {
      throw invalidField(field.name, 'is written by mail servers; leave it out');
    }
    checkField(field, seen);
  }
  const [from, ...others] = addressesOf(fields, 'from');
  if (from === undefined || others.length > 0 || !isOwnAddress(from, account.address)) {
    throw invalidField('from', `must be ${account.address} alone, or that with a +tag`);
  }
  // RFC 5322 section 3.6.2: who sends on behalf of the author.
  if (addressesOf(fields, 'sender').some((sender) => !isOwnAddress(sender, account.address))) {
    throw invalidField('sender', `must be ${account.address}, or left out`);
  }
  const messageId = readMessageId(fields, submitted !== undefined);
  const hasDate = fields.some(({ name }) => name === 'date');
  const missing = [
    ...(messageId === undefined ? [`Message-ID: ${own.messageId}\r\n`] : []),
    ...(hasDate ? [] : [`Date: ${formatDate(own.date.getTime())}\r\n`]),
  ];
  return {
    staged: missing.length > 0 ? prependHeader(Buffer.from(missing.join('')), staged) : staged,
    messageId: messageId ?? own.messageId,
    from,
    recipients: submitted ?? readRecipients(fields),
  };
}

/** Lines of a field: each but the first begins with white space (RFC 5322 section 2.2.3). */
const FIELD_LINES = /^[^\x00-\x08\x0a-\x1f\x7f]*(?:\r?\n[ \t][^\x00-\x08\x0a-\x1f\x7f]*)*$/;

/** A line longer than RFC 5322 section 2.1.1 allows: servers cut or refuse it. */
const LONG_LINE = /[^\r\n]{999}/;

/**
 * Refuses a field that readers could read as another one than we do, under our signature.
 *
 * @param seen names of the fields before
 */
function checkField({ name, text }: HeaderField, seen: Set<string>): void {
  if (name === '' || !FIELD_LINES.test(text)) {
    const expected = 'must be followed by lines of header fields alone, without control characters';
    throw invalidField(name === '' ? 'header' : name, expected);
  }
  if (isSingleField(name) && seen.has(name)) throw invalidField(name, 'must be there once');
  if (LONG_LINE.test(text)) throw invalidField(name, 'must have lines of at most 998 octets');
  seen.add(name);
}

function readRecipients(fields: readonly HeaderField[]): string[] {
  const listOf = (name: string) => addressesOf(fields, name).map((address) => ({ address }));
  const recipients = recipientsOf({ to: listOf('to'), cc: listOf('cc'), bcc: listOf('bcc') });
  if (recipients.length === 0) throw invalidField('to', 'must name a recipient; so can Cc and Bcc');
  if (recipients.length > RECIPIENTS_MAX) {
    throw invalidField('to', `must have at most ${RECIPIENTS_MAX} recipients, with Cc and Bcc`);
  }
  return recipients;
}

/** @throws Refusal for a list that readers could understand in different ways */
function addressesOf(fields: readonly HeaderField[], name: string): string[] {
  return fields
    .filter((field) => field.name === name)
    .flatMap((field) => {
      const { mailboxes, isExact } = readAddressList(rawValue(field));
      if (mailboxes.some((one) => isDeceptive(one.name))) throw invalidField(name, NOT_HIDDEN);
      if (isExact && mailboxes.every(({ address }) => isSendable(address))) return mailboxes;
      throw invalidField(
        name,
        'must be a list of addresses (RFC 5322 section 3.4) without "<" and invisible characters in them',
      );
    })
    .map(({ address }) => address);
}

/** Of what a program submits, ours replaces one that is not valid (RFC 6409 section 8.3): scanners and scripts write such. */
function readMessageId(fields: readonly HeaderField[], isSubmitted: boolean): string | undefined {
  const [field, ...others] = fields.filter(({ name }) => name === 'message-id');
  if (!field) return undefined;
  const id = fieldValue(field);
  if (others.length === 0 && MESSAGE_ID.test(id)) return id;
  if (isSubmitted) return undefined;
  throw invalidField('message-id', 'must be one, such as <1@acme.test>');
}
