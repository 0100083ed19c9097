import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import type { Database, NewRow } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { type BlockKind, BlockList, readBlock } from './block-list.ts';
import { BLOCKS_MAX, Blocks } from './blocks.ts';

const by = { actor: 'test' };

test('blocks are written in one form', () => {
  const cases: readonly (readonly [BlockKind, string, string])[] = [
    ['address', 'Spam@BAD.example', 'spam@bad.example'],
    ['address', '"spam"@bad.example.', 'spam@bad.example'],
    ['address', 'spam@bücher.example', 'spam@xn--bcher-kva.example'],
    ['domain', 'BAD.example', 'bad.example'],
    ['domain', 'a_b.example', 'a_b.example'],
    ['domain', 'bücher.example', 'xn--bcher-kva.example'],
    ['network', '192.0.2.7', '192.0.2.7/32'],
    ['network', '192.0.2.200/25', '192.0.2.128/25'],
    ['network', '10.9.8.7/8', '10.0.0.0/8'],
    ['network', '2001:DB8:0:1::9', '2001:db8:0:1::9/128'],
    ['network', '2001:db8:ffff::/33', '2001:db8:8000::/33'],
  ];
  for (const [kind, text, value] of cases) assert.equal(readBlock(kind, text), value, text);
});

test('an invalid block is refused by its field', () => {
  const wrong: readonly (readonly [BlockKind, string])[] = [
    ...['', '@', 'bad.example', '@bad.example', 'a b@bad.example', 'a@', 'a@b\0.example'].map(
      (text) => ['address', text] as const,
    ),
    ...['', '.', 'a..example', 'a@bad.example', '192.0.2.1', 'a/b', `${'a'.repeat(64)}.test`].map(
      (text) => ['domain', text] as const,
    ),
    ...['', 'bad', '10.0.0.0/7', '0.0.0.0/0', '::/0', '2000::/3', '192.0.2.0/33', '192.0.2.0/'].map(
      (text) => ['network', text] as const,
    ),
    ...['127.1/8', '192.0.2.0/24/8', 'fe80::1%eth0', '::ffff:192.0.2.1', '2001:db8::/129'].map(
      (text) => ['network', text] as const,
    ),
  ];
  for (const [kind, text] of wrong) {
    assert.throws(
      () => readBlock(kind, text),
      (error) => error instanceof Refusal && error.errors?.[0]?.field === 'value',
      `${kind} ${text}`,
    );
  }
});

test('a sender is found by its address, its domain, and the network of its client', () => {
  const list = new BlockList([
    { kind: 'address', value: readBlock('address', 'Spam@far.test') },
    { kind: 'domain', value: readBlock('domain', 'bad.test') },
    { kind: 'network', value: readBlock('network', '192.0.2.64/26') },
    { kind: 'network', value: readBlock('network', '2001:db8::/32') },
  ]);
  const found: readonly (readonly [string, string, BlockKind | undefined])[] = [
    ['203.0.113.1', 'spam@far.test', 'address'],
    ['203.0.113.1', '"SPAM"@FAR.test', 'address'],
    ['203.0.113.1', 'spam+tag@far.test', undefined],
    ['203.0.113.1', 'spam@sub.far.test', undefined],
    ['203.0.113.1', 'a@bad.test', 'domain'],
    ['203.0.113.1', 'a@x.y_z.BAD.test', 'domain'],
    ['203.0.113.1', 'a@notbad.test', undefined],
    ['203.0.113.1', 'a@test', undefined],
    ['203.0.113.1', 'a@[192.0.2.70]', undefined],
    ['203.0.113.1', '', undefined],
    ['192.0.2.64', '', 'network'],
    ['192.0.2.127', 'a@good.test', 'network'],
    ['192.0.2.128', 'a@good.test', undefined],
    ['::ffff:c000:0240', 'a@good.test', 'network'],
    ['2001:db8:1::1%eth0', 'a@good.test', 'network'],
    ['2001:db9::1', 'a@good.test', undefined],
    ['no address', 'a@good.test', undefined],
  ];
  for (const [client, from, kind] of found) {
    assert.equal(list.find(client, from)?.kind, kind, `${client} <${from}>`);
  }
  assert.equal(new BlockList([]).find('192.0.2.64', 'a@bad.test'), undefined);
});

onEachEngine('blocks', (engine) => {
  /** One node; it stops with the test. */
  async function startNode(context: TestContext, database: Database) {
    const warnings: string[] = [];
    const blocks = new Blocks({
      database,
      now: Date.now,
      lookEveryMs: 10,
      trustedNetworks: ['10.0.0.0/8', '2001:db8:7::/48'],
      logger: { warn: (_fields, message) => warnings.push(message) },
    });
    await blocks.start();
    context.after(() => blocks.stop());
    return { blocks, warnings };
  }

  test('a network whose mail is never blocked is refused, and one around it is not', async (context) => {
    const { database } = await openTestDatabase(engine);
    const { blocks } = await startNode(context, database);
    const add = (value: string) => blocks.add({ kind: 'network', value }, by);
    for (const [value, trusted] of [
      ['10.1.2.3', '10.0.0.0/8'],
      ['10.0.0.0/8', '10.0.0.0/8'],
      ['2001:db8:7:1::/64', '2001:db8:7::/48'],
    ] as const) {
      const message = `lies in ${trusted} of SMTP_TRUSTED_NETWORKS, whose mail is never blocked`;
      await assert.rejects(add(value), { errors: [{ field: 'value', message }] });
    }
    for (const value of ['2001:db8::/32', '11.0.0.0/8', '2001:db8:8::1']) await add(value);
  });

  /** Waits for what a node finds itself; the runner's timeout ends it. */
  async function until(condition: () => boolean): Promise<void> {
    while (!condition()) await pause(5);
  }

  test('a node knows its own changes at once, and those of others soon', async (context) => {
    const { database } = await openTestDatabase(engine);
    const [{ blocks: one }, { blocks: other }] = [
      await startNode(context, database),
      await startNode(context, database),
    ];
    const judge = (blocks: Blocks) => blocks.judge('203.0.113.1', 'a@bad.test')?.code;
    assert.equal(judge(one), undefined);
    const { id } = await one.add({ kind: 'domain', value: 'bad.test' }, by);
    assert.equal(judge(one), 'sender_blocked');
    await until(() => judge(other) === 'sender_blocked');
    await other.remove(id, by);
    assert.equal(judge(other), undefined);
    await until(() => judge(one) === undefined);
  });

  test('while the list cannot be read the last one stays in use, and one line says so', async (context) => {
    const { database } = await openTestDatabase(engine);
    const { blocks, warnings } = await startNode(context, database);
    await blocks.add({ kind: 'network', value: '192.0.2.0/24' }, by);
    await database.write((tx) => sql`alter table blocks rename to gone`.execute(tx));
    await until(() => warnings.length > 0);
    await pause(100);
    assert.equal(warnings.length, 1);
    assert.equal(blocks.judge('192.0.2.9', '')?.code, 'sender_blocked');
    await database.write((tx) => sql`alter table gone rename to blocks`.execute(tx));
    await database.write((tx) => tx.deleteFrom('blocks').execute());
    await until(() => blocks.judge('192.0.2.9', '') === undefined);
  });

  test('one more than the limit is refused, an existing one is not', async (context) => {
    const { database } = await openTestDatabase(engine);
    const rows = Array.from(
      { length: BLOCKS_MAX },
      (_, index): NewRow<'blocks'> => ({
        kind: 'domain',
        value: `d${index}.test`,
        created_at: 1,
      }),
    );
    await database.write(async (tx) => {
      for (let at = 0; at < BLOCKS_MAX; at += 500) {
        await tx
          .insertInto('blocks')
          .values(rows.slice(at, at + 500))
          .execute();
      }
    });
    const { blocks } = await startNode(context, database);
    assert.equal(blocks.judge('203.0.113.1', 'a@d9999.test')?.code, 'sender_blocked');
    await assert.rejects(blocks.add({ kind: 'domain', value: 'more.test' }, by), /10000 blocks/);
    const known = await blocks.add({ kind: 'domain', value: 'd7.test' }, by);
    assert.equal(known.createdAt, 1);
  });
});
