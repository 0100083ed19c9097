/** GET /mail/content, POST /mail/messages: the texts of messages, without MIME. */
import type { FastifyReply } from 'fastify';
import { type Static, Type } from 'typebox';
import { readSenderResults } from '../../mail/delivery/delivery.ts';
import type { Mailstore, Message } from '../../mailboxes/mailstore/mailstore.ts';
import { isRefusal, Refusal, when } from '../../platform/errors/errors.ts';
import { Turns } from '../../platform/net/net.ts';
import { listAttachments, readHeader, readMessageTexts } from '../../protocols/message/message.ts';
import type { MailAccess } from '../../tenants/accounts/accounts.ts';
import {
  envelopeSchema,
  mailboxName,
  messageQuery,
  threadIdSchema,
  uidSchema,
} from './mail-schemas.ts';
import type { RouteGroup } from './route-tools.ts';
import { Flag, Integer, Text } from './schemas.ts';

/** The most bytes of text, and of HTML. */
const TEXT_MAX = 2 * 1024 * 1024;
/** The most messages in one call, and the characters of its answer after which the rest is left for the next. */
const MESSAGES_MAX = 100;
const ANSWER_MAX = 4 * 1024 * 1024;

const attachment = Type.Object(
  {
    part: Text('For /mail/attachment.', '2'),
    filename: Type.Optional(Type.String({ examples: ['a.csv'] })),
    contentType: Type.String({ examples: ['text/csv'] }),
    size: Integer('Bytes, transfer encoding removed.', 812),
    contentId: Type.Optional(Text('The id that the HTML names as `cid:`.', 'logo@sender.test')),
    inline: Flag('Meant to be shown within the message.'),
  },
  { title: 'Attachment' },
);

const authResult = Text('As in RFC 8601.', 'pass');

const content = {
  uid: uidSchema,
  flags: Type.Array(Text('IMAP flags.', '\\Seen')),
  envelope: envelopeSchema,
  internalDate: Text('When the message arrived, RFC 3339.', '2026-01-31T12:00:00.000Z'),
  size: Type.Integer({ description: 'Bytes of the source.' }),
  preview: Text('The first words, on one line.', 'Hello, Ada.'),
  threadId: threadIdSchema,
  text: Type.Optional(Text('The text/plain parts; absent where there are none.', 'Hello, Ada.')),
  textTruncated: Type.Optional(Flag('There is more text in the source.')),
  html: Type.Optional(
    Text('The text/html parts as they were sent: make them safe to show.', '<p>Hello, Ada.</p>'),
  ),
  htmlTruncated: Type.Optional(Flag('There is more HTML in the source.')),
  attachments: Type.Array(attachment),
  auth: Type.Optional(
    Type.Object(
      { spf: authResult, dkim: authResult, dmarc: authResult },
      {
        title: 'SenderResults',
        description:
          'The results of the sender checks when the message arrived; absent if it was not checked here.',
      },
    ),
  ),
};
const contentSchema = Type.Object(content, { title: 'Content' });

type Content = Static<typeof contentSchema>;
const contentFields = [
  'flags',
  'envelope',
  'internalDate',
  'size',
  'preview',
  'threadId',
  'text',
  'html',
  'attachments',
  'auth',
] as const;
type ContentField = (typeof contentFields)[number];

const messagesAnswer = Type.Object({
  messages: Type.Array(Type.Partial(contentSchema, { title: 'PartialContent' })),
  hasMore: Type.Optional(Flag('The answer was cut: ask again for the UIDs that are left.')),
});

/** @param hostname our name in Authentication-Results fields */
export function mailContentRoutes(mailstore: Mailstore, hostname: string): RouteGroup {
  return (app, tools) => {
    const readers = new Readers();
    app.get('/mail/content', {
      schema: {
        summary: 'Read a message without MIME',
        operationId: 'readContent',
        description: 'Its text, its HTML and what is attached. Never sets `\\Seen`.',
        querystring: Type.Object(messageQuery),
        response: { 200: contentSchema },
      },
      config: {
        refusals: ['mailbox_not_found', 'message_not_found', 'body_unavailable'],
      },
      handler: async (request, reply) => {
        const user = await tools.authenticateMail(request);
        const { mailbox, uid } = request.query;
        return readers.run(user, reply, async () => {
          const message = await mailstore.fetchMessage(user, mailbox || 'INBOX', uid);
          return (await readContent(message, contentFields, hostname)) as Content;
        });
      },
    });
    app.post('/mail/messages', {
      schema: {
        summary: 'Read several messages',
        operationId: 'readMessages',
        description:
          'As /mail/content, for up to 100 messages. A message that does not exist, or whose source cannot be read, is left out. An answer that becomes too long ends after a message, and has `hasMore`.',
        body: Type.Object(
          {
            mailbox: mailboxName('The mailbox that has the messages.'),
            uids: Type.Array(uidSchema, { minItems: 1, maxItems: MESSAGES_MAX }),
            fields: Type.Optional(
              Type.Array(Type.Enum([...contentFields]), {
                maxItems: contentFields.length,
                description: 'What each message carries besides its uid; all when left out.',
              }),
            ),
          },
          { examples: [{ mailbox: 'INBOX', uids: [6, 7], fields: ['envelope', 'preview'] }] },
        ),
        response: { 200: messagesAnswer },
      },
      config: { refusals: ['mailbox_not_found'] },
      handler: async (request, reply) => {
        const user = await tools.authenticateMail(request);
        const { mailbox, uids, fields = contentFields } = request.body;
        const read = async (uid: number) =>
          readContent(await mailstore.fetchMessage(user, mailbox, uid), fields, hostname);
        return readers.run(user, reply, () => readMessages([...new Set(uids)], read));
      },
    });
  };
}

/** The most requests that read texts at a time: of one account, of one user, and of all. Each holds some megabytes. */
const READING = { account: 2, user: 8, all: 64 };

/** Requests that read texts; the others wait, without holding any. */
class Readers {
  readonly #turns = new Turns(READING.all);

  /** Reads for a client, unless it leaves before its turn. */
  run<Answer>(
    user: MailAccess,
    { raw }: FastifyReply,
    read: () => Promise<Answer>,
  ): Promise<Answer> {
    const { accountId, userId } = user;
    const left = new AbortController();
    const leave = () => left.abort(new Refusal('unavailable', 'the client has left'));
    if (raw.destroyed) leave();
    raw.once('close', leave);
    const parties = [
      { name: `account ${accountId}`, most: READING.account },
      { name: `user ${userId}`, most: READING.user },
    ];
    return this.#turns.run(parties, read, left.signal).finally(() => raw.off('close', leave));
  }
}

async function readMessages(
  uids: readonly number[],
  read: (uid: number) => Promise<Partial<Content>>,
): Promise<Static<typeof messagesAnswer>> {
  const messages: Partial<Content>[] = [];
  let length = 0;
  for (const uid of uids) {
    const one = await read(uid).catch(passOverMissing);
    if (!one) continue;
    length += JSON.stringify(one).length;
    // The first is never left out, so that a client that asks again makes progress.
    if (messages.length > 0 && length > ANSWER_MAX) return { messages, hasMore: true };
    messages.push(one);
  }
  return { messages };
}

const passOverMissing = when(isRefusal('message_not_found', 'body_unavailable'), undefined);

async function readContent(
  message: Message,
  fields: readonly ContentField[],
  hostname: string,
): Promise<Partial<Content>> {
  const has = new Set(fields);
  const { uid, structure } = message;
  const open = message.open.bind(message);
  const texts =
    has.has('text') || has.has('html') ? await readMessageTexts(structure, TEXT_MAX, open) : {};
  const described =
    has.has('preview') || has.has('threadId') ? await message.describe() : undefined;
  const auth = has.has('auth') ? await readAuth(message, hostname) : undefined;
  const { text, textTruncated, html, htmlTruncated } = texts;
  return {
    uid,
    ...(has.has('flags') && { flags: [...message.flags] }),
    ...(has.has('envelope') && { envelope: message.envelope as Content['envelope'] }),
    ...(has.has('internalDate') && { internalDate: message.internalDate }),
    ...(has.has('size') && { size: message.size }),
    ...(has.has('preview') && { preview: described?.preview ?? '' }),
    ...(has.has('threadId') && { threadId: described?.threadId ?? '' }),
    ...(has.has('text') && text !== undefined && { text, ...(textTruncated && { textTruncated }) }),
    ...(has.has('html') && html !== undefined && { html, ...(htmlTruncated && { htmlTruncated }) }),
    ...(has.has('attachments') && { attachments: listAttachments(structure) }),
    ...(auth && { auth }),
  };
}

async function readAuth({ structure, open }: Message, hostname: string) {
  const { fields } = await readHeader(open({ start: 0, end: structure.bodyStart }));
  return readSenderResults(fields, hostname);
}
