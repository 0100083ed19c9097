/** POST /mail/append: an unchanged message, put into a mailbox. */
import type { Readable } from 'node:stream';
import { Type } from 'typebox';
import type { AppendedByClient, Mailstore } from '../../mailboxes/mailstore/mailstore.ts';
import { invalidField, Refusal, readInstant } from '../../platform/errors/errors.ts';
import { AccountShares } from '../../tenants/accounts/accounts.ts';
import { mailboxName, uidSchema } from './mail-schemas.ts';
import { answerWithin, hashedBody } from './repeat-safely.ts';
import type { Api, RouteGroup } from './route-tools.ts';
import { Text } from './schemas.ts';

/**
 * Messages that are read at once: of one account, of all accounts of one user, and in all. Each holds 64 KiB; the rest is in
 * a file. Whoever is slow on purpose holds his for two minutes: two such users held all 40 that there were, for good.
 */
const SHARES = { account: 4, user: 30, all: 200, leavesAsMany: true } as const;

/** Seconds after which the next one may find a slot. */
const RETRY_AFTER = 2;

const flag = Type.String({ maxLength: 4_096, examples: ['\\Seen'] });

const querystring = Type.Object({
  mailbox: mailboxName('The mailbox that gets the message.'),
  flags: Type.Optional(
    Type.Union([flag, Type.Array(flag, { maxItems: 64 })], {
      description: 'Its flags: the parameter repeated, or separated by spaces.',
    }),
  ),
  internalDate: Type.Optional(
    Text(
      'When the message arrived (RFC 3339), as an import keeps it; by default now. A mail server keeps whole seconds.',
      '2026-01-31T12:00:00Z',
      { maxLength: 64 },
    ),
  ),
});

const source = Type.Unknown({
  description: 'The source of the message, byte by byte.',
  examples: ['From: Bob <bob@sender.test>\nTo: ada@acme.test\nSubject: Hello\n\nHello, Ada.\n'],
});

export const storedMessage = Type.Object(
  {
    mailbox: Text('Name of the mailbox.', 'INBOX'),
    uidvalidity: Type.String({ examples: ['1795244400'] }),
    uid: uidSchema,
  },
  { title: 'StoredMessage', description: 'Where a message was stored.' },
);

export function mailAppendRoute(mailstore: Mailstore, maxMessageBytes: number): RouteGroup {
  const shares = new AccountShares(SHARES);
  return (app, tools) => {
    acceptMessageBodies(app);
    app.post('/mail/append', {
      schema: {
        summary: 'Put a message into a mailbox',
        operationId: 'appendMessage',
        description:
          'Stores the source as it is; nothing is sent. At most `MAX_MESSAGE_BYTES` (50 MiB).',
        querystring,
        body: { content: { 'message/rfc822': { schema: source } } },
        response: {
          201: storedMessage,
        },
      },
      config: {
        refusals: [
          'mailbox_not_found',
          'body_too_large',
          'mailbox_full',
          'mailbox_refused',
          'mail_server_refused',
          'quota_exceeded',
        ],
      },
      handler: async (request, reply) => {
        const user = await tools.authenticateMail(request);
        const { mailbox, flags = [], internalDate } = request.query;
        const arrived = internalDate === undefined ? undefined : readArrival(internalDate);
        const length = Number(request.headers['content-length'] ?? maxMessageBytes);
        if (length > maxMessageBytes) throw tooLarge(maxMessageBytes);
        const giveBack = shares.take(user);
        if (typeof giveBack === 'string') throw tooMany();
        try {
          const appended = await mailstore.appendMessage(
            user,
            {
              mailbox,
              flags: [flags].flat().flatMap(splitFlags),
              octets: length,
              internalDate: arrived,
            },
            // Only the parser below sets it; there is none where there is no body.
            hashedBody(request, readMessage(request.body as Readable | undefined, maxMessageBytes)),
            answerWithin(request, 201, locationOf),
          );
          reply.code(201);
          return locationOf(appended);
        } finally {
          giveBack();
        }
      },
    });
  };
}

function locationOf({ state: { mailbox, uidvalidity }, uid }: AppendedByClient) {
  return { mailbox, uidvalidity, uid };
}

/** Accepts only `message/rfc822`, as a stream that the route reads. */
function acceptMessageBodies(app: Api): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('message/rfc822', (_request, payload, done) => done(null, payload));
}

/** Not all mail servers have earlier times, and to some 0 says that there is none. */
function readArrival(written: string): number {
  const instant = readInstant('internalDate', written);
  if (instant < 1_000)
    throw invalidField('internalDate', 'must be later than 1970-01-01T00:00:00Z');
  return instant;
}

function splitFlags(text: string): string[] {
  return text.split(' ').filter((flag) => flag !== '');
}

/**
 * Reads a message from a request.
 *
 * @throws Refusal invalid_request where there is none or it breaks off, body_too_large
 */
export async function* readMessage(
  body: Readable | undefined,
  maxBytes: number,
): AsyncGenerator<Uint8Array> {
  let size = 0;
  try {
    // Left open where the message is refused: the answer is sent on the same connection.
    const chunks: AsyncIterable<Uint8Array> = body?.iterator({ destroyOnReturn: false }) ?? empty;
    for await (const chunk of chunks) {
      size += chunk.length;
      if (size > maxBytes) throw tooLarge(maxBytes);
      yield chunk;
    }
  } catch (error) {
    // Any other error of the stream: a client that left early leaves one without an error of its own.
    if (error instanceof Refusal) throw error;
    throw new Refusal('invalid_request', 'the body ended too early', { cause: error });
  } finally {
    // The rest is read and dropped.
    body?.resume();
  }
  if (size === 0) throw invalidField('body', 'must be a message');
}

const empty: AsyncIterable<Uint8Array> = (async function* () {})();

function tooLarge(maxBytes: number): Refusal {
  return new Refusal('body_too_large', `a message has at most ${maxBytes} bytes`);
}

function tooMany(): Refusal {
  return new Refusal('rate_limited', 'too many messages of this account are being added', {
    retryAfter: RETRY_AFTER,
  });
}
