/** Parts of schemas that the mail routes share. */
import { Type } from 'typebox';
import { messageFields, type SyncRequest } from '../../mailboxes/mailstore/mailstore.ts';
import { SAME_SHAPE } from './route-tools.ts';
import { Flag, Integer, Text } from './schemas.ts';

/**
 * The most bytes of a body of /mail where a route sets nothing else: it is read before its sender is known. The largest
 * valid ones have two texts of 1,024 characters, each of which JSON can write with twelve bytes.
 */
export const MAIL_BODY_MAX = 32 * 1024;

const addresses = Type.Optional(
  Type.Array(
    Type.Object(
      { name: Type.Optional(Type.String()), address: Type.Optional(Type.String()) },
      { title: 'Address', examples: [{ name: 'Bob', address: 'bob@sender.test' }] },
    ),
    { description: 'Names and addresses.' },
  ),
);

export const envelopeSchema = Type.Object(
  {
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
  },
  {
    title: 'Envelope',
    description: 'The header fields that a list of messages shows.',
    examples: [
      {
        date: '2026-01-31T11:59:58.000Z',
        subject: 'Hello',
        from: [{ name: 'Bob', address: 'bob@sender.test' }],
        to: [{ name: 'Ada', address: 'ada@acme.test' }],
        messageId: '<1@sender.test>',
      },
    ],
  },
);

/** A tree of parts: the members of each are those of IMAP's BODYSTRUCTURE. */
export const bodyStructureSchema = Type.Object(
  {
    part: Type.Optional(Type.String({ description: 'IMAP part number (RFC 3501 section 6.4.5)' })),
    type: Type.String({ description: 'Media type, in lower case.' }),
    parameters: Type.Optional(Type.Record(Type.String(), Type.String())),
    encoding: Type.Optional(Type.String({ description: 'Content-Transfer-Encoding.' })),
    size: Type.Optional(Type.Integer({ description: 'Bytes, as encoded.' })),
    id: Type.Optional(Type.String()),
    disposition: Type.Optional(Type.String()),
    dispositionParameters: Type.Optional(Type.Record(Type.String(), Type.String())),
    childNodes: Type.Optional(
      Type.Array(Type.Object({}, { additionalProperties: true, [SAME_SHAPE]: 'BodyStructure' })),
    ),
  },
  {
    title: 'BodyStructure',
    description: 'A part of a message, with the parts in it (RFC 3501 section 7.4.2).',
    examples: [
      {
        type: 'multipart/mixed',
        parameters: { boundary: 'b1' },
        childNodes: [
          {
            part: '1',
            type: 'text/plain',
            parameters: { charset: 'utf-8' },
            encoding: '7bit',
            size: 12,
          },
          {
            part: '2',
            type: 'text/csv',
            encoding: 'base64',
            size: 812,
            disposition: 'attachment',
            dispositionParameters: { filename: 'a.csv' },
          },
        ],
      },
    ],
  },
);

/** No mailbox has a longer name. */
export const MAILBOX_MAX = 1_024;

/**
 * @param description of the mailbox in the call
 * @param maxLength in characters; the names of new mailboxes are shorter than others may be
 */
export function mailboxName(description: string, maxLength = MAILBOX_MAX) {
  return Type.String({ minLength: 1, maxLength, description, examples: ['INBOX'] });
}

export const uidvaliditySchema = Text(
  'As the last sync returned it; the call is refused if it has changed.',
  '1795244400',
  { maxLength: 64 },
);

/** What a client says that it has of a mailbox. `""` counts as absent, like null. */
export function givenState({ uidvalidity, token }: Pick<SyncRequest, 'uidvalidity' | 'token'>) {
  return { uidvalidity: uidvalidity || undefined, token: token || undefined };
}

/** The state of a mailbox after a call. */
export const mailboxState = {
  mailbox: Text('Name of the mailbox.', 'INBOX'),
  uidvalidity: Type.String({ examples: ['1795244400'] }),
  token: Text('What a sync returns now.', '45'),
};

/** The same in the form of an answer. */
export const mailboxStateSchema = Type.Object(mailboxState, {
  title: 'MailboxState',
  description: 'The state of a mailbox.',
});

export const fieldsSchema = Type.Array(Type.Enum([...messageFields]), {
  maxItems: messageFields.length,
  description: 'What each added message carries besides its uid.',
});

// RFC 3501 section 2.3.1.1: a UID is a 32-bit number that is not zero.
export const uidSchema = Integer('UID of the message in its mailbox.', 7, {
  minimum: 1,
  maximum: 4_294_967_295,
});

/** A message whose flags changed. */
export const updatedSchema = Type.Object(
  {
    uid: uidSchema,
    modseq: Type.String({ examples: ['44'] }),
    flags: Type.Array(Text('IMAP flags.', '\\Seen')),
  },
  { title: 'UpdatedMessage' },
);

export const removedSchema = Type.Object({ uid: uidSchema }, { title: 'RemovedMessage' });

export const threadIdSchema = Text(
  'The same for all messages of a conversation, in every mailbox of the account.',
  't1x0c9k2m7q',
);

/** The answer to a sync (contract 2). */
export const syncAnswer = Type.Object(
  {
    mailbox: Type.String({ description: 'The mailbox that was synced.' }),
    uidvalidity: Text('Pass it with the next sync, together with the token.', '1795244400'),
    token: Type.String({ description: 'Pass it with the next sync.' }),
    changes: Type.Object({
      added: Type.Array(
        Type.Object(
          {
            uid: uidSchema,
            envelope: Type.Optional(envelopeSchema),
            flags: Type.Optional(Type.Array(Type.String({ examples: ['\\Seen'] }))),
            size: Type.Optional(Type.Integer({ description: 'Bytes of the source.' })),
            internalDate: Type.Optional(
              Text('When the message arrived, RFC 3339.', '2026-01-31T12:00:00.000Z'),
            ),
            bodyStructure: Type.Optional(bodyStructureSchema),
            modseq: Type.Optional(Text('Of the last change; with `flags`.', '44')),
            preview: Type.Optional(Text('The first words, on one line.', 'Hello, Ada.')),
            threadId: Type.Optional(threadIdSchema),
            emailId: Type.Optional(
              Text(
                'Names these bytes, also after the message is moved (RFC 8474); absent if a mail server has none.',
                'M7f3a',
              ),
            ),
            hasAttachment: Type.Optional(
              Flag(
                'Whether anything is attached; pictures that the HTML shows (multipart/related, with a Content-ID) do not count.',
              ),
            ),
          },
          {
            title: 'AddedMessage',
            description: 'A new message, with the fields that were asked for.',
          },
        ),
      ),
      updated: Type.Array(updatedSchema),
      removed: Type.Array(removedSchema),
    }),
    reset: Type.Optional(Flag('The client first drops its copy of this mailbox.')),
    hasMore: Type.Optional(Flag('Call again with this token for the rest.')),
  },
  {
    title: 'Sync',
    description: 'What changed in a mailbox.',
    examples: [
      {
        mailbox: 'INBOX',
        uidvalidity: '1795244400',
        token: '45',
        changes: {
          added: [{ uid: 7 }],
          updated: [{ uid: 3, modseq: '44', flags: ['\\Seen'] }],
          removed: [{ uid: 2 }],
        },
      },
    ],
  },
);

/** One message of a mailbox, in the query of a GET. */
export const messageQuery = {
  mailbox: Type.Optional(Text('Mailbox name; INBOX when left out.', 'INBOX', { maxLength: 1_024 })),
  // RFC 3501 section 2.3.1.1: a UID is a 32-bit number that is not zero.
  uid: Integer('As in a sync.', 7, { minimum: 1, maximum: 4_294_967_295 }),
};
