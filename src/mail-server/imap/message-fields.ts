/**
 * What a sync adds to new messages, read off the server without their sources.
 *
 * The envelope is read from the header fields by the parser of `message/`, not from the server's
 * ENVELOPE: it is then to the letter what the message itself says, as in every store of ours (an
 * ENVELOPE fills in Sender and Reply-To, and each server cuts addresses its own way).
 */

import type { AddedMessage, MessageField } from '../../mailstore/mailstore.ts';
import { MessageParser } from '../../message/message.ts';
import { readBodyStructure } from './body-structure.ts';
import type { FetchedItems } from './fetch.ts';
import { readFlags } from './server-flags.ts';
import { type Argument, atom, bytesOf, listOf, numberOf, peek, textOf } from './wire.ts';

const ENVELOPE_FIELDS = [
  'DATE',
  'SUBJECT',
  'FROM',
  'SENDER',
  'REPLY-TO',
  'TO',
  'CC',
  'BCC',
  'IN-REPLY-TO',
  'MESSAGE-ID',
];

/** More of a header is not read for meaning anyway. */
const HEADER_MAX = 256 * 1024;

/** Data items of RFC 3501 section 6.4.5. */
const itemsOfField: Readonly<Record<MessageField, Argument>> = {
  envelope: peek([atom('HEADER.FIELDS'), ENVELOPE_FIELDS.map(atom)], [0, HEADER_MAX]),
  flags: atom('FLAGS'),
  size: atom('RFC822.SIZE'),
  internalDate: atom('INTERNALDATE'),
  bodyStructure: atom('BODYSTRUCTURE'),
};

export function fieldItems(fields: readonly MessageField[]): Argument[] {
  return [...new Set(fields)].map((field) => itemsOfField[field]);
}

export function readFields(
  uid: number,
  items: FetchedItems,
  fields: readonly MessageField[],
): AddedMessage {
  const has = new Set(fields);
  const header = has.has('envelope') ? bytesOf(items.get('BODY')) : undefined;
  const size = numberOf(items.get('RFC822.SIZE'));
  const internalDate = readInternalDate(textOf(items.get('INTERNALDATE')));
  const structure = has.has('bodyStructure')
    ? readBodyStructure(items.get('BODYSTRUCTURE'))
    : undefined;
  return {
    uid,
    ...(header && { envelope: parseEnvelope(header) }),
    ...(has.has('flags') && { flags: readFlags(listOf(items.get('FLAGS'))) }),
    ...(has.has('size') && size !== undefined && { size }),
    ...(has.has('internalDate') && internalDate !== undefined && { internalDate }),
    ...(structure && { bodyStructure: structure }),
  };
}

function parseEnvelope(header: Buffer) {
  const parser = new MessageParser();
  parser.write(header);
  return parser.end().envelope;
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** `17-Jul-1996 02:44:25 -0700` (RFC 3501 section 9, date-time) as RFC 3339 in UTC. */
export function readInternalDate(text: string | undefined): string | undefined {
  const match = /^\s?(\d{1,2})-([A-Za-z]{3})-(\d{4}) (\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)$/.exec(
    text ?? '',
  );
  if (!match) return undefined;
  const [, day, month = '', year, hour, minute, second, sign, zoneHours, zoneMinutes] = match;
  const index = MONTHS.findIndex((name) => name.toLowerCase() === month.toLowerCase());
  if (index < 0) return undefined;
  const offset = (Number(zoneHours) * 60 + Number(zoneMinutes)) * (sign === '-' ? -1 : 1);
  const local = Date.UTC(
    Number(year),
    index,
    Number(day),
    Number(hour),
    Number(minute),
    Number(second),
  );
  return new Date(local - offset * 60_000).toISOString();
}
