/** `/v2/email-accounts/:id/app-passwords`: passwords of mail programs. */
import { Type } from 'typebox';
import type { AppPassword, AppPasswords, NewAppPassword } from '../../tenants/accounts/accounts.ts';
import { answerWithin } from './repeat-safely.ts';
import { type Api, actorOf, type Owned, ownerOf } from './route-tools.ts';
import {
  Instant,
  OneOf,
  RecordId,
  SAVE_PASSWORD,
  Text,
  UserId,
  UserQuery,
  writerOf,
} from './schemas.ts';

const Name = Text('For people; several may have the same.', "Ada's phone", { maxLength: 255 });

const AppPasswordBody = Type.Object(
  {
    id: RecordId,
    name: Name,
    created_at: Instant(),
    last_used_at: Type.Optional(
      Instant('Accurate to a minute; absent where it was never used.', '2026-01-31T12:05:00.000Z'),
    ),
    last_used_by: Type.Optional(OneOf(['imap', 'submission'], 'What it was used for then.')),
  },
  { title: 'AppPassword', description: 'A password of a mail program, without the password.' },
);

const OnceShown = Type.Object(
  {
    app_password: AppPasswordBody,
    password: Text(
      'Shown only here. Dashes and capitals do not matter.',
      'k7pm-2xwv-hd4n-qz8c-t5rj',
    ),
    note: Type.String({ examples: [SAVE_PASSWORD] }),
  },
  { title: 'NewAppPassword', description: 'An app password that was just made.' },
);

const path = '/v2/email-accounts/:id/app-passwords';

const writeAppPassword = writerOf(AppPasswordBody);

function write({ lastUsed, ...appPassword }: AppPassword) {
  return writeAppPassword({ ...appPassword, lastUsedAt: lastUsed?.at, lastUsedBy: lastUsed?.by });
}

function writeOnceShown({ appPassword, password }: NewAppPassword) {
  return { app_password: write(appPassword), password, note: SAVE_PASSWORD };
}

export type OwnedAppPasswords = Owned<Pick<AppPasswords, 'list' | 'create' | 'remove'>>;

export function addAppPasswords(app: Api, appPasswords: OwnedAppPasswords): void {
  app.get(path, {
    config: { refusals: ['account_not_found'] },
    schema: {
      summary: "List an account's app passwords",
      description: 'All of them, at most 20; the oldest first.',
      operationId: 'listAppPasswords',
      params: Type.Object({ id: RecordId }),
      querystring: UserQuery,
      response: { 200: Type.Object({ items: Type.Array(AppPasswordBody) }) },
    },
    handler: async (request) => {
      const items = await appPasswords.list(ownerOf(request), request.params.id);
      return { items: items.map(write) };
    },
  });
  app.post(path, {
    config: { refusals: ['account_not_found'], compress: false },
    schema: {
      summary: 'Make an app password',
      description:
        'For one mail program of the account: it opens IMAP and submission, and nothing else. The password is shown once.',
      operationId: 'createAppPassword',
      params: Type.Object({ id: RecordId }),
      body: Type.Object({ user_id: UserId, name: Name }),
      response: { 201: OnceShown },
    },
    handler: async (request, reply) => {
      const { params, body } = request;
      const within = answerWithin(request, 201, writeOnceShown);
      const by = actorOf(request);
      const owner = ownerOf(request);
      const made = await appPasswords.create(owner, params.id, body.name, by, within);
      return reply.code(201).send(writeOnceShown(made));
    },
  });
  app.post(`${path}/:passwordId/delete`, {
    config: { refusals: ['account_not_found', 'app_password_not_found'] },
    schema: {
      summary: 'Revoke an app password',
      description:
        'From then on it opens nothing. The sessions of mail programs that it opened end at once, on all nodes.',
      operationId: 'deleteAppPassword',
      params: Type.Object({ id: RecordId, passwordId: RecordId }),
      body: Type.Object({ user_id: UserId }),
      response: { 200: Type.Object({ ok: Type.Boolean(), deleted: AppPasswordBody }) },
    },
    handler: async (request) => {
      const { id, passwordId } = request.params;
      const describe = (deleted: AppPassword) => ({ ok: true, deleted: write(deleted) });
      const within = answerWithin(request, 200, describe);
      const by = actorOf(request);
      return describe(await appPasswords.remove(ownerOf(request), id, passwordId, by, within));
    },
  });
}
