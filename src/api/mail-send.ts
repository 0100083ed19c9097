/** POST /mail/send, GET /mail/sends: mail that an account sends, and what became of it. */
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { invalidField } from '../errors/errors.ts';
import type { Accepted, Sending, SendStatus } from '../sending/sending.ts';
import { uidSchema } from './mail-schemas.ts';
import { credentials, type RouteGroup } from './server.ts';

/** Octets of a message as JSON; a larger one goes as message/rfc822. */
const SEND_BODY_MAX = 16 * 1024 * 1024;
/** More than may be sent to: what is too many is refused by the field it is in. */
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

const attachment = Type.Object({
  filename: Type.Optional(Type.String({ examples: ['a.csv'] })),
  contentType: Type.Optional(
    Type.String({
      description: 'Media type; application/octet-stream when left out.',
      examples: ['text/csv'],
    }),
  ),
  content: Type.String({ description: 'The bytes, as base64.', examples: ['YSxiCg=='] }),
  contentId: Type.Optional(Type.String({ description: 'What HTML names as `cid:`.' })),
  inline: Type.Optional(Type.Boolean({ description: 'Meant to be shown within the message.' })),
});

const sendBody = Type.Object({
  from: Type.Optional(
    Type.Object(correspondent.properties, {
      description: 'The account, under a name or a +tag of its choice; the account when left out.',
    }),
  ),
  to: correspondents('Recipients. To, Cc and Bcc together have 1 to 100.'),
  cc: correspondents('Recipients of copies.'),
  bcc: correspondents('Recipients whom nobody else sees; the copy in Sent names them.'),
  replyTo: correspondents('Where answers go.'),
  subject: Type.Optional(Type.String({ examples: ['Hello'] })),
  text: Type.Optional(Type.String({ examples: ['Hello, Bob.'] })),
  html: Type.Optional(Type.String({ examples: ['<p>Hello, Bob.</p>'] })),
  attachments: Type.Optional(Type.Array(attachment, { maxItems: ATTACHMENTS_MAX })),
  headers: Type.Optional(
    Type.Record(Type.String(), Type.String(), {
      description: 'Further header fields by name, such as List-Unsubscribe.',
    }),
  ),
});

const sendId = Type.String({
  description: 'What the message is known by here.',
  examples: ['7a9c2f2e-4f0e-4a55-9a52-0d0cf0b8e3c1'],
});
const messageId = Type.String({ examples: ['<7b1f@acme.test>'] });

const acceptedAnswer = Type.Unsafe<Accepted>(
  Type.Object({
    id: sendId,
    messageId,
    mailbox: Type.String({ description: 'Where the copy is.', examples: ['Sent'] }),
    uid: uidSchema,
    uidvalidity: Type.String({ examples: ['1795244400'] }),
    status: Type.String({ examples: ['queued'] }),
  }),
);

const status = Type.Enum(['queued', 'delivered', 'deferred', 'bounced', 'cancelled'], {
  type: 'string',
  description:
    '`queued`: not tried yet; `deferred`: it failed and is tried again; `delivered`: the mail server ' +
    'of the recipient took it; `bounced`: it failed for good.',
});

const statusAnswer = Type.Unsafe<SendStatus>(
  Type.Object(
    {
      id: sendId,
      messageId,
      status,
      sendAt: Type.Optional(Type.String({ description: 'RFC 3339' })),
      recipients: Type.Array(
        Type.Object({
          address: Type.String({ examples: ['bob@sender.test'] }),
          status,
          detail: Type.Optional(Type.String({ description: 'What the far end said.' })),
        }),
      ),
    },
    { title: 'Send', description: 'A message that an account sent.' },
  ),
);

const KEY_MAX = 255;

/** The key by which a client repeats a request safely. @throws Refusal invalid_request */
function readKey({ headers }: FastifyRequest): string | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key === 'string' && /^[!-~]{1,255}$/.test(key)) return key;
  throw invalidField('idempotency-key', `must have 1 to ${KEY_MAX} visible ASCII characters`);
}

export function mailSendRoutes(sending: Sending): RouteGroup {
  return (app, tools) => {
    app.post(
      '/mail/send',
      {
        bodyLimit: SEND_BODY_MAX,
        // Before the body is read: nobody else makes us hold so much.
        onRequest: async (request) => {
          await tools.authenticateMail(request);
        },
        schema: {
          tags: ['Mail'],
          summary: 'Send a message',
          operationId: 'sendMessage',
          description:
            'The answer comes once the message is stored: in Sent, and for its recipients, who each get ' +
            'it once. It is tried for five days; a recipient who does not get it is told of in INBOX. ' +
            'With `Idempotency-Key` the same request can be made again: it is sent once.',
          security: credentials.bearer,
          body: sendBody,
          response: { 202: acceptedAnswer },
        },
        config: {
          refusals: [
            'account_inactive',
            'domain_not_ready',
            'message_too_large',
            'idempotency_key_reused',
          ],
        },
      },
      async (request, reply) => {
        const user = await tools.authenticateMail(request);
        reply.code(202);
        return sending.send(user, request.body, readKey(request));
      },
    );
    app.get(
      '/mail/sends/:id',
      {
        schema: {
          tags: ['Mail'],
          summary: 'What became of a message',
          operationId: 'readSend',
          description: 'Kept for 30 days.',
          security: credentials.bearer,
          params: Type.Object({ id: sendId }),
          response: { 200: statusAnswer },
        },
        config: { refusals: ['account_inactive', 'send_not_found'] },
      },
      async (request) => {
        const user = await tools.authenticateMail(request);
        return sending.find(user, { id: request.params.id });
      },
    );
    app.get(
      '/mail/sends',
      {
        schema: {
          tags: ['Mail'],
          summary: 'Find a message by its key',
          operationId: 'findSend',
          description: 'The message that was sent with this `Idempotency-Key`.',
          security: credentials.bearer,
          querystring: Type.Object({
            key: Type.String({ minLength: 1, maxLength: KEY_MAX, examples: ['order-4711'] }),
          }),
          response: { 200: statusAnswer },
        },
        config: { refusals: ['account_inactive', 'send_not_found'] },
      },
      async (request) => {
        const user = await tools.authenticateMail(request);
        return sending.find(user, { key: request.query.key });
      },
    );
  };
}
