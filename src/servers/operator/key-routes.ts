/** `/v2/operator/keys`: API keys with a name and a scope. */
import { Type } from 'typebox';
import { readInstant } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { Key, NamedKeys } from '../../tenants/keys/keys.ts';
import {
  type Api,
  actorOf,
  Flag,
  Instant,
  OneOf,
  RecordId,
  type RouteGroup,
  Text,
  writerOf,
} from '../api/api.ts';
import { answerPage, isKey, listEcho, listFields, readPage } from './lists.ts';

const Name = Text('For people; the audit log has it. Several keys may have the same.', 'billing', {
  maxLength: 200,
});
const Scope = OneOf(
  ['operator', 'product'],
  '`operator`: all of /v2. `product`: all of it but /v2/operator.',
  'product',
);
const BoundUser = Text(
  'Of a product key: the only user whose things it sees and changes.',
  'demo',
  { maxLength: 255 },
);
const BoundOrganization = Text(
  'Of a product key: it sees and changes only domains that were claimed with this `organization_id`, and their accounts.',
  'org-1',
  { minLength: 1, maxLength: 255 },
);
const ReadOnly = Flag('Whether it only reads: then every method but GET is refused.');
const nextYear = '2027-01-31T12:00:00.000Z';

const KeyBody = Type.Object(
  {
    id: RecordId,
    name: Name,
    scope: Scope,
    user_id: Type.Optional(BoundUser),
    organization_id: Type.Optional(BoundOrganization),
    read_only: ReadOnly,
    status: OneOf(['active', 'expired', 'revoked'], 'Only an `active` key opens anything.'),
    created_at: Instant(),
    created_by: Text('Who made it, as in the audit log.', '3f9c2d01'),
    expires_at: Type.Optional(Instant('From then on it opens nothing.', nextYear)),
    revoked_at: Type.Optional(Instant('Since then it opens nothing.', nextYear)),
    last_used_at: Type.Optional(
      Instant('Accurate to a minute; absent where it was never used.', nextYear),
    ),
  },
  { title: 'ApiKey', description: 'An API key that an operator made, without its secret.' },
);

function statusOf({ revokedAt, expiresAt }: Key, now: EpochMs) {
  if (revokedAt !== undefined) return 'revoked' as const;
  return expiresAt !== undefined && expiresAt <= now ? ('expired' as const) : ('active' as const);
}

const write = writerOf(KeyBody);

function writeKey(key: Key, now: EpochMs) {
  return write({ ...key, readOnly: key.isReadOnly, status: statusOf(key, now) });
}

/** The routes that list, make and revoke keys. @param now the clock that all nodes share */
export function keyRoutes(
  keys: Pick<NamedKeys, 'list' | 'create' | 'revoke'>,
  now: () => EpochMs,
): RouteGroup {
  return (app) => {
    addListAndRevoke(app, keys, now);
    addCreate(app, keys, now);
  };
}

function addListAndRevoke(
  app: Api,
  keys: Pick<NamedKeys, 'list' | 'revoke'>,
  now: () => EpochMs,
): void {
  app.get('/v2/operator/keys', {
    schema: {
      summary: 'List the API keys',
      description:
        'The newest first, also those that were revoked or have ended. Those of API_KEYS, and the generated one, are settings: they are not in the list.',
      operationId: 'listKeys',
      querystring: Type.Object(listFields),
      response: { 200: Type.Object({ items: Type.Array(KeyBody), ...listEcho }) },
    },
    handler: async ({ query }) => {
      const page = readPage(query, isKey('integer'));
      const found = await keys.list({ before: page.after?.[0], limit: page.limit + 1 });
      const at = now();
      const items = found.map((key) => writeKey(key, at));
      return answerPage(found, page, ({ id }) => [id], items);
    },
  });
  app.post('/v2/operator/keys/revoke', {
    config: { refusals: ['key_not_found'] },
    schema: {
      summary: 'Revoke an API key',
      description:
        'From then on it opens nothing, on all nodes; sessions of the console that it opened end. It stays in the list. One that was revoked before is not changed.',
      operationId: 'revokeKey',
      body: Type.Object({ id: RecordId }),
      response: { 200: KeyBody },
    },
    handler: async (request) =>
      writeKey(await keys.revoke(request.body.id, actorOf(request)), now()),
  });
}

function addCreate(app: Api, keys: Pick<NamedKeys, 'create'>, now: () => EpochMs): void {
  app.post('/v2/operator/keys', {
    config: { compress: false },
    schema: {
      summary: 'Make an API key',
      description:
        'The key is shown once. It opens what its scope says at once, on all nodes. To replace one without a gap, make the next one, change its users over, and revoke the old one when `last_used_at` stands still.',
      operationId: 'createKey',
      body: Type.Object(
        {
          name: Name,
          scope: Scope,
          user_id: Type.Optional(BoundUser),
          organization_id: Type.Optional(BoundOrganization),
          read_only: Type.Optional(ReadOnly),
          expires_at: Type.Optional(
            Text(
              'From then on it opens nothing; a date means its midnight in UTC. Without it, the key has no end.',
              '2027-01-31T12:00:00Z',
            ),
          ),
        },
        // Not with `organization_id`: a key is bound to one of the two.
        { examples: [{ name: 'billing', scope: 'product', user_id: 'demo', read_only: true }] },
      ),
      response: {
        201: Type.Object({
          key: KeyBody,
          api_key: Text('For the header `x-api-key`. Shown only here.', 'prk_3f9c2d01…'),
        }),
      },
    },
    handler: async (request, reply) => {
      const { name, scope, user_id, organization_id, read_only, expires_at } = request.body;
      const wanted = {
        name,
        scope,
        userId: user_id,
        organizationId: organization_id,
        isReadOnly: read_only ?? false,
        expiresAt:
          expires_at === undefined ? undefined : readInstant('expires_at', expires_at, true),
      };
      const { key, secret } = await keys.create(wanted, actorOf(request));
      return reply.code(201).send({ key: writeKey(key, now()), api_key: secret });
    },
  });
}
