/** POST /mail/sync: what changed in a mailbox (contract 4.3). */
import { Readable } from 'node:stream';
import { Type } from 'typebox';
import { hasTexts, type Mailstore, messageFields } from '../mailstore/mailstore.ts';
import { bodyStructureSchema, envelopeSchema, MAIL_BODY_MAX, writtenHere } from './mail-schemas.ts';
import { credentials, type RouteGroup } from './server.ts';
import { isShort, writeInPieces } from './write-sync.ts';

/** Names longer than this are no mailbox of anybody's. */
const MAILBOX_MAX = 1_024;

const syncBody = Type.Object(
  {
    mailbox: Type.Optional(
      Type.String({ maxLength: MAILBOX_MAX, description: 'Mailbox name; INBOX when left out.' }),
    ),
    uidvalidity: Type.Optional(
      Type.String({ maxLength: 64, description: 'As the last sync returned it.' }),
    ),
    token: Type.Optional(
      Type.String({ maxLength: 256, description: 'As the last sync returned it.' }),
    ),
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 10_000, description: 'Changes in one answer at most.' }),
    ),
    fields: Type.Optional(
      Type.Array(Type.Enum([...messageFields]), {
        maxItems: messageFields.length,
        description: 'What each added message carries besides its uid.',
      }),
    ),
  },
  {
    examples: [{ mailbox: 'INBOX', uidvalidity: '1795244400', token: '42' }],
  },
);

const uidSchema = Type.Integer({ minimum: 1, description: 'Of the message in its mailbox.' });

const syncAnswer = Type.Object(
  {
    mailbox: Type.String({ description: 'The mailbox that was synced.' }),
    uidvalidity: Type.String({ description: 'To be passed on the next sync, with the token.' }),
    token: Type.String({ description: 'To be passed on the next sync.' }),
    changes: Type.Object({
      added: Type.Array(
        Type.Object({
          uid: uidSchema,
          envelope: Type.Optional(envelopeSchema),
          flags: Type.Optional(Type.Array(Type.String())),
          size: Type.Optional(Type.Integer({ description: 'Octets of the source.' })),
          internalDate: Type.Optional(
            Type.String({ description: 'When the message arrived, RFC 3339.' }),
          ),
          bodyStructure: Type.Optional(bodyStructureSchema),
        }),
      ),
      updated: Type.Array(
        Type.Object({
          uid: uidSchema,
          modseq: Type.String(),
          flags: Type.Array(Type.String({ description: 'IMAP flags.' })),
        }),
      ),
      removed: Type.Array(Type.Object({ uid: uidSchema })),
    }),
    reset: Type.Optional(
      Type.Boolean({ description: 'The client drops what it has of this mailbox first.' }),
    ),
    hasMore: Type.Optional(
      Type.Boolean({ description: 'Call again with this token for the rest.' }),
    ),
  },
  {
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

/** `""` counts as absent, as null does. */
function given(text: string | undefined): text is string {
  return text !== undefined && text !== '';
}

export function mailSyncRoutes(mailstore: Mailstore): RouteGroup {
  return (app, tools) => {
    app.post(
      '/mail/sync',
      {
        bodyLimit: MAIL_BODY_MAX,
        schema: {
          tags: ['Mail'],
          summary: 'Sync a mailbox',
          operationId: 'syncMailbox',
          description:
            'Returns what changed since `token`; without a token, everything as `added`. ' +
            'With `reset: true` the client drops what it has of the mailbox first. ' +
            'A page ends at `limit`, or earlier where envelopes and structures are large: it says ' +
            '`hasMore`, and its token leads to the next one.',
          security: credentials.bearer,
          body: syncBody,
          response: { 200: writtenHere(syncAnswer) },
        },
        config: { refusals: ['mailbox_not_found', 'account_inactive'] },
      },
      async (request, reply) => {
        const user = await tools.authenticateMail(request);
        const { mailbox, uidvalidity, token, limit, fields } = request.body;
        const result = await mailstore.sync(user, {
          mailbox: given(mailbox) ? mailbox : 'INBOX',
          ...(given(uidvalidity) && { uidvalidity }),
          ...(given(token) && { token }),
          ...(limit !== undefined && { limit }),
          ...(fields !== undefined && { fields }),
        });
        reply.type('application/json; charset=utf-8');
        reply.serializer((text: string) => text);
        const withTexts = hasTexts(fields ?? []);
        if (isShort(result, withTexts)) return reply.send(JSON.stringify(result));
        const pieces = writeInPieces(result, withTexts);
        const first = await pieces.next();
        if (first.done) return reply.send(first.value);
        return reply.send(Readable.from(inOrder(first.value, pieces), { objectMode: false }));
      },
    );
  };
}

async function* inOrder(first: string, rest: AsyncGenerator<string, string>) {
  yield first;
  yield yield* rest;
}
