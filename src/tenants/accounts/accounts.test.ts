import assert from 'node:assert/strict';
import { before, beforeEach, suite, test } from 'node:test';
import { verify } from '@node-rs/argon2';
import { sql } from 'kysely';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { activateDomain, openTenants } from '../../../test/support/tenants.ts';
import type { Change } from '../../mailboxes/changes/changes.ts';
import { advisoryLocks, type Database } from '../../platform/database/database.ts';
import { parseAddress } from '../../protocols/message/message.ts';
import { listAudit } from '../audit/audit.ts';
import type { Domains } from '../domains/domains.ts';
import {
  Accounts,
  AnsweredRequests,
  findAccess,
  findAccountStates,
  findAccountsThere,
  findRecipient,
  forgetAnswers,
  hashOf,
  scopeOf,
} from './accounts.ts';
import { CredentialsReader } from './credentials.ts';

const HOUR_MS = 3_600_000;

onEachEngine('accounts', (engine) => {
  let database: Database;
  let domains: Domains;
  let accounts: Accounts;
  const published: Change[] = [];
  let users = 0;

  before(async () => {
    ({ database } = await openTestDatabase(engine));
    const changes = { publish: (change: Change) => published.push(change) };
    ({ domains, accounts } = openTenants(database, { changes }));
  });

  beforeEach(() => {
    published.length = 0;
  });

  const claim = async (userId: string, name: string) =>
    (await activateDomain(domains, userId, name)).id;

  /** A new user with an active domain. */
  async function newUser() {
    users++;
    const userId = `user${users}`;
    const domain = `d${users}.test`;
    const domainId = await claim(userId, domain);
    const create = async (localPart: string) =>
      (await accounts.create({ userId, domain, localPart, password: 'long enough' })).account;
    return { userId, domain, domainId, create };
  }

  const hashesOf = async (id: number) =>
    database.read
      .selectFrom('accounts')
      .select(['password_hash', 'credential_version'])
      .where('id', '=', id)
      .executeTakeFirstOrThrow();

  test('a new account is active, and its password is returned once', async () => {
    const { userId, domain } = await newUser();
    const before = Date.now();
    const { account, password } = await accounts.create({
      userId,
      domain: domain.toUpperCase(),
      localPart: 'Ann.Smith',
      displayName: 'Ann Smith 🙂',
      password: 'correct horse',
    });
    assert.equal(password, 'correct horse');
    assert.ok(account.createdAt >= before && account.createdAt <= Date.now());
    assert.deepEqual(account, {
      id: account.id,
      userId,
      domain,
      localPart: 'ann.smith',
      address: `ann.smith@${domain}`,
      displayName: 'Ann Smith 🙂',
      status: 'active',
      isDefault: true,
      createdAt: account.createdAt,
      quotaBytes: null,
    });
    assert.deepEqual(await accounts.get(userId, account.id), account);
    assert.ok(await verify((await hashesOf(account.id)).password_hash, 'correct horse'));
  });

  test('a password is generated and the local part displayed where none is given', async () => {
    const { userId, domain } = await newUser();
    const { account, password } = await accounts.create({ userId, domain, localPart: 'Bob' });
    assert.match(password, /^[A-Za-z2-9]{20}$/);
    assert.ok(await verify((await hashesOf(account.id)).password_hash, password));
    assert.equal(account.displayName, 'bob');
    const named = await accounts.create({ userId, domain, localPart: 'x', displayName: '' });
    assert.equal(named.account.displayName, '');
  });

  suite('create refuses', () => {
    test('domains that do not exist, belong to another user or are not active', async () => {
      const { domain } = await newUser();
      const { userId } = await newUser();
      await domains.create({ userId, domain: `waits-${domain}` });
      const create = (name: string) => accounts.create({ userId, domain: name, localPart: 'ann' });
      await assert.rejects(create('nobody.test'), { code: 'domain_not_found' });
      await assert.rejects(create('a b'), { code: 'domain_not_found' });
      await assert.rejects(create(domain), { code: 'domain_not_found' });
      await assert.rejects(create(`waits-${domain}`), { code: 'domain_not_active' });
    });

    test('an existing address, in any case', async () => {
      const { userId, domain, create } = await newUser();
      await create('ann');
      await assert.rejects(accounts.create({ userId, domain, localPart: 'ANN' }), {
        code: 'address_exists',
      });
    });

    test('all but one of twenty at once', async () => {
      const { userId, domain } = await newUser();
      const results = await Promise.allSettled(
        Array.from({ length: 20 }, () => accounts.create({ userId, domain, localPart: 'race' })),
      );
      const codes = results.map((one) => (one.status === 'rejected' ? one.reason.code : 'created'));
      assert.deepEqual(codes.sort(), [...Array(19).fill('address_exists'), 'created']);
      assert.equal((await accounts.list({ userId, limit: 50, offset: 0 })).length, 1);
    });

    test('fields that are not valid, naming them', async () => {
      const { userId, domain } = await newUser();
      const bad: [string, object][] = [
        ['local_part', { localPart: 'a+b' }],
        ['local_part', { localPart: '' }],
        ['display_name', { displayName: 'x'.repeat(256) }],
        ['display_name', { displayName: 'Ann\r\nBcc: x' }],
        ['display_name', { displayName: '\0' }],
        ['display_name', { displayName: 'A\u202eda' }],
        ['display_name', { displayName: '\ud800' }],
        ['password', { password: '1234567' }],
        ['password', { password: '' }],
        ['password', { password: 'x'.repeat(1025) }],
        ['password', { password: '12345678\0' }],
      ];
      for (const [field, input] of bad) {
        await assert.rejects(
          accounts.create({ userId, domain, localPart: 'ann', ...input }),
          (error: { code?: string; errors?: { field: string }[] }) =>
            error.code === 'invalid_request' && error.errors?.[0]?.field === field,
          `${field} ${JSON.stringify(input).slice(0, 40)}`,
        );
      }
      assert.deepEqual(await accounts.list({ userId, limit: 50, offset: 0 }), []);
    });
  });

  test('an account that is created while its domain is removed is refused or removed with it', async () => {
    for (let n = 0; n < 5; n++) {
      const { userId, domain } = await newUser();
      const [created] = await Promise.allSettled([
        accounts.create({ userId, domain, localPart: 'ann' }),
        accounts.removeDomain(userId, domain),
      ]);
      if (created.status === 'rejected') assert.equal(created.reason.code, 'domain_not_found');
      assert.deepEqual(await accounts.list({ userId, limit: 50, offset: 0 }), []);
    }
  });

  test('the default is the oldest account of the user, over all domains', async () => {
    const { userId, domain, create } = await newUser();
    await claim(userId, `second-${domain}`);
    const first = await create('first');
    const second = (
      await accounts.create({ userId, domain: `second-${domain}`, localPart: 'second' })
    ).account;
    const third = await create('third');
    assert.deepEqual([first.isDefault, second.isDefault, third.isDefault], [true, false, false]);
    await accounts.update(userId, first.id, { status: 'suspended' });
    assert.equal((await accounts.get(userId, second.id)).isDefault, false);
    await accounts.remove(userId, first.id);
    const listed = await accounts.list({ userId, limit: 50, offset: 0 });
    assert.deepEqual(
      listed.map(({ id, isDefault }) => [id, isDefault]),
      [
        [second.id, true],
        [third.id, false],
      ],
    );
    await accounts.removeDomain(userId, `second-${domain}`);
    assert.equal((await accounts.get(userId, third.id)).isDefault, true);
  });

  test('of the first accounts that are made at the same time, one is the default', async (t) => {
    if (engine === 'sqlite') return t.skip('SQLite writes one after the other');
    const { userId, domain } = await newUser();
    await claim(userId, `beside-${domain}`);
    const begun = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    const slow = new Accounts({
      ...{ database, domains, changes: { publish() {} } },
      makeMailboxes: async () => {
        begun.resolve();
        await ended.promise;
      },
    });
    const given = { userId, localPart: 'a' };
    const first = slow.create({ ...given, domain });
    await begun.promise;
    let isMade = false;
    const second = accounts.create({ ...given, domain: `beside-${domain}` }).finally(() => {
      isMade = true;
    });
    const isAwaited = async () => {
      const { rows } = await sql`select 1 from pg_locks
        where classid = ${sql.lit(advisoryLocks.firstAccount)} and not granted`.execute(
        database.read,
      );
      return rows.length > 0;
    };
    while (!isMade && !(await isAwaited()));
    ended.resolve();
    const made = [(await first).account, (await second).account];
    assert.deepEqual(
      made.map(({ isDefault }) => isDefault),
      [true, false],
    );
  });

  test('listings go by id, page by page, of one domain or of all', async () => {
    const { userId, domain, create } = await newUser();
    const other = `other-${domain}`;
    await claim(userId, other);
    const ids: number[] = [];
    for (const localPart of ['e', 'd', 'c', 'b', 'a']) ids.push((await create(localPart)).id);
    const { account } = await accounts.create({ userId, domain: other, localPart: 'z' });
    const list = async (limit: number, offset: number, name?: string) =>
      (await accounts.list({ userId, domain: name, limit, offset })).map(({ id }) => id);
    assert.deepEqual(await list(50, 0), [...ids, account.id]);
    assert.deepEqual(await list(2, 0), ids.slice(0, 2));
    assert.deepEqual(await list(2, 2), ids.slice(2, 4));
    assert.deepEqual(await list(2, 5), [account.id]);
    assert.deepEqual(await list(2, 6), []);
    assert.deepEqual(await list(1000, 0, domain), ids);
    assert.deepEqual(await list(1000, 1, other.toUpperCase()), []);
    assert.deepEqual(await list(1000, Number.MAX_SAFE_INTEGER), []);
    await assert.rejects(list(50, 0, 'nobody.test'), { code: 'domain_not_found' });
  });

  suite('update', () => {
    test('changes what is given and nothing else', async () => {
      const { userId, create } = await newUser();
      const account = await create('ann');
      const renamed = await accounts.update(userId, account.id, { displayName: 'Ann' });
      assert.deepEqual(renamed, { ...account, displayName: 'Ann' });
      assert.deepEqual(published, []);
      const suspended = await accounts.update(userId, account.id, { status: 'suspended' });
      assert.deepEqual(suspended, { ...renamed, status: 'suspended' });
      assert.deepEqual(published, [{ kind: 'access', accountId: account.id, reason: 'suspended' }]);
      const both = { displayName: '', status: 'active' } as const;
      assert.deepEqual(await accounts.update(userId, account.id, both), { ...account, ...both });
      assert.deepEqual(await accounts.get(userId, account.id), { ...account, ...both });
      assert.equal(published.length, 1);
    });

    test('is recorded in the audit log, or not done', async () => {
      const { userId, create } = await newUser();
      const { id, address } = await create('ann');
      await accounts.update(userId, id, { status: 'suspended' }, { actor: 'one' });
      await accounts.update(userId, id, { status: 'active' });
      const entries = await listAudit(database.read, { limit: 10 });
      assert.deepEqual(
        entries.filter(({ target }) => target === address).map((one) => [one.action, one.actor]),
        [['account.suspend', 'one']],
      );
      const nobody = JSON.parse('{"actor":null}');
      await assert.rejects(accounts.update(userId, id, { status: 'suspended' }, nobody));
      assert.equal((await accounts.get(userId, id)).status, 'active');
    });

    test('refuses fields that are not valid, and none', async () => {
      const { userId, create } = await newUser();
      const account = await create('ann');
      const bad = [{}, { displayName: 'a\nb' }];
      for (const changed of bad) {
        await assert.rejects(accounts.update(userId, account.id, changed), {
          code: 'invalid_request',
        });
      }
      assert.deepEqual(await accounts.get(userId, account.id), account);
    });
  });

  test('a deleted account does not exist, is reported once, and its id is not used again', async () => {
    const { userId, create } = await newUser();
    const { id, address } = await create('ann');
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, () => accounts.remove(userId, id)),
    );
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
    assert.deepEqual(published, [{ kind: 'access', accountId: id, reason: 'deleted' }]);
    await assert.rejects(accounts.get(userId, id), { code: 'account_not_found' });
    await assert.rejects(accounts.remove(userId, id), { code: 'account_not_found' });
    assert.equal(await accounts.findForMail(address), undefined);
    assert.ok((await create('ann')).id > id);
  });

  test('a reset password replaces the old one', async () => {
    const { userId, create } = await newUser();
    const account = await create('ann');
    const given = await accounts.resetPassword(userId, account.id, 'another one');
    assert.deepEqual(given, { account, password: 'another one' });
    const { password_hash, credential_version } = await hashesOf(account.id);
    assert.ok(await verify(password_hash, 'another one'));
    assert.equal(credential_version, 2);
    const generated = await accounts.resetPassword(userId, account.id);
    assert.match(generated.password, /^[A-Za-z2-9]{20}$/);
    assert.ok(await verify((await hashesOf(account.id)).password_hash, generated.password));
    assert.deepEqual(
      published,
      Array(2).fill({ kind: 'access', accountId: account.id, reason: 'password_reset' }),
    );
    await assert.rejects(accounts.resetPassword(userId, account.id, 'short'), {
      code: 'invalid_request',
    });
    assert.ok(await verify((await hashesOf(account.id)).password_hash, generated.password));
  });

  test('the accounts of a removed domain are removed, and each is reported', async () => {
    const { userId, domain, domainId, create } = await newUser();
    await claim(userId, `kept-${domain}`);
    const kept = await accounts.create({ userId, domain: `kept-${domain}`, localPart: 'ann' });
    const ids = [(await create('ann')).id, (await create('bob')).id];
    const removed = await accounts.removeDomain(userId, domain.toUpperCase());
    assert.equal(removed.id, domainId);
    const reports = ids.map((accountId) => ({ kind: 'access', accountId, reason: 'deleted' }));
    // Another node may do the removal, and later: sockets end before it.
    assert.deepEqual(published, reports);
    assert.ok(await accounts.removeSomeOf(domainId));
    assert.ok(!(await accounts.removeSomeOf(domainId)));
    // Once more, where the first time failed.
    assert.deepEqual(published, [...reports, ...reports]);
    const listed = await accounts.list({ userId, limit: 50, offset: 0 });
    assert.deepEqual(
      listed.map(({ id }) => id),
      [kept.account.id],
    );
    await assert.rejects(accounts.removeDomain(userId, domain), { code: 'domain_not_found' });
  });

  test('a domain with thousands of accounts can be removed', async () => {
    const { userId, domain, domainId, create } = await newUser();
    const model = await create('model');
    const { id: _, ...columns } = await database.read
      .selectFrom('accounts')
      .selectAll()
      .where('id', '=', model.id)
      .executeTakeFirstOrThrow();
    await database.write(async (tx) => {
      for (let n = 0; n < 2500; n += 500) {
        const rows = Array.from({ length: 500 }, (_, i) => ({
          ...columns,
          local_part: `a${n + i}`,
        }));
        await tx.insertInto('accounts').values(rows).execute();
      }
    });
    assert.equal((await accounts.removeDomain(userId, domain)).id, domainId);
    assert.deepEqual(await accounts.list({ userId, limit: 50, offset: 0 }), []);
    assert.equal(published.length, 2501);
    let steps = 0;
    while (await accounts.removeSomeOf(domainId)) steps++;
    assert.equal(steps, 26);
  });

  test('accounts of a removed domain stop to exist at once for everybody', async () => {
    const { userId, domain, domainId, create } = await newUser();
    const ann = await create('ann');
    await accounts.removeDomain(userId, domain);
    const notFound = { code: 'account_not_found' };
    await assert.rejects(accounts.get(userId, ann.id), notFound);
    await assert.rejects(accounts.update(userId, ann.id, { displayName: 'x' }), notFound);
    await assert.rejects(accounts.remove(userId, ann.id), notFound);
    await assert.rejects(accounts.resetPassword(userId, ann.id), notFound);
    assert.equal(await accounts.findForMail(ann.address), undefined);
    assert.equal(await findRecipient(database.read, { local: 'ann', domain }), undefined);
    assert.equal(await accounts.oldestOfDomain(domainId), undefined);
    assert.equal((await findAccountsThere(database.read, [ann.id])).size, 0);
    assert.equal((await findAccountStates(database.read, [ann.id])).size, 0);
    const credentials = new CredentialsReader(database);
    assert.equal(await credentials.ofAccount(ann.id), undefined);
    assert.equal(await credentials.ofAddress({ domain, localPart: 'ann' }), undefined);
    // Its rows still exist.
    assert.equal((await hashesOf(ann.id)).credential_version, 1);
    // The address is free, is the default of its user, and accepts no token of the earlier account.
    await claim(userId, domain);
    const next = await create('ann');
    assert.equal(next.isDefault, true);
    const { tokensFrom } = (await credentials.ofAccount(next.id)) ?? {};
    assert.ok((tokensFrom ?? 0) > next.createdAt);
    await accounts.removeSomeOf(domainId);
    assert.deepEqual(await accounts.get(userId, next.id), next);
  });

  suite('for delivery', () => {
    test('a recipient is found with its domain, by any case and tag, suspended or not', async () => {
      const { userId, domain, domainId, create } = await newUser();
      const other = await newUser();
      const { id, address, status, quotaBytes } = await create('ann');
      for (const local of ['ann', 'ANN', 'ann+shop', 'Ann+a+b']) {
        const read = parseAddress(`${local}@${domain.toUpperCase()}`);
        const found = await findRecipient(database.read, read ?? assert.fail(local));
        assert.deepEqual(found?.account, { id, address, status, quotaBytes });
        assert.deepEqual(found?.domain, await domains.findActive(domain));
      }
      for (const local of ['', '+', '+ann', 'an', 'anna', 'a'.repeat(100_000)]) {
        const found = await findRecipient(database.read, { local, domain });
        assert.deepEqual([found?.domain.id, found?.account], [domainId, undefined]);
      }
      const elsewhere = await findRecipient(database.read, { local: 'ann', domain: other.domain });
      assert.deepEqual([elsewhere?.domain.id, elsewhere?.account], [other.domainId, undefined]);
      await accounts.update(userId, id, { status: 'suspended' });
      const suspended = await findRecipient(database.read, { local: 'ann', domain });
      assert.equal(suspended?.account?.status, 'suspended');
    });

    test('the oldest account of a domain is not the one of another domain', async () => {
      const { userId, domain, domainId, create } = await newUser();
      const second = await claim(userId, `second-${domain}`);
      assert.equal(await accounts.oldestOfDomain(domainId), undefined);
      const ann = await create('ann');
      await create('bob');
      const name = `second-${domain}`;
      const { account } = await accounts.create({ userId, domain: name, localPart: 'a' });
      assert.deepEqual(await accounts.oldestOfDomain(domainId), ann);
      assert.deepEqual(await accounts.oldestOfDomain(second), account);
      assert.equal(account.isDefault, false);
    });

    test('an address means the account on the claim that is active', async () => {
      const { userId, domain, domainId, create } = await newUser();
      const ann = await create('ann');
      assert.deepEqual(await accounts.findForMail(`Ann@${domain.toUpperCase()}`), ann);
      assert.equal((await findAccess(database.read, [ann.id], 'current')).size, 1);
      for (const address of [`ann+x@${domain}`, 'ann', '', `ann@x.${domain}`, `\0@${domain}`]) {
        assert.equal(await accounts.findForMail(address), undefined);
      }
      await database.write((tx) =>
        tx
          .updateTable('domains')
          .set({ status: 'pending', lapsed_at: Date.now() })
          .where('id', '=', domainId)
          .execute(),
      );
      assert.equal(await accounts.findForMail(ann.address), undefined);
      const { read } = database;
      assert.equal((await findAccess(read, [ann.id])).get(ann.id)?.status, 'active');
      assert.equal((await findAccess(read, [ann.id], 'current')).size, 0);
      // Without this the lapsed claim would become active again with the rival's first mark.
      await database.write((tx) =>
        tx
          .updateTable('dns_records')
          .set({ status: 'failed' })
          .where('domain_id', '=', domainId)
          .execute(),
      );
      await claim('rival', domain);
      const rival = await accounts.create({ userId: 'rival', domain, localPart: 'ann' });
      assert.deepEqual(await accounts.findForMail(ann.address), rival.account);
      assert.deepEqual(await accounts.get(userId, ann.id), ann);
      await assert.rejects(accounts.create({ userId, domain, localPart: 'new' }), {
        code: 'domain_not_active',
      });
    });
  });

  test("another user's account answers like one that does not exist", async () => {
    const { userId, domain, create } = await newUser();
    const stranger = (await newUser()).userId;
    const account = await create('ann');
    const stored = await hashesOf(account.id);
    for (const id of [account.id, 0, -1, 1.5, Number.NaN, 2 ** 53, 1e300, account.id + 1_000_000]) {
      const results = await Promise.allSettled([
        accounts.get(stranger, id),
        accounts.update(stranger, id, { displayName: 'mine', status: 'suspended' }),
        accounts.remove(stranger, id),
        accounts.resetPassword(stranger, id, 'long enough'),
      ]);
      for (const result of results) {
        assert.equal(result.status === 'rejected' && result.reason.code, 'account_not_found');
      }
    }
    await assert.rejects(accounts.removeDomain(stranger, domain), { code: 'domain_not_found' });
    await assert.rejects(accounts.list({ userId: stranger, domain, limit: 50, offset: 0 }), {
      code: 'domain_not_found',
    });
    assert.deepEqual(await accounts.list({ userId: stranger, limit: 50, offset: 0 }), []);
    assert.deepEqual(await accounts.get(userId, account.id), account);
    assert.deepEqual(await hashesOf(account.id), stored);
    assert.deepEqual(published, []);
    for (const bad of ['', 'x'.repeat(256), '\0']) {
      await assert.rejects(accounts.get(bad, account.id), { code: 'invalid_request' });
    }
  });

  test('an account that has the answers it may have gets those again, and no more', async () => {
    const { create } = await newUser();
    const { id: accountId } = await create('ann');
    const { id: otherId } = await create('bob');
    const { answered } = openRequests('');
    const ask = (key: string, of = accountId) =>
      answered.begin({ owner: { accountId: of }, key, hash: async () => '' });
    // Beside its answer a row counts as 256 octets.
    const body = 'x'.repeat(32 * 1024 * 1024 - 256);
    for (const key of ['a', 'b']) {
      const begun = await ask(key);
      assert.ok('id' in begun);
      await answered.finish(begun, '', { status: 200, body });
    }
    await assert.rejects(ask('c'), { code: 'rate_limited' });
    assert.deepEqual(await ask('a'), { status: 200, body });
    assert.ok('id' in (await ask('c', otherId)));
  });

  test('the key of a request that failed while the database was away is free when it is back', async () => {
    const { id: accountId } = await (await newUser()).create('ann');
    let isAway = false;
    const away = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    const answered = new AnsweredRequests({
      isAlone: true,
      database: {
        read: database.read,
        write: (work) => (isAway ? Promise.reject(away) : database.write(work)),
      },
      secret: ['secret'],
      now: Date.now,
    });
    const wait = () => assert.fail('the key is in use');
    const request = { owner: { accountId }, key: 'order-4711', hash: async () => '', wait };
    const begun = await answered.begin(request);
    assert.ok('id' in begun);
    isAway = true;
    await answered.giveUp(begun);
    await assert.rejects(answered.begin(request), { code: 'ECONNREFUSED' });
    isAway = false;
    const again = await answered.begin(request);
    assert.ok('id' in again);
    await answered.finish(again, '', { status: 200, body: '{}' });
    assert.deepEqual(await answered.begin(request), { status: 200, body: '{}' });
  });

  /** Requests of a user below /v2 to make an account, as a process carries them out. */
  function openRequests(
    userId: string,
    {
      secret = ['secret'],
      now = Date.now,
      isAlone = true,
    }: Partial<ConstructorParameters<typeof AnsweredRequests>[0]> = {},
  ) {
    const answered = new AnsweredRequests({ database, isAlone, secret, now });
    const hash = hashOf('POST', '/v2/email-accounts/create', userId);
    const begin = (apiKeyName = 'a key') =>
      answered.begin({
        owner: scopeOf(apiKeyName, userId),
        key: 'order-4711',
        hash: async () => hash,
        wait: () => assert.fail('the key is in use'),
      });
    return { answered, hash, begin };
  }

  test('an answer with a password is stored with its change, and is no clear text', async () => {
    const { userId, domain } = await newUser();
    const { answered, hash, begin } = openRequests(userId);
    const begun = await begin();
    assert.ok('id' in begun);
    const wanted = { userId, domain, localPart: 'ann' };
    // The process dies after the commit: nobody calls `finish`.
    const { password } = await accounts.create(wanted, undefined, (tx, made) =>
      answered.finishIn(tx, begun, hash, { status: 201, body: JSON.stringify(made) }),
    );
    const next = openRequests(userId, { now: () => Date.now() + HOUR_MS });
    const found = await next.begin();
    assert.ok('body' in found);
    assert.deepEqual([found.status, JSON.parse(found.body).password], [201, password]);
    const { id } = begun;
    const row = await database.read
      .selectFrom('idempotency_keys')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    assert.ok(!JSON.stringify(row).includes(password));
    assert.ok(!JSON.stringify(row).includes(hash), 'a hash of a weak password could be guessed');
    assert.deepEqual([row.account_id, row.request_hash], [null, null]);
    const rotated = ['another', 'secret'] as const;
    assert.deepEqual(await openRequests(userId, { secret: rotated }).begin(), found);
    const replaced = openRequests(userId, { secret: ['another'] }).begin();
    await assert.rejects(replaced, { code: 'idempotency_key_reused' });
    // Another API key and another user have a key of their own.
    assert.ok('id' in (await begin('another key')));
    assert.ok('id' in (await openRequests(`${userId}2`).begin()));
  });

  test('a change whose answer cannot be stored is not made', async () => {
    const { userId, domain } = await newUser();
    const wanted = { userId, domain, localPart: 'ann' };
    const failing = accounts.create(wanted, undefined, () => Promise.reject(new Error('full')));
    await assert.rejects(failing, { message: 'full' });
    assert.deepEqual(await accounts.list({ userId, limit: 1, offset: 0 }), []);
    const { account } = await accounts.create(wanted);
    const stored = await hashesOf(account.id);
    const resetting = accounts.resetPassword(userId, account.id, undefined, undefined, () =>
      Promise.reject(new Error('full')),
    );
    await assert.rejects(resetting, { message: 'full' });
    assert.deepEqual(await hashesOf(account.id), stored);
  });

  test('a request that died before its commit is carried out again', async () => {
    const { userId } = await newUser();
    assert.ok('id' in (await openRequests(userId).begin()));
    // By the next process; where others may run, one might be at it for 5 minutes.
    const soon = Date.now() + 1_000;
    const beside = openRequests(userId, { now: () => soon, isAlone: false });
    await assert.rejects(beside.begin(), { message: 'the key is in use' });
    assert.ok('id' in (await openRequests(userId, { now: () => soon }).begin()));
    const later = soon + 6 * 60_000;
    assert.ok('id' in (await openRequests(userId, { now: () => later, isAlone: false }).begin()));
  });

  test('old answers are forgotten, and their keys are free', async () => {
    const { userId } = await newUser();
    const begun = Date.now();
    const { answered, hash, begin } = openRequests(userId, { now: () => begun });
    const request = await begin();
    assert.ok('id' in request);
    await answered.finish(request, hash, { status: 200, body: '{}' });
    const forget = (before: number) => database.write((tx) => forgetAnswers(tx, before));
    await forget(begun);
    assert.deepEqual(await begin(), { status: 200, body: '{}' });
    await forget(begun + 1);
    assert.ok('id' in (await begin()));
  });

  test('a thousand old answers are forgotten at a time, because others wait for the transaction', async () => {
    const rows = Array.from({ length: 1_001 }, (_, at) => ({
      scope: 'old',
      key: `${at}`,
      started_at: 1,
    }));
    const forget = () => database.write((tx) => forgetAnswers(tx, 2));
    await database.write((tx) => tx.insertInto('idempotency_keys').values(rows).execute());
    assert.deepEqual([await forget(), await forget(), await forget()], [1_000, 1, 0]);
  });
});
