/** What keys open: every route of /v2 is called with keys of each scope, as the API description has it. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type Answer, type RunningApi, startApi } from '../../../test/support/api/start-api.ts';
import { onEachEngine } from '../../../test/support/databases.ts';
import type { Schema } from '../../platform/database/database.ts';
import type { KeyScope } from '../../tenants/keys/keys.ts';
import { writeDescription } from './api.ts';

interface Field {
  readonly examples?: readonly unknown[];
  readonly enum?: readonly unknown[];
}

interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly schema: Field;
  }[];
  readonly requestBody?: {
    readonly content: Readonly<
      Record<string, { readonly schema: Shape & { readonly $ref?: string } }>
    >;
  };
}

interface Shape {
  readonly properties: Record<string, Field>;
  readonly required?: string[];
}

interface Route extends Operation {
  readonly method: string;
  readonly path: string;
  readonly isOperators: boolean;
}

/** The things that calls name: those of one owner, or things that do not exist. */
interface Things {
  readonly user_id: string;
  readonly organization_id?: string;
  readonly domain: string;
  readonly domainId: number;
  readonly accountId: number;
  readonly recordId: number;
  readonly passwordId: number;
  readonly deliveryId: number;
  readonly address: string;
}

/** The key of the tests opens a console too, but has no session. */
const SESSION = '/v2/operator/console/session';
/** No id of a row. */
const NO_ID = 9_999_999;
const nothing = (user_id: string): Things => ({
  user_id,
  domain: 'nowhere.test',
  domainId: NO_ID,
  accountId: NO_ID,
  recordId: NO_ID,
  passwordId: NO_ID,
  deliveryId: NO_ID,
  address: 'nobody@sender.test',
});

/** What the description's own examples do not make a whole call of. */
const extras: Readonly<Record<string, object>> = {
  setRoute: { forward_mode: 'store' },
  updateAccount: { display_name: 'Changed' },
};

/** Tables with things of users. */
const TABLES = [
  'domains',
  'dns_records',
  'routes',
  'event_hooks',
  'deleted_domains',
  'accounts',
  'deliveries',
  'app_passwords',
  'suppressions',
  'api_keys',
  'blocks',
  'audit',
] as const satisfies readonly (keyof Schema)[];

onEachEngine('the scopes of API keys', (engine) => {
  let api: RunningApi;
  let routes: Route[];
  /** Bodies by their names. */
  let shapes: Readonly<Record<string, Shape>>;
  const ofAnn = { user_id: 'ann', organization_id: 'org-1' };
  const ofBob = { user_id: 'bob', organization_id: 'org-2' };
  /** Of ann, in another organization. */
  const ofAnnToo = { user_id: 'ann', organization_id: 'org-2' };
  let bobs: Things;
  let annsOther: Things;

  before(async () => {
    api = await startApi(engine);
    const { paths, components } = JSON.parse(writeDescription(api.app));
    shapes = components.schemas;
    routes = Object.entries<Record<string, Operation>>(paths).flatMap(([path, operations]) =>
      Object.entries(operations).map(([method, operation]) => ({
        ...operation,
        path,
        method: method.toUpperCase(),
        isOperators: path.startsWith('/v2/operator/'),
      })),
    );
    routes = routes.filter(({ path, operationId }) => {
      return path.startsWith('/v2/') && operationId !== 'openConsoleSession';
    });
    // Deletions last: what is deleted cannot be called again. A password reset deletes app passwords.
    const deletes = (path: string) =>
      ['/delete', '/password/reset', '/email-accounts/delete', '/domains/delete'].findLastIndex(
        (end) => path.endsWith(end),
      );
    routes.sort((a, b) => deletes(a.path) - deletes(b.path));
    bobs = await makeThings('bob.test', ofBob);
    annsOther = await makeThings('other.test', ofAnnToo);
  });

  /** A domain with one of everything that a route names. */
  async function makeThings(
    domain: string,
    owner: { readonly user_id: string; readonly organization_id: string },
  ): Promise<Things> {
    const { user_id: userId, organization_id: organizationId } = owner;
    await setHook(userId);
    const { dns } = await api.domains.create({ userId, domain, organizationId });
    for (const { id } of dns) {
      await api.domains.markDnsRecord(userId, domain, { id, status: 'verified' });
    }
    const { account } = await api.accounts.create({ userId, domain, localPart: 'first' });
    const { id: domainId } = await api.domains.find(userId, domain);
    const at = Date.now();
    const address = `gone@${domain}`;
    const passwordId = await api.database.write(async (tx) => {
      const row = { account_id: account.id, name: 'Phone', secret_hash: 'x', created_at: at };
      const made = tx.insertInto('app_passwords').values(row).returning('id');
      return (await made.executeTakeFirstOrThrow()).id;
    });
    const deliveryId = await api.database.write(async (tx) => {
      await tx
        .insertInto('suppressions')
        .values({ domain_id: domainId, address, detail: 'no such user', created_at: at })
        .execute();
      const body = await tx
        .insertInto('bodies')
        .values({ size: 1, content: Buffer.from('x'), file: null })
        .returning('id')
        .executeTakeFirstOrThrow();
      const delivery = await tx
        .insertInto('deliveries')
        .values({
          kind: 'webhook',
          domain_id: domainId,
          destination: `https://${domain}`,
          body_id: body.id,
          public_id: `of-${domain}`,
          status: 'queued',
          next_attempt_at: at,
          created_at: at,
          updated_at: at,
        })
        .returning('id')
        .executeTakeFirstOrThrow();
      const payload = { delivery_id: delivery.id, payload: '{}' };
      await tx.insertInto('delivery_payloads').values(payload).execute();
      return delivery.id;
    });
    const [record] = dns;
    assert.ok(record);
    const ids = { domainId, accountId: account.id, recordId: record.id, deliveryId, passwordId };
    return { ...owner, ...ids, domain, address };
  }

  async function makeKey(scope: Partial<KeyScope>): Promise<string> {
    const all = { userId: undefined, organizationId: undefined, isReadOnly: false };
    const wanted = { scope: 'product' as const, ...all, ...scope };
    const by = { actor: 'test' };
    return (await api.keys.create({ name: 'k', expiresAt: undefined, ...wanted }, by)).secret;
  }

  /** The value of a field of a call: one of the things, else the example of the description. */
  function chooseValue(route: Route, name: string, field: Field, things: Things): unknown {
    const ids: Readonly<Record<string, number>> = {
      markDnsRecord: things.recordId,
      retryDelivery: things.deliveryId,
    };
    if (name === 'id') return ids[route.operationId] ?? things.accountId;
    if (name === 'account_id') return things.accountId;
    if (name === 'passwordId') return things.passwordId;
    if (name === 'organization_id') return things.organization_id;
    if (name === 'user_id' || name === 'domain' || name === 'address') return things[name];
    const value = field.examples?.[0] ?? field.enum?.[0];
    assert.notEqual(value, undefined, `${route.operationId} has no example of ${name}`);
    return value;
  }

  /** Calls a route about some things. */
  function callWith(key: string, route: Route, things: Things): Promise<Answer> {
    let { path } = route;
    const query = new URLSearchParams();
    for (const { name, in: place, required, schema } of route.parameters ?? []) {
      if (place === 'path') {
        const value = String(chooseValue(route, name, schema, things));
        path = path.replace(`{${name}}`, encodeURIComponent(value));
      } else if (place === 'query' && required) {
        query.set(name, String(chooseValue(route, name, schema, things)));
      }
    }
    // It would wait for the next event.
    if (route.operationId === 'listEvents') query.set('wait', '0');
    const schema = route.requestBody?.content['application/json']?.schema;
    const shape = schema?.$ref ? shapes[schema.$ref.replace(/^.*\//, '')] : schema;
    assert.ok(!schema || shape?.properties, `${route.operationId} has a body of no form`);
    const body =
      shape &&
      Object.fromEntries(
        Object.entries(shape.properties)
          .filter(([name]) => shape.required?.includes(name) || name === 'organization_id')
          .map(([name, field]) => [name, chooseValue(route, name, field, things)]),
      );
    const asked = query.size > 0 ? `${path}?${query}` : path;
    return api.call(route.method, asked, body && { ...body, ...extras[route.operationId] }, {
      'x-api-key': key,
    });
  }

  /** All rows with things of users. The last use of a key is no change of anybody's things. */
  async function dump(): Promise<Record<string, unknown[]>> {
    await api.keys.stop();
    const tables: Record<string, unknown[]> = {};
    for (const table of TABLES) {
      const rows: object[] = await api.database.read.selectFrom(table).selectAll().execute();
      tables[table] = rows
        .map((row) => ({ ...row, last_used_at: null }))
        .map((row) => JSON.stringify(row))
        .sort();
    }
    return tables;
  }

  /** Only what is stored of some claims. */
  async function dumpOf(...all: readonly Things[]): Promise<unknown[]> {
    const ids = all.map(({ domainId }) => domainId);
    const { read } = api.database;
    const tables = ['dns_records', 'routes', 'accounts', 'deliveries', 'suppressions'] as const;
    return Promise.all([
      read.selectFrom('domains').selectAll().where('id', 'in', ids).execute(),
      ...tables.map((table) =>
        read.selectFrom(table).selectAll().where('domain_id', 'in', ids).execute(),
      ),
    ]);
  }

  const isOfHook = ({ operationId }: Route) => operationId.endsWith('EventHook');
  const setHook = (userId: string) =>
    api.call('PUT', '/v2/event-hooks', { user_id: userId, url: 'https://hooks.test/' });

  const codeOf = ({ status, body }: Answer) => [status, body.code];
  const restricted = [403, 'key_restricted'];

  test('a key of a product opens no route of operators, and all others', async () => {
    const key = await makeKey({});
    const own = await makeThings('walk.test', ofAnn);
    const before = await dumpOf(bobs, annsOther);
    for (const route of routes) {
      const answer = await callWith(key, route, own);
      const { operationId } = route;
      if (route.isOperators) {
        assert.deepEqual(codeOf(answer), restricted, operationId);
      } else if (operationId === 'createDomain') {
        assert.deepEqual(codeOf(answer), [409, 'domain_exists']);
      } else {
        assert.ok(answer.status < 300, `${operationId}: ${JSON.stringify(answer.body)}`);
      }
    }
    assert.deepEqual(await dumpOf(bobs, annsOther), before);
  });

  test('a key of one user opens all that is his', async () => {
    const key = await makeKey({ userId: 'ann' });
    const own = await makeThings('user.test', ofAnn);
    for (const route of routes.filter(({ isOperators }) => !isOperators)) {
      const answer = await callWith(key, route, own);
      if (route.operationId === 'createDomain') assert.equal(answer.status, 409);
      else assert.ok(answer.status < 300, `${route.operationId}: ${JSON.stringify(answer.body)}`);
    }
  });

  test('a key of one user sees and changes nothing of another', async () => {
    const key = await makeKey({ userId: 'ann' });
    const before = await dumpOf(bobs);
    // Last, since a claim on the same name is the user's own.
    const claims = (route: Route) => (route.operationId === 'createDomain' ? 1 : 0);
    for (const route of routes.toSorted((a, b) => claims(a) - claims(b))) {
      const { operationId } = route;
      const named = await callWith(key, route, bobs);
      assert.deepEqual(codeOf(named), restricted, operationId);
      if (route.isOperators) continue;
      assert.deepEqual(
        named.body.errors,
        [{ field: 'user_id', message: 'must be the one that the API key is bound to' }],
        operationId,
      );
      // It names nothing but the user.
      if (isOfHook(route)) continue;
      // The other one's things by the own name: exactly as if there were none.
      const answer = await callWith(key, route, { ...bobs, user_id: 'ann' });
      const absent = await callWith(key, route, nothing('ann'));
      assert.deepEqual(codeOf(answer), codeOf(absent), operationId);
      assert.equal(answer.body.title, absent.body.title, operationId);
      assert.notEqual(answer.status, 400, operationId);
      if (!claims(route)) assert.ok(!JSON.stringify(answer.body).includes('bob'), operationId);
    }
    assert.deepEqual(await dumpOf(bobs), before);
  });

  test('a key of one organization opens all that is of it', async () => {
    const key = await makeKey({ organizationId: 'org-1' });
    const own = await makeThings('org.test', ofAnn);
    for (const route of routes.filter(({ isOperators }) => !isOperators)) {
      const answer = await callWith(key, route, own);
      if (route.operationId === 'createDomain') assert.equal(answer.status, 409);
      // It would tell of the user's other organizations.
      else if (isOfHook(route)) assert.deepEqual(codeOf(answer), restricted);
      else assert.ok(answer.status < 300, `${route.operationId}: ${JSON.stringify(answer.body)}`);
    }
  });

  test('a key of one organization sees and changes nothing of another', async () => {
    const key = await makeKey({ organizationId: 'org-1' });
    const before = await dumpOf(bobs, annsOther);
    for (const others of [bobs, annsOther]) {
      for (const route of routes) {
        const { operationId } = route;
        const answer = await callWith(key, route, others);
        if (route.isOperators) {
          assert.deepEqual(codeOf(answer), restricted, operationId);
          continue;
        }
        if (operationId === 'createDomain') {
          assert.deepEqual(codeOf(answer), restricted);
          assert.equal(answer.body.errors[0].field, 'organization_id');
          continue;
        }
        const absent = await callWith(key, route, nothing(others.user_id));
        assert.deepEqual(codeOf(answer), codeOf(absent), operationId);
        assert.equal(answer.body.title, absent.body.title, operationId);
        assert.notEqual(answer.status, 400, operationId);
        assert.ok(!JSON.stringify(answer.body).includes(others.domain), operationId);
      }
    }
    assert.deepEqual(await dumpOf(bobs, annsOther), before);
  });

  test('a key of one organization claims domains for it, named or not', async () => {
    const key = await makeKey({ organizationId: 'org-1' });
    const claim = (domain: string, more: object) =>
      api.call('POST', '/v2/domain', { domain, user_id: 'cyd', ...more }, { 'x-api-key': key });
    for (const [domain, more] of [
      ['named.test', { organization_id: 'org-1' }],
      ['left-out.test', {}],
      ['null.test', { organization_id: null }],
    ] as const) {
      const { status, body } = await claim(domain, more);
      assert.deepEqual([status, body.domain?.domain.organization_id], [201, 'org-1'], domain);
    }
    const none = await claim('empty.test', { organization_id: '' });
    assert.deepEqual(codeOf(none), restricted);
  });

  test('a key that only reads changes nothing, and reads what its scope has', async () => {
    const own = { ...annsOther };
    await setHook('ann');
    for (const scope of [
      { scope: 'operator' as const },
      { scope: 'product' as const },
      { userId: 'ann' },
      { organizationId: 'org-2' },
    ]) {
      const key = await makeKey({ ...scope, isReadOnly: true });
      const before = await dump();
      for (const route of routes) {
        const { operationId, method } = route;
        const answer = await callWith(key, route, own);
        const isDenied = route.isOperators && !('scope' in scope && scope.scope === 'operator');
        if (isDenied) {
          assert.deepEqual(codeOf(answer), restricted, operationId);
        } else if (route.path === SESSION) {
          // Signing out ends the caller's own session, and nothing else.
          assert.equal(answer.status, method === 'DELETE' ? 200 : 401);
        } else if (method !== 'GET' || (isOfHook(route) && 'organizationId' in scope)) {
          assert.deepEqual(codeOf(answer), restricted, operationId);
        } else if (operationId === 'readTrace' || operationId === 'readMessage') {
          // The thing is no message.
          assert.equal(answer.status, 404);
        } else {
          assert.equal(answer.status, 200, `${operationId}: ${JSON.stringify(answer.body)}`);
        }
      }
      assert.deepEqual(await dump(), before);
    }
  });

  test('a key that only reads gets no secret of a webhook', async () => {
    const own = await makeThings('secret.test', ofAnn);
    const route = {
      user_id: 'ann',
      forward_mode: 'webhook',
      webhook_url: 'https://hooks.test/',
      webhook_secret: 'a secret of the receiver',
    };
    for (const secret of [route.webhook_secret, 'the next secret']) {
      const body = { ...route, webhook_secret: secret };
      const set = await api.call('PUT', '/v2/domains/secret.test/route', body);
      assert.equal(set.status, 200);
    }
    const hook = { user_id: 'ann', url: 'https://hooks.test/', secret: 'the secret of the hook' };
    assert.equal((await api.call('PUT', '/v2/event-hooks', hook)).body.hook.secret, hook.secret);
    const key = await makeKey({ isReadOnly: true });
    for (const one of routes.filter(({ method }) => method === 'GET')) {
      const { body } = await callWith(key, one, own);
      assert.doesNotMatch(
        JSON.stringify(body),
        /secret of the receiver|the next secret|secret of the hook/,
      );
    }
    const whole = await api.call('GET', '/v2/domains/secret.test/info?user_id=ann');
    assert.match(JSON.stringify(whole.body), /secret of the receiver.*|the next secret/);
  });

  test('the user of a call is the one where its route reads it', async () => {
    const key = await makeKey({ userId: 'ann' });
    const headers = { 'x-api-key': key };
    const twice = await api.call('GET', '/v2/domains?user_id=ann&user_id=bob', undefined, headers);
    assert.equal(twice.status, 400);
    const body = { user_id: 'bob', domain: 'bob.test' };
    const both = await api.call('POST', '/v2/domains/delete?user_id=ann', body, headers);
    assert.deepEqual(codeOf(both), restricted);
    for (const path of [
      '/v2/domains?user_id=bob',
      '/v2//domains?user_id=bob',
      '/v2/domains/?user_id=bob',
      '/V2/domains?user_id=bob',
      '/v2/domains;x?user_id=bob',
      '/v2/operator/../domains?user_id=bob',
      '/v2/%6fperator/domains',
      '/v2/operator%2fdomains',
    ]) {
      const answer = await api.call('GET', path, undefined, headers);
      assert.ok(answer.status >= 400, path);
      assert.doesNotMatch(JSON.stringify(answer.body), /bob\.test/, path);
    }
  });

  test('a route that does not say whose things it is about stops the start', async () => {
    await assert.rejects(
      startApi(engine, {
        userRoutes: [(app) => app.get('/v2/everything', () => ({ items: [] }))],
      }),
      /GET \/v2\/everything does not require a user_id/,
    );
  });
});
