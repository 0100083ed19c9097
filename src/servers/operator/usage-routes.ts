/** `GET /v2/operator/usage` and `POST /v2/operator/accounts/quota`: what accounts use, and may use. */
import { Type } from 'typebox';
import type { Database } from '../../platform/database/database.ts';
import { readInstant } from '../../platform/errors/errors.ts';
import { DAY_MS, type EpochMs, startOf } from '../../platform/time/time.ts';
import { setQuota } from '../../tenants/accounts/accounts.ts';
import { recordAudit } from '../../tenants/audit/audit.ts';
import { listUsage, type UsageItem, usageKeys } from '../../tenants/usage/usage.ts';
import { type Api, Integer, OneOf, RecordId, type RouteGroup, replaced, Text } from '../api/api.ts';
import { AccountChoice, chosenAccount } from './account-items.ts';
import { actorOf } from './audit-routes.ts';
import { answerPage, isKey, listEcho, listFields, readPage } from './lists.ts';

/** Days that are listed where `from` is left out. */
const DAYS_DEFAULT = 30;

const Count = (description: string) => Type.Integer({ description, examples: [12] });

const UsageBody = Type.Object(
  {
    day: Text('In UTC.', '2026-01-31'),
    user_id: Type.String({ examples: ['user-1'] }),
    domain: Type.Optional(Type.String({ examples: ['acme.test'] })),
    account_id: Type.Optional(Integer('Absent for mail that no account gets.', 1)),
    address: Type.Optional(Type.String({ examples: ['ada@acme.test'] })),
    messages_in: Count('Messages that came in, once for each account.'),
    bytes_in: Count('Their bytes.'),
    messages_out: Count('Messages that were sent or forwarded, once for each recipient.'),
    bytes_out: Count('Their bytes.'),
    stored_bytes: Count('Bytes in the mailboxes when they were last measured on that day.'),
    email: Type.Optional(Type.String({ ...replaced('address'), examples: ['ada@acme.test'] })),
  },
  { title: 'UsageDay', description: 'What was received, sent and stored on one day.' },
);

const day = (description: string) =>
  Type.Optional(Type.String({ description, examples: ['2026-01-31'] }));

function writeItem({ account_id, email, ...item }: UsageItem): Type.Static<typeof UsageBody> {
  return {
    ...item,
    day: new Date(item.day).toISOString().slice(0, 10),
    ...(account_id !== undefined &&
      account_id > 0 && { account_id, address: email ?? '', email: email ?? '' }),
  };
}

/** The routes of usage and quotas. */
export function usageRoutes(database: Database, now: () => EpochMs): RouteGroup {
  return (app) => {
    addUsage(app, database, now);
    addQuota(app, database, now);
  };
}

function addUsage(app: Api, database: Pick<Database, 'read'>, now: () => number): void {
  app.get('/v2/operator/usage', {
    schema: {
      summary: 'List usage by day',
      description:
        'The newest day first, by domain, account or user. Deleted ones keep their names. Mail that no account ' +
        'gets, since its domain forwards it or has a webhook, counts for the domain.',
      operationId: 'listUsage',
      querystring: Type.Object({
        from: day('The first day; 30 days ago when left out.'),
        to: day('The last day; today when left out.'),
        by: Type.Optional(
          OneOf(['domain', 'account', 'user'], 'What each item is about; a domain when left out.'),
        ),
        domain: Type.Optional(Type.String({ description: 'Only of this domain.' })),
        user_id: Type.Optional(Type.String({ description: 'Only of this user.' })),
        ...listFields,
      }),
      response: { 200: Type.Object({ items: Type.Array(UsageBody), ...listEcho }) },
    },
    handler: async ({ query }) => {
      const { by = 'domain', domain, user_id: userId } = query;
      const names = usageKeys[by];
      const kinds = names.map((name) =>
        name === 'day' || name === 'account_id' ? 'integer' : 'text',
      );
      const page = readPage(query, isKey(...kinds));
      const to = startOf(
        DAY_MS,
        query.to === undefined ? now() : readInstant('to', query.to, true),
      );
      const from =
        query.from === undefined
          ? to - DAYS_DEFAULT * DAY_MS
          : startOf(DAY_MS, readInstant('from', query.from, true));
      const { after, limit } = page;
      const asked = { by, from, to, domain: domain?.toLowerCase(), userId, after };
      const items = await listUsage(database.read, { ...asked, limit: limit + 1 });
      const keyOf = (item: UsageItem) => names.map((name) => item[name] ?? 0);
      return answerPage(items, page, keyOf, items.map(writeItem));
    },
  });
}

function addQuota(app: Api, database: Database, now: () => number): void {
  app.post('/v2/operator/accounts/quota', {
    config: { refusals: ['account_not_found'] },
    schema: {
      summary: "Set an account's quota",
      description:
        'Bytes that its mailboxes may hold: 0 for no limit; null, or left out, for the default (`QUOTA_BYTES`). A quota below what is stored removes nothing, but stops new messages. It does not hold for mailboxes on your own mail server.',
      operationId: 'setQuota',
      body: Type.Object({
        ...AccountChoice,
        quota_bytes: Type.Optional(Type.Integer({ minimum: 0, examples: [1_000_000_000] })),
      }),
      response: {
        200: Type.Object({
          id: RecordId,
          address: Type.String({ examples: ['ada@acme.test'] }),
          quota_bytes: Type.Optional(Type.Integer({ examples: [1_000_000_000] })),
          account_id: Type.Integer({ ...replaced('id'), examples: [1] }),
          email: Type.String({ ...replaced('address'), examples: ['ada@acme.test'] }),
        }),
      },
    },
    handler: async (request) => {
      const { quota_bytes } = request.body;
      const id = chosenAccount(request.body);
      const address = await database.write(async (tx) => {
        const named = await setQuota(tx, id, quota_bytes ?? null);
        const counts = quota_bytes === undefined ? undefined : { quota_bytes };
        const entry = { action: 'account.quota', target: named, at: now(), counts };
        await recordAudit(tx, actorOf(request), entry);
        return named;
      });
      const limit = quota_bytes === undefined ? {} : { quota_bytes };
      return { id, address, ...limit, account_id: id, email: address };
    },
  });
}
