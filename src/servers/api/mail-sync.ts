/** POST /mail/sync: what changed in a mailbox (contract 4.3). */
import { Readable } from 'node:stream';
import { Type } from 'typebox';
import {
  hasTexts,
  type Mailstore,
  type MailUser,
  type SyncResult,
  takeTurnOf,
} from '../../mailboxes/mailstore/mailstore.ts';
import { fieldsSchema, givenState, MAILBOX_MAX, syncAnswer } from './mail-schemas.ts';
import { forReading, type RouteGroup } from './route-tools.ts';
import { OneOf, writtenHere } from './schemas.ts';

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
      Type.Integer({ minimum: 1, maximum: 10_000, description: 'The most changes in one answer.' }),
    ),
    fields: Type.Optional(fieldsSchema),
    order: Type.Optional(
      OneOf(
        ['oldest', 'newest'],
        'Whether the pages of a first sync begin with the oldest or the newest messages; the oldest when left out.',
      ),
    ),
  },
  {
    examples: [{ mailbox: 'INBOX', uidvalidity: '1795244400', token: '42' }],
  },
);

export function mailSyncRoutes(mailstore: Mailstore): RouteGroup {
  return (app, tools) => {
    app.post('/mail/sync', {
      schema: {
        summary: 'Sync a mailbox',
        operationId: 'syncMailbox',
        description:
          'Returns what changed since `token`; without a token, everything as `added`. With `reset: true` the client first drops its copy of the mailbox. A page ends at `limit`, or earlier if envelopes and structures are large. Then it has `hasMore`, and its token leads to the next page.',
        body: syncBody,
        response: { 200: writtenHere(syncAnswer) },
      },
      config: { refusals: ['mailbox_not_found'] },
      handler: async (request, reply) => {
        const { limit, fields, order } = request.body;
        const mailbox = request.body.mailbox || 'INBOX';
        const { mailbox: row, ...user } = await tools.authenticateMail(request, mailbox);
        const result = await mailstore.sync(forReading(user, request), {
          mailbox,
          row,
          ...givenState(request.body),
          limit,
          fields,
          newest: order === 'newest',
        });
        // Fastify sends a text of this type unchanged.
        reply.type('application/json; charset=utf-8');
        const pieces = writeInPieces(result, hasTexts(fields ?? []));
        const first = pieces.next();
        if (first.done) return reply.send(first.value);
        return reply.send(Readable.from(inTurns(user, first, pieces), { objectMode: false }));
      },
    });
  };
}

/*
 * The JSON of a sync, in pieces with turns of the event loop in between: a first sync may have a hundred thousand
 * changes, and an envelope or a structure is as long as the sender made it.
 */

async function* inTurns(
  user: MailUser,
  first: IteratorResult<string, string>,
  rest: Iterator<string, string>,
) {
  let piece = first;
  while (!piece.done) {
    yield piece.value;
    await takeTurnOf(user);
    piece = rest.next();
  }
  yield piece.value;
}

/** Characters from which a piece is passed on. */
const PIECE = 64 * 1024;

/** Changes written at once; with only flags each is at most 4 KB long. */
const CHANGES_AT_A_TIME = 200;

/**
 * Writes an answer.
 *
 * @param withTexts whether added messages may have any length: then each is written by itself
 * @returns at the end, the last piece: a short answer is only this one
 */
export function* writeInPieces(
  { changes, ...rest }: SyncResult,
  withTexts: boolean,
): Generator<string, string> {
  let text = `${JSON.stringify(rest).slice(0, -1)},"changes":{`;
  let comma = '';
  for (const kind of ['added', 'updated', 'removed'] as const) {
    text += `${comma}"${kind}":[`;
    comma = ',';
    const items: readonly object[] = changes[kind];
    const step = withTexts && kind === 'added' ? 1 : CHANGES_AT_A_TIME;
    for (let at = 0; at < items.length; at += step) {
      if (at > 0) text += ',';
      text += JSON.stringify(items.slice(at, at + step)).slice(1, -1);
      if (text.length < PIECE) continue;
      yield text;
      text = '';
    }
    text += ']';
  }
  return `${text}}}`;
}
