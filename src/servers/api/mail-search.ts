/** POST /mail/search: messages by their words and properties. */
import { Type } from 'typebox';
import {
  type Mailstore,
  normalizeFlags,
  type SearchResult,
} from '../../mailboxes/mailstore/mailstore.ts';
import { readInstant } from '../../platform/errors/errors.ts';
import {
  envelopeSchema,
  MAIL_BODY_MAX,
  mailboxName,
  threadIdSchema,
  uidSchema,
} from './mail-schemas.ts';
import { forReading, type RouteGroup } from './route-tools.ts';
import { Flag, Text, timeBound } from './schemas.ts';

const MATCHES_DEFAULT = 50;
const MATCHES_MAX = 500;

/** Longer texts are refused with a code of their own. */
const text = (description: string) =>
  Type.Optional(Type.String({ maxLength: 10_240, description, examples: ['invoice'] }));
const octets = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: 4_294_967_295, description }));
const flags = (description: string) =>
  Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
      maxItems: 64,
      description,
      examples: [['\\Seen']],
    }),
  );

const searchBody = Type.Object(
  {
    mailbox: Type.Optional(mailboxName('Where to search; all mailboxes when left out.')),
    text: text('Words anywhere: subject, names, addresses, text, file names. `inv*` is a prefix.'),
    from: text('Words of the names and addresses in From.'),
    to: text('Words of the names and addresses in To, Cc and Bcc.'),
    subject: text('Words of the subject.'),
    body: text('Words of the text and of the names of attachments.'),
    since: timeBound('Arrived at this date or time (RFC 3339) or later.'),
    before: timeBound('Arrived before this date or time.'),
    larger: octets('More bytes than this.'),
    smaller: octets('Fewer bytes than this.'),
    flags: flags('All of these flags.'),
    notFlags: flags('None of these flags.'),
    hasAttachment: Type.Optional(Flag('With attachments, or without.')),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: MATCHES_MAX,
        description: `The most matches in one answer; ${MATCHES_DEFAULT} when left out.`,
      }),
    ),
    cursor: Type.Optional(Type.String({ maxLength: 512, description: 'Of the answer before.' })),
  },
  { examples: [{ text: 'invoice*', from: 'bob', hasAttachment: true }] },
);

const searchAnswer = Type.Unsafe<SearchResult>(
  Type.Object({
    matches: Type.Array(
      Type.Object(
        {
          mailbox: Type.String({ examples: ['INBOX'] }),
          uid: uidSchema,
          envelope: envelopeSchema,
          flags: Type.Array(Type.String({ examples: ['\\Seen'] })),
          internalDate: Text('When the message arrived, RFC 3339.', '2026-01-31T12:00:00.000Z'),
          preview: Text('The first words, on one line.', 'Hello, Ada.'),
          threadId: threadIdSchema,
        },
        { title: 'SearchMatch' },
      ),
      { description: 'Newest first.' },
    ),
    cursor: Type.Optional(
      Text('Leads to the next page; absent on the last one.', 'MTc5NTI0NDQwMA'),
    ),
    indexing: Type.Optional(Flag('Some of the newest mail is not in the index yet.')),
  }),
);

export function mailSearchRoutes(mailstore: Mailstore): RouteGroup {
  return (app, tools) => {
    app.post('/mail/search', {
      bodyLimit: 4 * MAIL_BODY_MAX,
      schema: {
        summary: 'Search messages',
        operationId: 'searchMessages',
        description:
          'Messages that have every word, newest first. Words match whole, without regard to case ' +
          'and accents; in scripts without spaces any two characters in a row are found.',
        body: searchBody,
        response: { 200: searchAnswer },
      },
      config: {
        refusals: [
          'mailbox_not_found',
          'search_too_long',
          'nothing_to_search',
          'too_many_words',
          'too_many_prefixes',
          'prefix_too_short',
        ],
      },
      handler: async (request) => {
        const user = await tools.authenticateMail(request);
        const { text, from, to, subject, body, since, before, limit, ...rest } = request.body;
        // No message has what is no flag: more likely it is misspelled, and every store says so.
        normalizeFlags(rest.flags ?? [], 'flags');
        normalizeFlags(rest.notFlags ?? [], 'notFlags');
        return mailstore.search(forReading(user, request), {
          ...rest,
          texts: { text, from, to, subject, body },
          ...(since !== undefined && { since: readInstant('since', since, true) }),
          ...(before !== undefined && { before: readInstant('before', before, true) }),
          limit: limit ?? MATCHES_DEFAULT,
        });
      },
    });
  };
}
