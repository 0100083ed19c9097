import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readdir, readFile, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore, type TestMailstore } from '../../../test/support/mail.ts';
import { arriving, openReceiver } from '../../../test/support/receive.ts';
import { activateDomain, openTenants } from '../../../test/support/tenants.ts';
import { answerOf, Refusal } from '../../platform/errors/errors.ts';
import type { Accounts } from '../../tenants/accounts/accounts.ts';
import type { Domains } from '../../tenants/domains/domains.ts';
import { SenderRewriting } from '../outbound/outbound.ts';
import { type MailReceiver, OwnMailboxes } from './delivery.ts';

const DAY = 86_400_000;
let clock = Date.UTC(2026, 0, 1);

onEachEngine('delivery', (engine) => {
  let store: TestMailstore;
  let domains: Domains;
  let accounts: Accounts;
  let delivery: MailReceiver;
  /** An account that is deleted just before a message is stored. */
  let goesWhileStored: number | undefined;

  before(async () => {
    store = await openTestMailstore(engine);
    const { database, bodies, mailstore } = store;
    const now = () => clock;
    ({ domains, accounts } = openTenants(database, { now }));
    delivery = openReceiver(store, {
      domains,
      accounts,
      now,
      storage: new OwnMailboxes({
        bodies,
        changes: { publish: () => {} },
        mailstore: {
          quotas: mailstore.quotas,
          line: mailstore.line,
          writer: {
            plain: (texts, target) =>
              goesWhileStored === undefined ? mailstore.writer.plain(texts, target) : undefined,
            async append(tx, ...message) {
              if (goesWhileStored !== undefined) {
                await tx.deleteFrom('accounts').where('id', '=', goesWhileStored).execute();
              }
              return mailstore.writer.append(tx, ...message);
            },
          },
        },
      }),
      hostname: 'mx.in.acme.test',
    });
    assert.equal(await check('ann@acme.test'), '450 4.3.5', 'while no domain is there at all');
    await activateDomain(domains, 'u', 'acme.test');
    await create('ann');
    await create('ben');
  });

  async function create(localPart: string, domain = 'acme.test') {
    const { account } = await accounts.create({
      userId: 'u',
      domain,
      localPart,
      password: 'a good password',
    });
    return account;
  }

  async function check(recipient: string): Promise<string | undefined> {
    const transaction = { from: 'bob@example.test', octets: 0 };
    const found = await delivery.checkRecipient(recipient, transaction);
    if (!(found instanceof Refusal)) return undefined;
    const { code, enhanced } = answerOf(found.code).smtp;
    return `${code} ${enhanced}`;
  }

  async function codeAtRcpt(recipient: string, from: string): Promise<string | undefined> {
    const found = await delivery.checkRecipient(recipient, { from, octets: 0 });
    return found instanceof Refusal ? found.code : undefined;
  }

  const receive = (to: string[], protocol?: string, source?: string) =>
    delivery.receive(...arriving(to, source, protocol));

  async function countIn(address: string): Promise<number> {
    const account = await accounts.findForMail(address);
    assert.ok(account);
    const user = { accountId: account.id, address };
    return (await store.mailstore.sync(user, { mailbox: 'INBOX' })).changes.added.length;
  }

  test('the answer for each recipient follows from its domain and account', async () => {
    await domains.create({ userId: 'u', domain: 'pending.test' });
    const cal = await create('cal');
    await accounts.update('u', cal.id, { status: 'suspended' });
    for (const [recipient, reply] of [
      ['ann@acme.test', undefined],
      ['ANN@ACME.TEST', undefined],
      ['ann+tag@acme.test', undefined],
      ['"ann"@acme.test', undefined],
      ['postmaster@acme.test', undefined],
      ['PostMaster@acme.test', undefined],
      ['nobody@acme.test', '550 5.1.1'],
      ['+ann@acme.test', '550 5.1.1'],
      ['cal@acme.test', '450 4.2.1'],
      ['ann@pending.test', '550 5.1.2'],
      ['ann@elsewhere.test', '550 5.7.1'],
      ['ann@[127.0.0.1]', '550 5.7.1'],
      ['ann%elsewhere.test@acme.test', '550 5.1.1'],
      // Without a domain, too, as SMTP says it: that of the closest domain above our own name.
      ['postmaster@mx.in.acme.test', undefined],
      ['ann@mx.in.acme.test', '550 5.7.1'],
      ['postmaster@in.acme.test', '550 5.7.1'],
      ['postmaster', '550 5.7.1'],
      ['not an address', '550 5.7.1'],
    ] as const) {
      assert.equal(await check(recipient), reply, recipient);
    }
  });

  test('mail for a domain that lost its records is deferred for five days, then refused', async () => {
    await activateDomain(domains, 'u', 'lapsed.test');
    await create('ann', 'lapsed.test');
    await store.database.write((tx) =>
      tx
        .updateTable('domains')
        .set({ status: 'pending', lapsed_at: clock })
        .where('name', '=', 'lapsed.test')
        .execute(),
    );
    assert.equal(await check('ann@lapsed.test'), '450 4.1.2');
    clock += 5 * DAY + 1;
    assert.equal(await check('ann@lapsed.test'), '550 5.1.2');
  });

  test('beside the bodies of another database all mail is deferred, and none is refused for good', async () => {
    const idFile = join(store.directory, 'bodies', 'store-id');
    const id = await readFile(idFile, 'utf8');
    await writeFile(idFile, 'another');
    await store.bodies.checkStore(false);
    assert.ok(store.bodies.mismatch);
    assert.equal(await check('ann@acme.test'), '451 4.3.0');
    assert.equal(await check('ann@elsewhere.test'), '451 4.3.0');
    await assert.rejects(receive(['ann@acme.test']), { code: 'unavailable' });
    await writeFile(idFile, id);
    await store.bodies.checkStore(false);
    assert.equal(await check('ann@acme.test'), undefined);
  });

  test('two forward-paths of one account bring one copy', async () => {
    const before = await countIn('ann@acme.test');
    const outcomes = await receive(['ann@acme.test', 'ann+a@acme.test', 'ben@acme.test']);
    assert.deepEqual(
      outcomes.map(({ recipient, result }) => [recipient, result]),
      [
        ['ann@acme.test', 'delivered'],
        ['ann+a@acme.test', 'delivered'],
        ['ben@acme.test', 'delivered'],
      ],
    );
    assert.equal(await countIn('ann@acme.test'), before + 1);
  });

  test('by SMTP, one deleted recipient defers the whole message; by LMTP, only its own copy', async () => {
    const before = await countIn('ann@acme.test');
    await assert.rejects(
      receive(['ann@acme.test', 'gone@acme.test']),
      (error) => error instanceof Refusal && error.code === 'unavailable',
    );
    await assert.rejects(
      receive(['gone@acme.test']),
      (error) => error instanceof Refusal && error.code === 'account_not_found',
    );
    assert.equal(await countIn('ann@acme.test'), before);
    const outcomes = await receive(['gone@acme.test', 'ann@acme.test'], 'LMTP');
    assert.deepEqual(
      outcomes.map(({ result }) => result),
      ['permanent', 'delivered'],
    );
    assert.equal(await countIn('ann@acme.test'), before + 1);
  });

  test('an account that is deleted while its message is stored does not affect the other recipients', async () => {
    const before = await countIn('ann@acme.test');
    goesWhileStored = (await create('going')).id;
    await assert.rejects(
      receive(['ann@acme.test', 'going@acme.test']),
      (error) => error instanceof Refusal && error.code === 'unavailable',
    );
    assert.equal(await countIn('ann@acme.test'), before, 'all of them or none');
    await assert.rejects(
      receive(['going@acme.test']),
      (error) => error instanceof Refusal && error.code === 'account_not_found',
    );
    const outcomes = await receive(['going@acme.test', 'ann@acme.test'], 'LMTP');
    assert.deepEqual(
      outcomes.map(({ result }) => result),
      ['permanent', 'delivered'],
    );
    assert.equal(await countIn('ann@acme.test'), before + 1);
    goesWhileStored = undefined;
  });

  test('a message that the disk has no room for is refused before it is sent', async () => {
    assert.equal(await delivery.checkRoom(0), undefined);
    const { bavail, bsize } = await statfs(store.directory);
    // Twice as much: others may free some meanwhile.
    assert.equal((await delivery.checkRoom(2 * bavail * bsize))?.code, 'storage_full');
  });

  test('a refused message and a message that breaks off leave nothing on disk', async () => {
    const large = `Subject: large\r\n\r\n${'x'.repeat(200_000)}`;
    await assert.rejects(receive(['gone@acme.test'], 'ESMTP', large));
    await receive(['gone@acme.test'], 'LMTP', large);
    async function* broken() {
      yield Buffer.from(large);
      throw new Refusal('unavailable', 'the client is gone');
    }
    await assert.rejects(
      delivery.receive(
        {
          id: randomUUID(),
          from: '',
          to: ['ann@acme.test'],
          arrival: { protocol: 'SMTP', heloName: 'c', remoteAddress: '::1', sessionId: 's' },
        },
        broken(),
      ),
    );
    const files = await readdir(join(store.directory, 'bodies'), { recursive: true });
    assert.deepEqual(
      files.filter((name) => name.includes('/')),
      [],
    );
  });

  test('routes that pass mail on accept every local part, and bounces come back through SRS', async () => {
    await activateDomain(domains, 'u', 'hooked.test');
    await activateDomain(domains, 'u', 'forwarded.test');
    await domains.setRoute('u', 'hooked.test', {
      forwardMode: 'webhook',
      webhookUrl: 'https://receiver.test/',
    });
    await domains.setRoute('u', 'forwarded.test', {
      forwardMode: 'forward_email',
      forwardToEmail: 'me@elsewhere.test',
    });
    assert.equal(await check('anybody@hooked.test'), undefined);
    assert.equal(await check('anybody@forwarded.test'), undefined);
    const senders = new SenderRewriting({ key: ['k'.repeat(32)], now: () => clock });
    const rewritten = senders.forwardAddress('bob@example.test', 'forwarded.test');
    assert.equal(await codeAtRcpt(rewritten, ''), undefined);
    assert.equal(await codeAtRcpt(rewritten, 'x@example.test'), 'srs_invalid');
    const forged = rewritten.replace(/=.{8}=/, '=AAAAAAAA=');
    assert.equal(await codeAtRcpt(forged, ''), 'srs_invalid');
    clock += 12 * DAY;
    assert.equal(await codeAtRcpt(rewritten, ''), 'srs_invalid');
  });

  test('a message for several routes is queued for each, and stored, in one transaction', async () => {
    await receive(['ann@acme.test', 'a@hooked.test', 'b@hooked.test', 'c@forwarded.test']);
    const rows = await store.database.read
      .selectFrom('deliveries')
      .innerJoin('delivery_payloads', 'delivery_payloads.delivery_id', 'deliveries.id')
      .select(['kind', 'destination', 'payload'])
      .orderBy('kind')
      .execute();
    assert.deepEqual(
      rows.map(({ kind, destination }) => [kind, destination]),
      [
        ['forward', 'elsewhere.test'],
        ['webhook', 'https://receiver.test'],
      ],
    );
    const { body } = JSON.parse(rows[1]?.payload ?? '');
    const { data } = JSON.parse(body);
    assert.deepEqual(data.envelope, {
      from: 'bob@example.test',
      to: ['a@hooked.test', 'b@hooked.test'],
    });
    assert.match(data.raw_url, /^http:\/\/mx\.test\/webhooks\/raw\//);
  });
});
