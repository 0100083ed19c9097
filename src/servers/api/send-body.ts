/** The bodies of POST /mail/send and POST /mail/drafts: messages that Postroom writes. */
import { Type } from 'typebox';
import { MAILBOX_MAX, mailboxName, uidSchema, uidvaliditySchema } from './mail-schemas.ts';
import { Flag, Integer, Text } from './schemas.ts';

/** More than the limit of recipients, so that too many are refused with the name of their field. */
const RECIPIENTS_READ = 1_000;
const ATTACHMENTS_MAX = 100;

const correspondent = Type.Object(
  {
    name: Type.Optional(Type.String({ examples: ['Bob'] })),
    address: Type.String({ examples: ['bob@sender.test'] }),
  },
  { title: 'Correspondent' },
);
const correspondents = (description: string) =>
  Type.Optional(Type.Array(correspondent, { maxItems: RECIPIENTS_READ, description }));

/** A message of the account. */
const place = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        mailbox: mailboxName('Its mailbox.'),
        uid: uidSchema,
        uidvalidity: Type.Optional(uidvaliditySchema),
      },
      { description },
    ),
  );

/** The most seconds: a year. */
const DELAY_MAX = 366 * 24 * 60 * 60;
export const times = {
  sendAt: Type.Optional(
    Text(
      'When the message goes out (RFC 3339), within a year; at once when left out.',
      '2026-02-01T08:00:00Z',
      { maxLength: 40 },
    ),
  ),
  delaySeconds: Type.Optional(
    Integer(
      'The message goes out so many seconds later, and can be cancelled until then; in place of sendAt.',
      30,
      { minimum: 0, maximum: DELAY_MAX },
    ),
  ),
};

const attachment = Type.Object({
  filename: Type.Optional(Type.String({ examples: ['a.csv'] })),
  contentType: Type.Optional(
    Text('Media type; application/octet-stream when left out.', 'text/csv'),
  ),
  content: Type.Optional(Text('The bytes, as base64.', 'YSxiCg==')),
  mailbox: Type.Optional(
    Text(
      'In place of `content`, with `uid` and `part`: a part of another message of the account.',
      'INBOX',
      { maxLength: MAILBOX_MAX },
    ),
  ),
  uid: Type.Optional(uidSchema),
  uidvalidity: Type.Optional(uidvaliditySchema),
  part: Type.Optional(Text('IMAP part number.', '2')),
  contentId: Type.Optional(Text('The id that the HTML names as `cid:`.', 'logo@sender.test')),
  inline: Type.Optional(Flag('Meant to be shown within the message.')),
});

/** What a message is made of. */
const members = {
  from: Type.Optional(
    Type.Object(correspondent.properties, {
      description: 'The account, with a name or a +tag of its choice; the account when left out.',
    }),
  ),
  to: correspondents('Recipients.'),
  cc: correspondents('Recipients of copies.'),
  bcc: correspondents('Recipients whom nobody else sees; the copy in Sent names them.'),
  replyTo: correspondents('The addresses for answers.'),
  subject: Type.Optional(Type.String({ examples: ['Hello'] })),
  text: Type.Optional(Type.String({ examples: ['Hello, Bob.'] })),
  html: Type.Optional(Type.String({ examples: ['<p>Hello, Bob.</p>'] })),
  attachments: Type.Optional(Type.Array(attachment, { maxItems: ATTACHMENTS_MAX })),
  headers: Type.Optional(
    Type.Record(Type.String(), Type.String(), {
      description: 'Further header fields by name, such as List-Unsubscribe.',
    }),
  ),
};

export const sendBody = Type.Object(
  {
    ...members,
    to: correspondents('Recipients. To, Cc and Bcc together have 1 to 100.'),
    inReplyTo: place(
      'The message that is answered. Postroom writes In-Reply-To and References from it, and sets its `\\Answered`.',
    ),
    draft: place(
      'The draft that is sent: it is removed once the mail is sent. It has the flag `\\Draft`, or is in the mailbox of drafts.',
    ),
    ...times,
  },
  {
    examples: [
      { to: [{ name: 'Bob', address: 'bob@sender.test' }], subject: 'Hello', text: 'Hello, Bob.' },
    ],
  },
);

export const draftBody = Type.Object(
  {
    ...members,
    inReplyTo: place(
      'The message that is answered. Postroom writes In-Reply-To and References from it.',
    ),
    draft: place(
      'The draft that this one takes the place of: it is removed. It has the flag `\\Draft`, or is in the mailbox of drafts.',
    ),
  },
  { examples: [{ to: [{ address: 'bob@sender.test' }], text: 'Dear Bob,' }] },
);
