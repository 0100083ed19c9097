/** POST /mail/send, POST /mail/drafts, GET /mail/sends: mail that an account writes and sends, and its status. */

import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { Accepted, SavedDraft, Sending, SendStatus } from '../../mail/sending/sending.ts';
import { invalidField } from '../../platform/errors/errors.ts';
import { LargeRequests } from './large-requests.ts';
import { readMessage, storedMessage } from './mail-append.ts';
import { uidSchema } from './mail-schemas.ts';
import { answerWithin, KEY_MAX, keyHeaders, readKey } from './repeat-safely.ts';
import type { Api, RouteGroup, RouteTools } from './route-tools.ts';
import { Flag, OneOf, Text } from './schemas.ts';
import { draftBody, sendBody, times } from './send-body.ts';

/** The most bytes of a message as JSON; a larger one is sent as message/rfc822. */
const SEND_BODY_MAX = 16 * 1024 * 1024;
/** Characters of a Message-ID: no line of a header is longer (RFC 5322 section 2.1.1). */
const MESSAGE_ID_MAX = 998;

const query = Type.Object(times);

const sendId = Text('The id of the sent message.', '7a9c2f2e-4f0e-4a55-9a52-0d0cf0b8e3c1');
const messageId = Type.String({ examples: ['<7b1f@acme.test>'] });

const acceptedAnswer = Type.Unsafe<Accepted>(
  Type.Object({
    id: sendId,
    messageId,
    mailbox: Text('Where the copy is.', 'Sent'),
    uid: uidSchema,
    uidvalidity: Type.String({ examples: ['1795244400'] }),
    status: Type.String({ examples: ['queued'] }),
  }),
);

const status = OneOf(
  ['queued', 'delivered', 'deferred', 'bounced', 'cancelled'],
  '`queued`: not tried yet; `deferred`: it failed and is tried again; `delivered`: the mail server of the recipient accepted it; `bounced`: it failed for good.',
);

const statusAnswer = Type.Unsafe<SendStatus>(
  Type.Object(
    {
      id: sendId,
      messageId,
      status,
      sendAt: Type.Optional(Text('RFC 3339', '2026-02-01T08:00:00.000Z')),
      copy: Type.Optional(
        Type.Object(
          {
            mailbox: Type.String({ examples: ['Sent'] }),
            uid: uidSchema,
            uidvalidity: Type.String({ examples: ['1795244400'] }),
          },
          {
            description:
              'Where it is in Sent; left out where a mail program submitted it, or it was cancelled.',
          },
        ),
      ),
      recipients: Type.Array(
        Type.Object({
          address: Type.String({ examples: ['bob@sender.test'] }),
          status,
          detail: Type.Optional(
            Text("The answer of the recipient's mail server.", '250 2.0.0 Ok: queued'),
          ),
        }),
      ),
    },
    { title: 'Send', description: 'A message that an account sent.' },
  ),
);

const savedDraft = Type.Unsafe<SavedDraft>(
  Type.Object(
    {
      ...storedMessage.properties,
      parts: Type.Array(Type.String({ examples: ['2'] }), {
        description:
          'Part numbers of its attachments, in the order of the request: the next save names them in place of their bytes.',
      }),
    },
    { title: 'SavedDraft', description: 'Where a draft was stored.' },
  ),
);

const cancelAnswer = Type.Object({
  ok: Type.Boolean(),
  draft: Type.Object(
    {
      mailbox: Type.String({ examples: ['Drafts'] }),
      uid: uidSchema,
      uidvalidity: Type.Optional(Type.String({ examples: ['1795244400'] })),
    },
    { description: 'Where the message is now: its old draft, or a new one if there was none.' },
  ),
});

export function mailSendRoutes(sending: Sending, maxMessageBytes: number): RouteGroup {
  return (app, tools) => {
    const large = new LargeRequests();
    // In a scope of its own: no other route accepts messages by this parser.
    app.register((scope, _options, done) => {
      sendRoute(scope, tools, sending, { large, maxMessageBytes });
      done();
    });
    draftRoute(app, tools, sending, large);
    cancelRoute(app, tools, sending);
    statusRoutes(app, tools, sending);
  };
}

/** Of a message that Postroom writes. */
const refusals = [
  'message_too_large',
  'mailbox_not_found',
  'message_not_found',
  'part_not_found',
  'uidvalidity_changed',
  'quota_exceeded',
] as const;

/** Whose body may be large. Before it is read: nobody else can make us hold so much. */
function readLarge({ authenticateMail }: RouteTools, large: LargeRequests) {
  return async (request: FastifyRequest, reply: FastifyReply, payload: Readable) => {
    const holder = await authenticateMail(request);
    const body = Readable.from(large.read(request, reply, payload, holder), { objectMode: false });
    // It may break off when it is no longer read: after a refusal.
    return body.on('error', () => undefined);
  };
}

interface SendLimits {
  readonly large: LargeRequests;
  readonly maxMessageBytes: number;
}

function sendRoute(
  app: Api,
  tools: RouteTools,
  sending: Sending,
  { large, maxMessageBytes }: SendLimits,
): void {
  // Not read yet.
  app.addContentTypeParser('message/rfc822', (_request, payload, done) => done(null, payload));
  app.post('/mail/send', {
    bodyLimit: SEND_BODY_MAX,
    preParsing: readLarge(tools, large),
    schema: {
      summary: 'Send a message',
      operationId: 'sendMessage',
      description:
        'The answer comes once the message is stored: in Sent, and for its recipients, who each get it once. Postroom tries for five days; for a recipient who does not get it, the account gets a bounce in INBOX. With `Idempotency-Key` the same request can be made again: the message is sent once. A body of `message/rfc822`, at most `MAX_MESSAGE_BYTES`, is sent as it is to the recipients that To, Cc and Bcc name; only there `sendAt` and `delaySeconds` are parameters of the query.',
      headers: keyHeaders('for as long as the sent message is known'),
      querystring: query,
      body: {
        content: {
          'application/json': { schema: sendBody },
          'message/rfc822': {
            schema: Type.Unknown({ description: 'The source of the message.' }),
          },
        },
      },
      response: { 202: acceptedAnswer },
    },
    config: {
      // Its key is found as long as the message is known.
      takesKey: false,
      refusals: [
        'send_disabled',
        'domain_not_ready',
        'send_limit',
        'idempotency_key_reused',
        ...refusals,
      ],
    },
    handler: (request, reply) => large.work(request, accept(request, reply)),
  });

  async function accept(request: FastifyRequest, reply: FastifyReply): Promise<Accepted> {
    const user = await tools.authenticateMail(request);
    const key = readKey(request);
    reply.code(202);
    const { body } = request;
    if (body === undefined) throw invalidField('body', 'must be JSON or a message');
    if (body instanceof Readable) {
      const source = readMessage(body, maxMessageBytes);
      return sending.sendSource(user, source, request.query as Static<typeof query>, key);
    }
    // Ignored, they would let a message go out now that was meant for later.
    const misplaced = Object.keys(times).find((name) => name in Object(request.query));
    if (misplaced) throw invalidField(misplaced, 'must be a member of the body, not in the query');
    const onRead = (octets: number) => large.add(request, reply, user, octets);
    return sending.send(user, body as Static<typeof sendBody>, key, onRead);
  }
}

function draftRoute(app: Api, tools: RouteTools, sending: Sending, large: LargeRequests): void {
  app.post('/mail/drafts', {
    bodyLimit: SEND_BODY_MAX,
    preParsing: readLarge(tools, large),
    schema: {
      summary: 'Save a draft',
      operationId: 'saveDraft',
      description:
        'Stores a message in the mailbox of drafts, with `\\Draft` and `\\Seen`; nothing is sent. Members are those of `POST /mail/send`, and nothing has to be complete: recipients may be missing, or be no addresses yet. Files of other messages are named by `mailbox`, `uid` and `part`, also those of the draft that it takes the place of: the answer says which parts they are.',
      body: draftBody,
      response: { 201: savedDraft },
    },
    config: { refusals: [...refusals, 'mailbox_refused', 'mail_server_refused'] },
    handler: (request, reply) => large.work(request, save(request, reply)),
  });

  async function save(request: FastifyRequest, reply: FastifyReply): Promise<SavedDraft> {
    const user = await tools.authenticateMail(request);
    reply.code(201);
    const draft = request.body as Static<typeof draftBody>;
    const within = answerWithin<SavedDraft>(request, 201, (stored) => stored);
    const onRead = (octets: number) => large.add(request, reply, user, octets);
    return sending.saveDraft(user, draft, readKey(request), within, onRead);
  }
}

function cancelRoute(app: Api, tools: RouteTools, sending: Sending): void {
  app.post('/mail/sends/cancel', {
    schema: {
      summary: 'Cancel a message',
      operationId: 'cancelSend',
      description:
        'Works until the message went out to any recipient. The message is removed from Sent and is a draft again. A second call gets the same answer.',
      body: Type.Object({ id: sendId }),
      response: { 200: cancelAnswer },
    },
    config: { takesKey: false, refusals: ['send_not_found', 'already_sent'] },
    handler: async (request) => {
      const user = await tools.authenticateMail(request);
      return { ok: true, draft: await sending.cancel(user, request.body.id) };
    },
  });
}

/** Messages whose status one request reads. */
const SENDS_READ = 100;

function statusRoutes(app: Api, tools: RouteTools, sending: Sending): void {
  app.post('/mail/sends/read', {
    config: { onlyReads: true, takesKey: false },
    schema: {
      summary: 'Read the status of several sent messages',
      operationId: 'readSends',
      description:
        'In the order of `ids`. Those that the account did not send, or that are not kept any more, are left out. With `waiting`, the others that wait follow: those that go out later, and those that are tried again.',
      body: Type.Object({
        ids: Type.Array(sendId, { maxItems: SENDS_READ }),
        waiting: Type.Optional(
          Flag(
            'Also messages that a recipient still waits for, whichever app or mail program sent them: the newest, at most 100.',
          ),
        ),
      }),
      response: { 200: Type.Object({ sends: Type.Array(statusAnswer) }) },
    },
    handler: async (request) => {
      const user = await tools.authenticateMail(request);
      const { ids, waiting = false } = request.body;
      if (ids.length === 0 && !waiting) throw invalidField('ids', 'must not be empty');
      return { sends: await sending.findAll(user, ids, waiting) };
    },
  });
  const config = { refusals: ['send_not_found'] } as const;
  const response = { 200: statusAnswer };
  const find = async (request: FastifyRequest, by: Parameters<Sending['find']>[1]) =>
    sending.find(await tools.authenticateMail(request), by);
  app.get('/mail/sends/:id', {
    schema: {
      summary: 'Read the status of a sent message',
      operationId: 'readSend',
      description: 'Kept for 30 days.',
      params: Type.Object({ id: sendId }),
      response,
    },
    config,
    handler: (request) => find(request, { id: request.params.id }),
  });
  app.get('/mail/sends', {
    schema: {
      summary: 'Find a message by its key',
      operationId: 'findSend',
      description: 'The message that was sent with this `Idempotency-Key`.',
      querystring: Type.Object({
        key: Type.String({ minLength: 1, maxLength: KEY_MAX, examples: ['order-4711'] }),
      }),
      response,
    },
    config,
    handler: (request) => find(request, { key: request.query.key }),
  });
  app.get('/mail/sends/by-message-id', {
    schema: {
      summary: 'Find a message by its Message-ID',
      operationId: 'findSendByMessageId',
      description:
        'The newest message with this Message-ID, also one that a mail program submitted.',
      querystring: Type.Object({
        messageId: Type.String({
          minLength: 1,
          maxLength: MESSAGE_ID_MAX,
          examples: ['<7b1f@acme.test>'],
        }),
      }),
      response,
    },
    config,
    handler: (request) => find(request, { messageId: request.query.messageId }),
  });
}
