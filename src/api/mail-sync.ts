/** POST /mail/sync: what changed in a mailbox (contract 4.3). */
import { Readable } from 'node:stream';
import { Type } from 'typebox';
import { hasTexts, type Mailstore } from '../mailstore/mailstore.ts';
import {
  fieldsSchema,
  MAIL_BODY_MAX,
  MAILBOX_MAX,
  syncAnswer,
  writtenHere,
} from './mail-schemas.ts';
import { credentials, type RouteGroup } from './server.ts';
import { isShort, writeInPieces } from './write-sync.ts';

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
    fields: Type.Optional(fieldsSchema),
    order: Type.Optional(
      Type.Enum(['oldest', 'newest'], {
        description:
          'Which messages the pages of a first sync begin with; the oldest when left out.',
      }),
    ),
  },
  {
    examples: [{ mailbox: 'INBOX', uidvalidity: '1795244400', token: '42' }],
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
        const { mailbox, uidvalidity, token, limit, fields, order } = request.body;
        const result = await mailstore.sync(user, {
          mailbox: given(mailbox) ? mailbox : 'INBOX',
          ...(given(uidvalidity) && { uidvalidity }),
          ...(given(token) && { token }),
          ...(limit !== undefined && { limit }),
          ...(fields !== undefined && { fields }),
          ...(order === 'newest' && { newest: true }),
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
