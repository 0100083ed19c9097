/** Pieces of schema that the mail routes share. */
import type { Readable } from 'node:stream';
import { type TSchema, Type } from 'typebox';

const addresses = Type.Optional(
  Type.Array(
    Type.Object({ name: Type.Optional(Type.String()), address: Type.Optional(Type.String()) }),
  ),
);

export const envelopeSchema = Type.Object({
  date: Type.Optional(Type.String({ description: 'RFC 3339' })),
  subject: Type.String(),
  from: addresses,
  sender: addresses,
  replyTo: addresses,
  to: addresses,
  cc: addresses,
  bcc: addresses,
  inReplyTo: Type.Optional(Type.String()),
  messageId: Type.Optional(Type.String()),
});

/** A tree of parts: the members of each are those of IMAP's BODYSTRUCTURE. */
export const bodyStructureSchema = Type.Object(
  {
    part: Type.Optional(Type.String({ description: 'IMAP part number (RFC 3501 section 6.4.5)' })),
    type: Type.String(),
    parameters: Type.Optional(Type.Record(Type.String(), Type.String())),
    encoding: Type.Optional(Type.String()),
    size: Type.Optional(Type.Integer()),
    id: Type.Optional(Type.String()),
    disposition: Type.Optional(Type.String()),
    dispositionParameters: Type.Optional(Type.Record(Type.String(), Type.String())),
    childNodes: Type.Optional(
      Type.Array(
        Type.Object({}, { additionalProperties: true, description: 'Parts of the same shape' }),
      ),
    ),
  },
  { description: 'Body structure of the message' },
);

/** Which message of which mailbox, as the query of a GET names it. */
export const messageQuery = {
  mailbox: Type.Optional(
    Type.String({ maxLength: 1_024, description: 'Mailbox name; INBOX when left out.' }),
  ),
  // RFC 3501 section 2.3.1.1: a UID is a 32-bit number that is not zero.
  uid: Type.Integer({ minimum: 1, maximum: 4_294_967_295 }),
};

/** Describes an answer whose JSON the route writes itself, as text or as a stream of text. */
export function writtenHere(schema: TSchema) {
  return Type.Unsafe<string | Buffer | Readable>(schema);
}
