/** Several outside recipients of one destination share a delivery, and each has a status of its own. */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import fc from 'fast-check';
import { sql } from 'kysely';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore, sampleMessage } from '../../../test/support/mail.ts';
import { polite, replies, senderTo, startScript } from '../../../test/support/outbound/far-end.ts';
import { FakeClock, until } from '../../../test/support/queue/fake-clock.ts';
import { renewUidvalidity } from '../../mailboxes/mailstore/mailstore.ts';
import type { Engine } from '../../platform/database/database.ts';
import { findSendingAccount } from '../../tenants/accounts/accounts.ts';
import { Usage } from '../../tenants/usage/usage.ts';
import {
  type LocalMailDelivery,
  type MessageSender,
  mailDelays,
  type SendOutcome,
} from '../outbound/outbound.ts';
import { Queue } from '../queue/queue.ts';
import { Trace } from '../trace/trace.ts';
import { accept } from './accept.ts';
import { cancelSend } from './cancel.ts';
import { carryOutSends } from './carry-out-sends.ts';
import { EmbeddedCopies } from './copies.ts';
import { renewSends } from './restored-sends.ts';
import { readRecipients } from './send-rows.ts';

const SECOND = 1_000;
const silent = { warn() {}, error() {} };

/** A host that the test controls. */
interface Far {
  port: number;
  /** Local parts that RCPT named, by session. */
  readonly asked: string[][];
  /** Local parts of each transfer that was accepted. */
  readonly transfers: string[][];
  /** The answer to RCPT, by the number of recipients that were accepted before it. */
  onRecipient: (local: string, accepted: number) => string;
  onMessage: (locals: readonly string[]) => string;
}

async function startFar(): Promise<Far> {
  const far: Far = {
    port: 0,
    asked: [],
    transfers: [],
    onRecipient: () => '250 2.1.5 ok',
    onMessage: () => '250 2.0.0 queued',
  };
  far.port = await startScript((socket) => {
    const accepted: string[] = [];
    const asked: string[] = [];
    far.asked.push(asked);
    const say = (to: Socket, reply: string) => to.write(`${reply}\r\n`);
    replies({
      ...polite,
      RCPT(to, line) {
        const [, local = ''] = /<([^@]*)@/.exec(line) ?? [];
        const reply = far.onRecipient(local, accepted.length);
        asked.push(local);
        if (reply.startsWith('2')) accepted.push(local);
        say(to, reply);
      },
      MESSAGE(to) {
        const reply = far.onMessage(accepted);
        if (reply.startsWith('2')) far.transfers.push(accepted);
        say(to, reply);
      },
    })(socket);
  });
  return far;
}

async function openSending(engine: Engine, sender: Pick<MessageSender, 'sendToAll'>) {
  const clock = new FakeClock();
  const now = () => clock.now();
  const store = await openTestMailstore(engine, now);
  const { database, bodies, mailstore } = store;
  const user = await store.makeUser();
  const account = await findSendingAccount(database.read, user.accountId);
  assert.ok(account);
  await database.write((tx) =>
    tx
      .insertInto('dns_records')
      .values({
        domain_id: account.domainId,
        purpose: 'dkim',
        record_type: 'TXT',
        host: 'test._domainkey',
        expected_value: 'none',
        priority: null,
        status: 'verified',
        observed_value: null,
        detail: null,
        last_checked_at: null,
        failing_since: null,
        marked: 0,
      })
      .execute(),
  );
  const trace = new Trace({ database, keptDays: 30, node: 'n', log: silent, now });
  const queue = new Queue({ database, clock, log: silent, trace, random: () => 0 });
  const copies = new EmbeddedCopies({
    mailstore,
    bodies,
    changes: { publish() {} },
    log: silent,
  });
  /** Accounts whose mailboxes a transaction waits for. */
  const turns: (readonly number[])[] = [];
  const inLine = copies.inLine.bind(copies);
  copies.inLine = (accountIds, write) => {
    turns.push(accountIds);
    return inLine(accountIds, write);
  };
  const reports: string[] = [];
  const local: LocalMailDelivery = {
    prepare: () => assert.fail('nobody is hosted here'),
    report: async (_tx, _user, source) => () => void reports.push(source.toString()),
  };
  const here = {
    domains: { findActive: async () => undefined, findDkimKey: async () => undefined },
    local,
    hostname: 'mail.postroom.test',
  };
  carryOutSends({
    ...here,
    database,
    queue,
    bodies,
    copies,
    sender,
    usage: new Usage({ database, now }),
    log: silent,
    trace,
    now,
  });
  let sendId = 0;
  const options = { ...here, database, bodies, copies, queue, trace, recipientsPerDay: 0, now };
  const sendAt = async (at: number | undefined, ...names: string[]) => {
    const accepted = await accept(
      { ...options, usage: new Usage({ database, now }) },
      {
        user,
        account,
        staged: await store.stage(sampleMessage('m')),
        messageId: '<1@acme.test>',
        from: account.address,
        recipients: names.map((name) => `${name}@far.test`),
        isRepeatable: false,
        key: undefined,
        sendAt: at,
        inReplyTo: undefined,
        draft: undefined,
      },
    );
    const row = await database.read
      .selectFrom('sends')
      .select('id')
      .where('public_id', '=', accepted.id)
      .executeTakeFirstOrThrow();
    sendId = row.id;
    await queue.idle();
    return accepted.id;
  };
  return {
    database,
    queue,
    clock,
    reports,
    turns,
    account,
    bodies,
    sendAt,
    send: (...names: string[]) => sendAt(undefined, ...names),
    cancel(id: string) {
      const usage = new Usage({ database, now });
      return cancelSend({ ...options, mailstore, usage }, user, id);
    },
    /** Lets time pass, and what becomes due be attempted. */
    async wait(ms: number) {
      await clock.advance(ms);
      await queue.idle();
    },
    /** Makes what waits due now, as the attempt of this number where one is given. */
    async attempt(number?: number) {
      await database.write((tx) =>
        tx
          .updateTable('deliveries')
          .set({
            next_attempt_at: now(),
            ...(number !== undefined && { attempts: number - 1 }),
          })
          .where('status', '=', 'queued')
          .execute(),
      );
      const { userId, domainId } = account;
      const owner = { userId, domainId, accountId: user.accountId };
      queue.wake([{ kind: 'send', destination: 'far.test', ...owner }]);
      await queue.idle();
    },
    async statuses() {
      const rows = await readRecipients(database.read, sendId);
      return rows.map(({ address, status }) => `${address.split('@')[0]} ${status}`);
    },
    async deliveries() {
      const rows = await queue.list({ domainId: account.domainId, limit: 10, offset: 0 });
      return rows.map(({ status, attempts, recipient }) => [status, attempts, recipient]);
    },
  };
}

const named = (...names: string[]) => names.map((name) => `${name}@far.test`).join(', ');

onEachEngine('recipients of one destination', (engine) => {
  async function open() {
    const far = await startFar();
    return { far, ...(await openSending(engine, senderTo(far.port))) };
  }

  test('share a delivery and a transfer', async () => {
    const { far, database, queue, send, statuses } = await open();
    const names = Array.from({ length: 20 }, (_, at) => `r${at}`);
    const id = await send(...names);
    assert.deepEqual(far.transfers, [names]);
    assert.deepEqual(
      await statuses(),
      names.map((name) => `${name} delivered`),
    );
    const rows = await database.read.selectFrom('deliveries').select('status').execute();
    assert.deepEqual(rows, [{ status: 'delivered' }]);
    const traced = await database.read
      .selectFrom('trace')
      .select(['recipient', 'status'])
      .where('mail_id', '=', id)
      .where('event', '=', 'send_attempt')
      .orderBy('id')
      .execute();
    assert.deepEqual(
      traced.map(({ recipient, status }) => `${recipient} ${status}`),
      names.map((name) => `${name}@far.test delivered`),
    );
    await queue.stop(0);
  });

  test('are cancelled once, and a request that comes in the middle of that is answered the same', async (t) => {
    const { clock, queue, bodies, sendAt, cancel, statuses } = await open();
    const id = await sendAt(clock.now() + 60 * SECOND, 'one', 'two');
    const find = bodies.find.bind(bodies);
    let first: Promise<unknown> | undefined;
    let isDone = false;
    t.mock.method(bodies, 'find', async (bodyId: number) => {
      if (first && !isDone) return find(bodyId);
      first ??= cancel(id);
      await first;
      isDone = true;
      // On a mail server it is released with the mail.
      return undefined;
    });
    const second = await cancel(id);
    assert.deepEqual(second, await first);
    assert.deepEqual(await statuses(), ['one cancelled', 'two cancelled']);
    await queue.stop(0);
  });

  test('can be cancelled after a restore, which gives each mailbox another UIDVALIDITY', async () => {
    const { database, clock, queue, sendAt, cancel } = await open();
    const inBoxes = async () => {
      const rows = await database.read
        .selectFrom('messages')
        .innerJoin('mailboxes', 'mailboxes.id', 'messages.mailbox_id')
        .select('name')
        .execute();
      return rows.map(({ name }) => name);
    };
    const id = await sendAt(clock.now() + 60 * SECOND, 'one');
    assert.deepEqual(await inBoxes(), ['Sent']);
    await database.write((tx) => renewSends(tx, () => renewUidvalidity(tx, clock.now())));
    await cancel(id);
    assert.deepEqual(await inBoxes(), ['Drafts']);
    await queue.stop(0);
  });

  test('have their own results, and the failures of an attempt one report', async () => {
    const { far, database, queue, send, wait, statuses, deliveries, reports, turns, account } =
      await open();
    const answers: Record<string, string> = {
      busy: '450 4.2.1 busy',
      gone: '550 5.1.1 no such user',
      left: '550 5.1.1 no such user',
    };
    far.onRecipient = (local) => answers[local] ?? '250 ok';
    await send('ann', 'busy', 'gone', 'bob', 'left');
    const first = ['ann delivered', 'busy deferred', 'gone bounced', 'bob delivered'];
    assert.deepEqual(await statuses(), [...first, 'left bounced']);
    assert.deepEqual(await deliveries(), [['queued', 1, named('busy')]]);
    const [report = '', ...more] = reports;
    assert.deepEqual(more, []);
    const failed = [...report.matchAll(/^Final-Recipient: rfc822; (.*)\r$/gm)].map(([, to]) => to);
    assert.deepEqual(failed, ['gone@far.test', 'left@far.test']);
    assert.equal([...report.matchAll(/^Remote-MTA: dns; mx\.far\.test\r$/gm)].length, 2);

    const [accepted] = turns;
    assert.deepEqual(turns, [accepted, accepted], 'the report is for a mailbox of the sender, too');
    answers.busy = '250 ok';
    await wait(61 * SECOND);
    assert.equal(turns.length, 2, 'what goes elsewhere waits for no mailbox');
    assert.deepEqual(far.transfers, [['ann', 'bob'], ['busy']]);
    // It is over, and two did not get the message: an operator finds it among the failed ones.
    assert.deepEqual(await deliveries(), [['failed', 2, named('gone', 'left')]]);
    delete answers.gone;
    const [{ id } = { id: 0 }] = await queue.list({
      domainId: account.domainId,
      limit: 1,
      offset: 0,
    });
    await queue.retry(account.domainId, id, 'a test');
    await queue.idle();
    // Those who were refused are on the suppression list.
    assert.deepEqual(far.asked.length, 2);
    assert.equal(reports.length, 1);
    const counted = await database.read
      .selectFrom('usage_hours')
      .select(['messages_out', 'bounced'])
      .execute();
    assert.deepEqual(counted, [{ messages_out: 5, bounced: 2 }], 'a replay bounces nobody anew');
    await queue.stop(0);
  });

  test('who are too many for one transaction go in the next, at once', async () => {
    const { far, queue, send, wait, statuses, deliveries } = await open();
    far.onRecipient = (local, accepted) => {
      if (local === 'r1') return '450 4.2.1 busy';
      return accepted < 3 ? '250 ok' : '452 4.5.3 too many recipients';
    };
    const names = Array.from({ length: 9 }, (_, at) => `r${at}`);
    await send(...names);
    assert.deepEqual(far.transfers, [
      ['r0', 'r2', 'r3'],
      ['r4', 'r5', 'r6'],
      ['r7', 'r8'],
    ]);
    // The one who was deferred is not asked for in each of them.
    assert.equal(far.asked.flat().filter((local) => local === 'r1').length, 1);
    assert.deepEqual(await deliveries(), [['queued', 1, named('r1')]]);
    far.onRecipient = () => '250 ok';
    await wait(61 * SECOND);
    assert.deepEqual(far.transfers.at(-1), ['r1']);
    assert.deepEqual(
      await statuses(),
      names.map((name) => `${name} delivered`),
    );
    assert.deepEqual(await deliveries(), [['delivered', 2, named('r1')]]);
    await queue.stop(0);
  });

  test('are tried alone from the fifth attempt on: one may be the reason for all', async () => {
    const { far, queue, send, attempt, deliveries } = await open();
    far.onMessage = (locals) => (locals.includes('bad') ? '451 4.7.1 not with bad' : '250 ok');
    await send('ann', 'bad', 'bob', 'cy');
    await attempt(4);
    assert.deepEqual(await deliveries(), [['queued', 4, named('ann', 'bad', 'bob', 'cy')]]);
    assert.deepEqual(far.transfers, []);
    await attempt();
    assert.deepEqual(far.transfers, [['ann'], ['bob'], ['cy']]);
    assert.deepEqual(await deliveries(), [['queued', 5, named('bad')]]);
    await queue.stop(0);
  });

  test('of those who got it none gets it again, where the report for another one cannot be read for', async () => {
    const far = await startFar();
    const { queue, send, attempt, statuses, reports, bodies } = await openSending(
      engine,
      senderTo(far.port),
    );
    far.onRecipient = (local) => {
      if (local !== 'gone') return '250 2.1.5 ok';
      // Just now the database goes away.
      bodies.find = () => Promise.reject(new Error('the database is away'));
      return '550 5.1.1 nobody';
    };
    await send('ann', 'gone');
    await attempt();
    assert.deepEqual(await statuses(), ['ann delivered', 'gone bounced']);
    assert.deepEqual(far.transfers, [['ann']]);
    assert.equal(reports.length, 1);
    await queue.stop(0);
  });

  test('of a host that is away are not tried one by one, and their end is one report', async () => {
    const asked: number[] = [];
    const away = senderTo(1);
    const { queue, send, attempt, statuses, reports } = await openSending(engine, {
      sendToAll(message, signal) {
        asked.push(message.to.length);
        return away.sendToAll(message, signal);
      },
    });
    await send('ann', 'bob', 'cy');
    await attempt(5);
    await attempt(mailDelays.length);
    assert.deepEqual(await statuses(), ['ann deferred', 'bob deferred', 'cy deferred']);
    await attempt();
    assert.deepEqual(asked, [3, 1, 1, 3]);
    assert.deepEqual(await statuses(), ['ann bounced', 'bob bounced', 'cy bounced']);
    assert.equal(reports.length, 1);
    await queue.stop(0);
  });

  test('who have the message when the service stops do not get it again', async () => {
    const begun = Promise.withResolvers<void>();
    const { clock, queue, send, statuses } = await openSending(engine, {
      async sendToAll(_, signal) {
        begun.resolve();
        await new Promise((resolve) => signal?.addEventListener('abort', resolve));
        return [OUTCOMES.take, OUTCOMES.later];
      },
    });
    const sent = send('ann', 'bob');
    await begun.promise;
    const stopped = queue.stop(0);
    await clock.advance(0);
    await stopped;
    await sent;
    assert.deepEqual(await statuses(), ['ann delivered', 'bob deferred']);
  });

  test('that 0.3.0 queued each with a delivery of its own get theirs', async () => {
    const { far, database, queue, send, attempt, statuses } = await open();
    far.onRecipient = () => '450 later';
    await send('ann', 'bob');
    await database.write(async (tx) => {
      const own = await tx.selectFrom('deliveries').selectAll().executeTakeFirstOrThrow();
      const { id: _, ...same } = own;
      const { id } = await tx
        .insertInto('deliveries')
        .values({ ...same, public_id: 'another' })
        .returning('id')
        .executeTakeFirstOrThrow();
      const written = tx.selectFrom('delivery_payloads').select([sql.lit(id).as('id'), 'payload']);
      await tx
        .insertInto('delivery_payloads')
        .columns(['delivery_id', 'payload'])
        .expression(written)
        .execute();
      await tx
        .updateTable('send_recipients')
        .set({ delivery_id: id })
        .where('address', '=', 'bob@far.test')
        .execute();
    });
    far.onRecipient = () => '250 ok';
    await attempt();
    assert.deepEqual(far.transfers.toSorted(), [['ann'], ['bob']]);
    assert.deepEqual(await statuses(), ['ann delivered', 'bob delivered']);
    await queue.stop(0);
  });

  test('of a host that breaks off because of one get the message alone', async () => {
    const far = { asked: [] as string[][], transfers: [] as string[][] };
    const port = await startScript((socket) => {
      const to: string[] = [];
      far.asked.push(to);
      replies({
        ...polite,
        RCPT(at, line) {
          const [, local = ''] = /<([^@]*)@/.exec(line) ?? [];
          to.push(local);
          if (local === 'bad') at.destroy();
          else at.write('250 ok\r\n');
        },
        MESSAGE(at) {
          far.transfers.push(to);
          at.write('250 ok\r\n');
        },
      })(socket);
    });
    const { queue, send, attempt, statuses } = await openSending(engine, senderTo(port));
    await send('bad', 'ann', 'bob');
    await attempt(5);
    await attempt(mailDelays.length);
    await attempt();
    assert.deepEqual(far.transfers, [['ann'], ['bob']]);
    assert.deepEqual(await statuses(), ['bad bounced', 'ann delivered', 'bob delivered']);
    await queue.stop(0);
  });

  test('one deferred in each message does not make the destination a failing one', async () => {
    let most = 0,
      now = 0;
    let gate = Promise.withResolvers<void>();
    gate.resolve();
    const { queue, send } = await openSending(engine, {
      async sendToAll({ to }) {
        most = Math.max(most, ++now);
        await gate.promise;
        now--;
        return to.map((_, at) => (at === 0 ? OUTCOMES.take : OUTCOMES.later));
      },
    });
    for (let n = 0; n < 6; n++) await send('ann', 'busy');
    most = 0;
    gate = Promise.withResolvers<void>();
    const sends = [send('ann', 'busy'), send('ann', 'busy'), send('ann', 'busy')];
    // A failing destination would have one at a time.
    await until(() => most === 3);
    gate.resolve();
    await Promise.all(sends);
    await queue.stop(0);
  });

  test('who wait when a round is broken off before the last attempt are tried in it', async () => {
    const answers: (() => SendOutcome[])[] = [
      () => [OUTCOMES.later, OUTCOMES.later],
      () => [OUTCOMES.later],
      () => {
        throw new Error('a moment without a database');
      },
    ];
    const { queue, send, attempt, statuses, reports } = await openSending(engine, {
      sendToAll: async ({ to }) => (answers.shift() ?? (() => to.map(() => OUTCOMES.later)))(),
    });
    await send('ann', 'bob');
    await attempt(mailDelays.length);
    await attempt();
    await attempt();
    assert.deepEqual(await statuses(), ['ann bounced', 'bob bounced']);
    assert.equal(reports.length, 1);
    await queue.stop(0);
  });

  test('who refused in a replay are not asked again in it', async () => {
    const { far, queue, send, attempt, account } = await open();
    far.onRecipient = (local) => (local === 'no' ? '550 5.7.1 no' : '550 5.7.1 not now');
    await send('no', 'busy');
    far.onRecipient = (local) => (local === 'no' ? '550 5.7.1 no' : '450 4.2.1 busy');
    const [{ id } = { id: 0 }] = await queue.list({
      domainId: account.domainId,
      limit: 1,
      offset: 0,
    });
    await queue.retry(account.domainId, id, 'a test');
    await queue.idle();
    for (let at = 0; at < 3; at++) await attempt();
    assert.deepEqual(far.asked.slice(2).flat(), ['busy', 'busy', 'busy']);
    await queue.stop(0);
  });

  test('that an operator dropped and then retried get the message', async () => {
    const { far, queue, send, account } = await open();
    far.onRecipient = () => '450 4.2.1 busy';
    await send('ann', 'bob');
    const [{ id } = { id: 0 }] = await queue.list({
      domainId: account.domainId,
      limit: 1,
      offset: 0,
    });
    await queue.bulk(
      { action: 'drop', filter: { ids: [id] }, isDryRun: false, heldBy: 'operator' },
      'op',
    );
    far.onRecipient = () => '250 ok';
    await queue.retry(account.domainId, id, 'a test');
    await queue.idle();
    assert.deepEqual(far.transfers, [['ann', 'bob']]);
    await queue.stop(0);
  });

  test('whose domain is gone get one report', async () => {
    const gone: SendOutcome = {
      result: 'permanent',
      error: { enhancedStatus: '5.1.2', text: 'no such domain' },
    };
    let is: SendOutcome = OUTCOMES.away;
    const { queue, send, attempt, reports } = await openSending(engine, {
      sendToAll: async ({ to }) => to.map(() => is),
    });
    await send('ann', 'bob', 'cy');
    is = gone;
    await attempt(5);
    assert.equal(reports.length, 1);
    await queue.stop(0);
  });

  test('are found by their own address where an operator or a suspension acted', async () => {
    const { far, database, queue, send, attempt, account } = await open();
    far.onRecipient = (local) => (local === 'cy' ? '250 ok' : '450 4.2.1 busy');
    const mailId = await send('ann', 'bob', 'cy');
    const { domainId } = account;
    const deliveries = await queue.list({ domainId, limit: 1, offset: 0 });
    const ids = deliveries.map(({ id }) => id);
    const order = { filter: { ids }, isDryRun: false, heldBy: 'operator' } as const;
    for (const action of ['hold', 'release', 'retry', 'drop'] as const) {
      await queue.bulk({ ...order, action }, 'a test');
      await queue.idle();
    }
    await queue.retry(domainId, ids[0] ?? 0, 'a test');
    await queue.idle();
    await database.write((tx) =>
      tx.updateTable('domains').set({ suspended_at: 1 }).where('id', '=', domainId).execute(),
    );
    await attempt();
    const traced = await database.read
      .selectFrom('trace')
      .select(['event', 'recipient'])
      .where('mail_id', '=', mailId)
      .where('event', 'in', ['held', 'released', 'retried', 'dropped'])
      .orderBy('id')
      .execute();
    const both = ['ann@far.test', 'bob@far.test'];
    assert.deepEqual(
      traced.map(({ event, recipient }) => [event, recipient]),
      ['held', 'released', 'retried', 'dropped', 'retried', 'held'].flatMap((event) =>
        both.map((recipient) => [event, recipient]),
      ),
    );
    await queue.stop(0);
  });

  test('that an operator drops each have a line in the trace that says so', async () => {
    const { far, database, queue, send, deliveries, account } = await open();
    far.onRecipient = (local) => (local === 'cy' ? '250 ok' : '450 4.2.1 busy');
    const mailId = await send('ann', 'bob', 'cy');
    const ids = (await queue.list({ domainId: account.domainId, limit: 1, offset: 0 })).map(
      ({ id }) => id,
    );
    const order = { action: 'drop', filter: { ids }, isDryRun: false, heldBy: 'operator' } as const;
    await queue.bulk(order, 'a test');
    const traced = await database.read
      .selectFrom('trace')
      .select('recipient')
      .where('mail_id', '=', mailId)
      .where('event', '=', 'bounced')
      .orderBy('id')
      .execute();
    assert.deepEqual(
      traced.map(({ recipient }) => recipient),
      ['ann@far.test', 'bob@far.test'],
    );
    assert.equal((await deliveries())[0]?.[0], 'failed');
    await queue.stop(0);
  });

  test('property: each gets the message once or is reported once, whatever the host says', async () => {
    let script: readonly What[] = [];
    let at = 0;
    const delivered: string[] = [];
    const { database, queue, send, attempt, statuses, deliveries, reports } = await openSending(
      engine,
      {
        async sendToAll({ to }) {
          const said = to.map((_, index) => {
            const next = script[at++ % script.length] ?? 'take';
            return next === 'put off' && index === 0 ? 'later' : next;
          });
          delivered.push(...to.filter((_, index) => said[index] === 'take'));
          return said.map((what) => OUTCOMES[what]);
        },
      },
    );
    const what = fc.constantFrom<What>('take', 'later', 'no', 'message', 'away', 'put off');
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 6 }),
        fc.array(what, { minLength: 1, maxLength: 40 }),
        async (recipients, says) => {
          [script, at] = [says, 0];
          delivered.length = 0;
          reports.length = 0;
          await database.write((tx) => tx.deleteFrom('deliveries').execute());
          await send(...Array.from({ length: recipients }, (_, index) => `r${index}`));
          let attempts = 0;
          while ((await deliveries())[0]?.[0] === 'queued') {
            // The second, the fifth, which is for each alone, and the last ones.
            const number = [undefined, 5, mailDelays.length, undefined][attempts++];
            assert.ok(attempts <= 4, 'it ends');
            await attempt(number);
          }
          const got = delivered.map((address) => `${address.split('@')[0]} delivered`);
          const told = reports.flatMap((report) =>
            [...report.matchAll(/^Final-Recipient: rfc822; (.*)@/gm)].map(([, to]) => to),
          );
          const lost = told.map((name) => `${name} bounced`);
          assert.deepEqual((await statuses()).toSorted(), [...got, ...lost].toSorted());
          const [[status] = []] = await deliveries();
          assert.equal(status, lost.length > 0 ? 'failed' : 'delivered');
        },
      ),
      { numRuns: 25 },
    );
    await queue.stop(0);
  });
});

type What = 'take' | 'later' | 'message' | 'away' | 'put off' | 'no';

const deferral = { status: 450, enhancedStatus: '4.2.0', text: 'later' };
const OUTCOMES: Record<What, SendOutcome> = {
  take: { result: 'delivered', host: 'mx.far.test', detail: '250 ok' },
  later: { result: 'temporary', error: { ...deferral, answers: 'recipient' } },
  message: { result: 'temporary', error: { ...deferral, answers: 'message' } },
  away: { result: 'temporary', error: { enhancedStatus: '4.4.1', text: 'no connection' } },
  'put off': { result: 'temporary', error: deferral, isPutOff: true },
  no: {
    result: 'permanent',
    error: { status: 550, enhancedStatus: '5.7.1', text: 'no', answers: 'recipient' },
  },
};
