/** Changing messages: flags, move, copy, delete for good, append. */
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import {
  canonicalLevels,
  type Expunged,
  type Flagged,
  type Mailstore,
  type MailUser,
  type Relocated,
  type SyncRequest,
  type SyncResult,
  type UpdatedMessage,
} from '../../mailboxes/mailstore/mailstore.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import {
  fieldsSchema,
  givenState,
  mailboxName,
  mailboxState,
  removedSchema,
  syncAnswer,
  uidSchema,
  uidvaliditySchema,
  updatedSchema,
} from './mail-schemas.ts';
import { answerWithin } from './repeat-safely.ts';
import type { Api, RouteGroup, RouteTools } from './route-tools.ts';
import { Text } from './schemas.ts';

/** The most messages that one call changes. */
const UIDS_MAX = 1_000;
const FLAGS_MAX = 64;

const flag = Type.String({ minLength: 1, maxLength: 64, examples: ['\\Seen'] });
const flags = (description: string) =>
  Type.Optional(Type.Array(flag, { maxItems: FLAGS_MAX, description }));

/** Members that name messages, and request a sync after the change. */
const messageSet = {
  mailbox: mailboxName('The mailbox that has the messages.'),
  uids: Type.Array(uidSchema, {
    minItems: 1,
    maxItems: UIDS_MAX,
    description: 'The messages. One that does not exist is not an error, and is not in the answer.',
    examples: [[3, 7]],
  }),
  uidvalidity: Type.Optional(uidvaliditySchema),
  since: Type.Optional(
    Type.Object(
      {
        uidvalidity: Type.Optional(uidvaliditySchema),
        token: Type.Optional(Type.String({ maxLength: 256 })),
      },
      {
        description:
          'The state of the last sync. The answer then also has what a sync from there returns.',
      },
    ),
  ),
  fields: Type.Optional(fieldsSchema),
};

const updated = Type.Unsafe<readonly UpdatedMessage[]>(Type.Array(updatedSchema));

const synced = { sync: Type.Optional(Type.Unsafe<SyncResult>(syncAnswer)) };

const relocated = (what: 'moved' | 'copied') =>
  Type.Object({
    mailbox: Type.String({ examples: ['INBOX'] }),
    to: Type.String({ examples: ['Archive'] }),
    uidvalidity: Text('Of `to`.', '1795244400'),
    [what]: Type.Array(
      Type.Object({ uid: uidSchema, toUid: uidSchema }, { title: 'RelocatedMessage' }),
    ),
    ...synced,
  });

type SetBody = Type.Static<Type.TObject<typeof messageSet>>;

const refusals = ['mailbox_not_found', 'uidvalidity_changed', 'mail_server_refused'] as const;

export function mailChangeRoutes(mailstore: Mailstore): RouteGroup {
  return (app, tools) => {
    app.post('/mail/flags', {
      schema: {
        summary: 'Change flags',
        operationId: 'changeFlags',
        description:
          'Adds and removes IMAP flags; a flag that is both added and removed is removed. `updated` has each of the messages that exists, with its flags as they are now.',
        body: Type.Object(
          {
            ...messageSet,
            add: flags('Flags to add.'),
            remove: flags('Flags to remove.'),
          },
          { examples: [{ mailbox: 'INBOX', uids: [7], add: ['\\Seen'] }] },
        ),
        response: {
          200: Type.Object({
            ...mailboxState,
            updated,
            ...synced,
          }),
        },
      },
      config: { refusals },
      handler: async (request) => {
        const user = await tools.authenticateMail(request);
        const { add, remove } = request.body;
        checkSince(mailstore, request.body);
        const describe = ({ state, updated }: Flagged) => ({ ...stateOf(state), updated });
        const flagged = await mailstore.setFlags(
          user,
          request.body,
          { add, remove },
          answerWithin(request, 200, describe),
        );
        return { ...describe(flagged), ...(await syncAfter(mailstore, user, request)) };
      },
    });
    relocationRoute(app, tools, mailstore, 'move');
    relocationRoute(app, tools, mailstore, 'copy');
    app.post('/mail/delete', {
      schema: {
        summary: 'Delete messages for good',
        operationId: 'deleteMessages',
        description: 'They cannot be brought back. To put messages into Trash, move them.',
        body: Type.Object(messageSet, { examples: [{ mailbox: 'Trash', uids: [7] }] }),
        response: {
          200: Type.Object({
            ...mailboxState,
            removed: Type.Array(removedSchema),
            ...synced,
          }),
        },
      },
      config: { refusals },
      handler: async (request) => {
        const user = await tools.authenticateMail(request);
        checkSince(mailstore, request.body);
        const describe = ({ state, removed }: Expunged) => ({
          ...stateOf(state),
          removed: removed.map((uid) => ({ uid })),
        });
        const within = answerWithin(request, 200, describe);
        const expunged = await mailstore.expunge(user, request.body, within);
        return { ...describe(expunged), ...(await syncAfter(mailstore, user, request)) };
      },
    });
  };
}

function relocationRoute(
  app: Api,
  tools: RouteTools,
  mailstore: Mailstore,
  verb: 'move' | 'copy',
): void {
  const done = verb === 'move' ? 'moved' : 'copied';
  app.post(`/mail/${verb}`, {
    schema: {
      summary: verb === 'move' ? 'Move messages' : 'Copy messages',
      operationId: `${verb}Messages`,
      description: `Into another mailbox of the account. \`${done}\` says which UID each has there.`,
      body: Type.Object(
        { ...messageSet, to: mailboxName('The mailbox that gets them.') },
        { examples: [{ mailbox: 'INBOX', uids: [7], to: 'Archive' }] },
      ),
      response: { 200: relocated(done) },
    },
    config: {
      refusals: [
        ...refusals,
        ...(verb === 'copy' ? (['quota_exceeded', 'mailbox_full'] as const) : []),
      ],
    },
    handler: async (request) => {
      const user = await tools.authenticateMail(request);
      const { mailbox, to } = request.body;
      if (verb === 'move' && canonicalLevels(mailbox) === canonicalLevels(to)) {
        throw invalidField('to', 'must be another mailbox');
      }
      checkSince(mailstore, request.body);
      const describe = ({ state, uids }: Relocated) => ({
        mailbox,
        to: state.mailbox,
        uidvalidity: state.uidvalidity,
        [done]: [...uids].map(([uid, toUid]) => ({ uid, toUid })),
      });
      const within = answerWithin(request, 200, describe);
      const relocated = await mailstore[verb](user, request.body, to, within);
      return { ...describe(relocated), ...(await syncAfter(mailstore, user, request)) };
    },
  });
}

function stateOf({ mailbox, uidvalidity, token }: Omit<SyncResult, 'changes'>) {
  return { mailbox, uidvalidity, token };
}

/** The sync after the change. */
function syncOf({ mailbox, since = {}, fields }: SetBody): SyncRequest {
  return { mailbox, ...givenState(since), fields };
}

/** Refuses an invalid `since`, before anything is changed. @throws Refusal invalid_request */
function checkSince(mailstore: Mailstore, body: SetBody): void {
  try {
    mailstore.checkSync(syncOf(body));
  } catch (error) {
    const [wrong] = (error instanceof Refusal && error.errors) || [];
    throw wrong ? invalidField(`since.${wrong.field}`, wrong.message) : error;
  }
}

/**
 * The sync since the given state, so that an action costs an app one request. The change is already made: where the
 * sync fails, the answer is sent without it.
 */
async function syncAfter(
  mailstore: Mailstore,
  user: MailUser,
  request: FastifyRequest<{ Body: SetBody }>,
): Promise<{ sync?: SyncResult }> {
  if (!request.body.since) return {};
  try {
    return { sync: await mailstore.sync(user, syncOf(request.body)) };
  } catch (error) {
    request.log.warn(
      { err: error, requestId: request.id },
      'a change was made, but the sync after it failed: the answer has no sync',
    );
    return {};
  }
}
