/** Inbound mail where the mailboxes are a mail server's: what is accepted, queued, refused and bounced. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import { startLmtpServer } from '../../../test/support/lmtp-server.ts';
import {
  type MailServerBench,
  openMailServerBench,
} from '../../../test/support/mail-server-bench.ts';
import type { ImapAppend } from '../../mailboxes/mail-server/mail-server.ts';
import type { MailUser } from '../../mailboxes/mailstore/mailstore.ts';
import type { Queries } from '../../platform/database/database.ts';
import { answerOf, Refusal } from '../../platform/errors/errors.ts';

const ANN = 'ann@acme.test';
const BEN = 'ben@acme.test';
const CAL = 'cal@acme.test';
const FULL = '552 5.2.2 quota exceeded';
const BUSY = '451 4.3.0 busy';

onEachEngine('inbound mail for a mail server', (engine) => {
  const opened: MailServerBench[] = [];
  let bench: MailServerBench;

  async function openBench(
    ...options: Parameters<typeof openMailServerBench> extends [unknown, ...infer Rest]
      ? Rest
      : never
  ) {
    const made = await openMailServerBench(engine, ...options);
    opened.push(made);
    return made;
  }

  beforeEach(async () => {
    bench = await openBench();
  });
  after(async () => {
    for (const one of opened) {
      one.mailServer.close();
      await one.queue.stop(0);
    }
  });

  /** @returns the SMTP reply that the sender gets */
  async function refusalOf(receiving: Promise<unknown>): Promise<string> {
    try {
      await receiving;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const { code, enhanced } = answerOf(error.code).smtp;
      return `${code} ${enhanced} ${error.message}`;
    }
    return 'taken';
  }

  async function filesOf({ store }: MailServerBench): Promise<string[]> {
    const names = await readdir(join(store.directory, 'bodies'), { recursive: true }).catch(
      () => [],
    );
    return names.filter((name) => name.includes('/'));
  }

  test('accepted for all: no copy is kept here, and the apps get an event', async () => {
    const source = `From: Bob <bob@sender.test>\r\nSubject: large\r\n\r\n${'x'.repeat(70)}\r\n${'.y\r\n'.repeat(50_000)}`;
    const outcomes = await bench.receive([ANN, 'ann+tag@acme.test', BEN], { source });
    assert.deepEqual(
      outcomes.map(({ result }) => result),
      ['delivered', 'delivered', 'delivered'],
    );
    assert.deepEqual(
      bench.server.kept.map(({ to, from }) => [to, from]),
      [
        [ANN, 'bob@sender.test'],
        [BEN, 'bob@sender.test'],
      ],
    );
    const kept = bench.server.kept[0]?.source ?? '';
    assert.ok(kept.endsWith(source));
    // The server makes the final delivery and adds the Return-Path.
    assert.doesNotMatch(kept, /^Return-Path:/m);
    assert.match(kept, /^Authentication-Results: mx\.test/);
    assert.match(kept, /^Received: from c [\s\S]*? with ESMTP id [0-9a-f-]{36};/m);
    assert.deepEqual(bench.announced, [`${ANN} INBOX`, `${BEN} INBOX`]);
    assert.deepEqual([await bench.rows(), await bench.countBodies()], [[], 0]);
    assert.deepEqual(await filesOf(bench), []);
  });

  test('accepted for nobody: the sender gets the answer of the server, and no copy is kept', async () => {
    const { server } = bench;
    const large = `From: Bob <bob@sender.test>\r\nSubject: large\r\n\r\n${'x\r\n'.repeat(50_000)}`;
    server.atEnd.set(ANN, FULL);
    assert.equal(
      await refusalOf(bench.receive([ANN], { source: large })),
      `552 5.2.2 the mail server of ${ANN} says 552 5.2.2 quota exceeded`,
    );
    server.atRcpt.set(BEN, '550 5.7.1 not you');
    assert.match(
      await refusalOf(bench.receive([BEN])),
      /^550 5\.2\.0 .* says 550 5\.7\.1 not you$/,
    );
    server.atRcpt.set(CAL, BUSY);
    assert.match(await refusalOf(bench.receive([CAL])), /^451 4\.3\.0 .* says 451 4\.3\.0 busy$/);
    // As long as one of them may get it later, the sender has to try again.
    assert.match(await refusalOf(bench.receive([ANN, BEN, CAL])), /^451 4\.3\.0 /);
    assert.match(await refusalOf(bench.receive([ANN, BEN])), /^552 5\.2\.2 /);
    await server.close();
    assert.equal(
      await refusalOf(bench.receive([ANN])),
      `451 4.3.0 the mail server of ${ANN} is not available`,
    );
    assert.deepEqual([await bench.rows(), await bench.countBodies()], [[], 0]);
    assert.deepEqual([await filesOf(bench), bench.announced], [[], []]);
  });

  test('deferred for one: the others have it, and this one gets it from the queue', async () => {
    const { server } = bench;
    bench.work();
    server.atEnd.set(BEN, BUSY);
    const outcomes = await bench.receive([ANN, BEN]);
    assert.deepEqual(
      outcomes.map(({ result }) => result),
      ['delivered', 'delivered'],
    );
    const [row] = await bench.rows();
    assert.deepEqual([row?.kind, row?.destination, row?.status], ['mailbox', BEN, 'queued']);
    assert.deepEqual([row?.attempts, row?.error], [1, { status: 451, text: 'busy' }]);
    await bench.pass(59_000);
    assert.equal(server.counts.messages, 1);
    await bench.pass(1_000);
    const [tried] = await bench.rows();
    assert.deepEqual([tried?.status, tried?.attempts], ['queued', 2]);
    server.atEnd.clear();
    await bench.pass(300_000);
    assert.deepEqual((await bench.rows())[0]?.status, 'delivered');
    assert.deepEqual([bench.copies(ANN), bench.copies(BEN)], [1, 1]);
    assert.deepEqual(server.kept[0]?.source, server.kept[1]?.source);
    assert.deepEqual(bench.announced, [`${ANN} INBOX`, `${BEN} INBOX`]);
  });

  test('refused for one for good: the others have it, and the sender gets a bounce', async () => {
    bench.work();
    bench.server.atEnd.set(BEN, FULL);
    await bench.receive([ANN, 'ben+tag@acme.test']);
    await bench.pass(0);
    const [failed, bounce] = await bench.rows();
    assert.deepEqual([failed?.kind, failed?.status], ['mailbox', 'failed']);
    assert.deepEqual(failed?.error, { status: 552, text: '5.2.2 quota exceeded' });
    assert.deepEqual([bounce?.kind, bounce?.destination], ['bounce', 'sender.test']);
    const dsn = await readBody(bench, bounce?.body_id);
    assert.match(dsn, /^Final-Recipient: rfc822; ben\+tag@acme\.test\r$/m);
    assert.match(dsn, /^Status: 5\.2\.2\r$/m);
    assert.match(dsn, /^Diagnostic-Code: smtp; 552 5\.2\.2 quota exceeded\r$/m);
    // There was no second attempt.
    assert.equal(bench.server.counts.messages, 1);
  });

  test('refused for one for good, but nobody may get a bounce', async () => {
    bench.work();
    bench.server.atEnd.set(BEN, FULL);
    await bench.receive([ANN, BEN], { from: '' });
    await bench.pass(0);
    const rows = await bench.rows();
    assert.deepEqual(
      rows.map(({ kind, status }) => [kind, status]),
      [['mailbox', 'failed']],
    );
  });

  test('the last attempt fails: the sender gets a bounce', async () => {
    bench.work();
    bench.server.atEnd.set(BEN, BUSY);
    await bench.receive([ANN, BEN]);
    await bench.store.database.write((tx) =>
      tx.updateTable('deliveries').set({ attempts: 35 }).execute(),
    );
    await bench.pass(60_000);
    const [failed, bounce] = await bench.rows();
    assert.deepEqual([failed?.status, failed?.attempts, bounce?.kind], ['failed', 36, 'bounce']);
    assert.match(await readBody(bench, bounce?.body_id), /^Status: 5\.3\.0\r$/m);
  });

  test('by LMTP every recipient has an answer of its own, and nothing is queued', async () => {
    const { server } = bench;
    server.atRcpt.set(BEN, BUSY);
    server.atEnd.set(CAL, FULL);
    const to = [ANN, BEN, CAL, 'cal+x@acme.test', 'nobody@acme.test'];
    const outcomes = await bench.receive(to, { protocol: 'LMTP' });
    assert.deepEqual(
      outcomes.map((one) => [one.result, one.result === 'delivered' ? '' : one.refusal.code]),
      [
        ['delivered', ''],
        ['temporary', 'unavailable'],
        ['permanent', 'mailbox_full'],
        ['permanent', 'mailbox_full'],
        ['permanent', 'account_not_found'],
      ],
    );
    server.atRcpt.set(ANN, BUSY);
    const [only] = await bench.receive([ANN], { protocol: 'LMTP' });
    assert.equal(only?.result, 'temporary');
    assert.deepEqual([await bench.rows(), await bench.countBodies()], [[], 0]);
  });

  test('where there is also a webhook, it does not wait for a mail server that is down', async () => {
    await bench.activate('hooked.test');
    await bench.domains.setRoute('u', 'hooked.test', {
      forwardMode: 'webhook',
      webhookUrl: 'https://receiver.test/',
    });
    await bench.server.close();
    await bench.receive([ANN, 'x@hooked.test']);
    assert.deepEqual(
      (await bench.rows()).map(({ kind, destination }) => [kind, destination]),
      [
        ['mailbox', ANN],
        ['webhook', 'https://receiver.test'],
      ],
    );
    assert.equal(await bench.countBodies(), 1);
  });

  test('webhook_then_store: the mailbox gets it right after the webhook', async () => {
    await bench.activate('both.test');
    await bench.account('dan', 'both.test');
    await bench.domains.setRoute('u', 'both.test', {
      forwardMode: 'webhook_then_store',
      webhookUrl: 'https://receiver.test/',
    });
    bench.webhook = { result: 'permanent', error: { status: 410, text: 'gone' } };
    bench.work();
    await bench.receive(['dan@both.test']);
    await bench.pass(0);
    assert.deepEqual(
      (await bench.rows()).map(({ kind, status }) => [kind, status]),
      [
        ['webhook', 'failed'],
        ['mailbox', 'delivered'],
      ],
    );
    assert.deepEqual(
      [bench.copies('dan@both.test'), bench.server.kept[0]?.from],
      [1, 'bob@sender.test'],
    );
  });

  test('deliveries for a mail server go into our own mailboxes after the operator gives the server up', async () => {
    bench.server.atEnd.set(BEN, BUSY);
    await bench.receive([ANN, BEN]);
    bench.work({ hasMailServer: false });
    await bench.pass(60_000);
    assert.equal((await bench.rows())[0]?.status, 'delivered');
    const ben = await bench.accounts.findForMail(BEN);
    assert.ok(ben);
    const user = { accountId: ben.id, address: ben.address };
    const { changes } = await bench.store.mailstore.sync(user, { mailbox: 'INBOX' });
    assert.equal(changes.added.length, 1);
  });

  test('an account that is deleted meanwhile is skipped; mail for a suspended one waits', async () => {
    bench.work();
    for (const address of [BEN, CAL]) bench.server.atEnd.set(address, BUSY);
    await bench.receive([ANN, BEN, CAL]);
    const [, ben, cal] = await bench.accounts.list({ userId: 'u', limit: 10, offset: 0 });
    await bench.accounts.remove('u', ben?.id ?? 0);
    await bench.accounts.update('u', cal?.id ?? 0, { status: 'suspended' });
    bench.server.atEnd.clear();
    bench.server.atRcpt.set(CAL, '550 5.1.1 no such user');
    await bench.pass(60_000);
    const rows = await bench.rows();
    assert.deepEqual(
      rows.map(({ kind, status, error }) => [kind, status, error?.text]),
      [
        ['mailbox', 'failed', 'the account was deleted'],
        ['mailbox', 'queued', '5.1.1 no such user'],
      ],
    );
    await bench.accounts.update('u', cal?.id ?? 0, { status: 'active' });
    bench.server.atRcpt.clear();
    await bench.pass(300_000);
    assert.deepEqual([bench.copies(BEN), bench.copies(CAL)], [0, 1]);
  });

  test('an address that became another claim’s gets no mail of its last holder', async () => {
    bench.work();
    bench.server.atEnd.set(BEN, BUSY);
    await bench.receive([ANN, BEN]);
    bench.server.atEnd.clear();
    const claim = (status: 'pending' | 'active') => (tx: Queries) =>
      tx.updateTable('domains').set({ status }).where('name', '=', 'acme.test').execute();
    await bench.store.database.write(claim('pending'));
    await bench.pass(60_000);
    const [row] = await bench.rows();
    assert.deepEqual([row?.status, bench.copies(BEN)], ['queued', 0]);
    await bench.store.database.write(claim('active'));
    await bench.pass(3_600_000);
    assert.equal(bench.copies(BEN), 1);
  });

  /** The reply for Ben never comes, though he has the message: the server closes the connection first. */
  async function openForgetful(lookThrough: (has: boolean) => Promise<boolean>) {
    const forgetful = await openBench((server) => ({
      hasReceived: async ({ address }, _mailbox, id) =>
        lookThrough(
          server.kept.some(({ to, source }) => to === address && source.includes(` id ${id}`)),
        ),
    }));
    forgetful.server.loseReplyOf(BEN);
    forgetful.work();
    return forgetful;
  }

  test('the connection breaks before the reply: the mailbox is searched, and has the message once', async () => {
    const forgetful = await openForgetful(async (has) => has);
    const outcomes = await forgetful.receive([ANN, BEN]);
    assert.equal(outcomes.length, 2);
    assert.deepEqual(
      (await forgetful.rows()).map(({ destination }) => destination),
      [BEN],
    );
    await forgetful.pass(60_000);
    assert.equal((await forgetful.rows())[0]?.status, 'delivered');
    assert.deepEqual([forgetful.copies(ANN), forgetful.copies(BEN)], [1, 1]);
  });

  test('a mailbox that cannot be searched defers the message, but not for ever', async () => {
    const forgetful = await openForgetful(async () => {
      throw new Error('IMAP is down');
    });
    await forgetful.receive([ANN, BEN]);
    await forgetful.pass(60_000);
    const [row] = await forgetful.rows();
    assert.deepEqual([row?.status, forgetful.copies(BEN)], ['queued', 1]);
    await forgetful.store.database.write((tx) =>
      tx.updateTable('deliveries').set({ attempts: 4 }).execute(),
    );
    await forgetful.pass(300_000);
    assert.deepEqual(
      [(await forgetful.rows())[0]?.status, forgetful.copies(BEN)],
      ['delivered', 2],
    );
  });

  test('mail for Junk goes by IMAP; LMTP has only INBOX', async () => {
    const appended: string[] = [];
    const appendByImap = async ({ address }: MailUser, mailbox: string, message: ImapAppend) => {
      const source = Buffer.concat(await Array.fromAsync(message.open()));
      assert.equal(source.length, message.size);
      appended.push(`${address} ${mailbox} ${source}`);
    };
    const imap = await openBench(() => ({ appendByImap }));
    const ann = await imap.accounts.findForMail(ANN);
    assert.ok(ann);
    const user = { accountId: ann.id, address: ann.address };
    const open = async function* () {
      yield Buffer.from('Subject: s\nbare: lf\r\n\r\nHello.');
    };
    const mail = { open, size: 30, from: '' };
    const results = await imap.mailServer.deliver(mail, [
      { user, mailbox: 'Junk' },
      { user, mailbox: 'INBOX' },
    ]);
    assert.deepEqual(results, [{ result: 'delivered' }, { result: 'delivered' }]);
    assert.deepEqual(appended, [`${ANN} Junk Subject: s\r\nbare: lf\r\n\r\nHello.\r\n`]);
    assert.equal(imap.server.kept.length, 1);
  });

  test('what the spam filter marks goes into Junk, as mail that a domain asks to quarantine', async () => {
    const appended: string[] = [];
    const imap = await openBench(() => ({
      appendByImap: async ({ address }, mailbox) => {
        appended.push(`${address} ${mailbox}`);
      },
    }));
    imap.spam = { action: 'junk', score: 7, required: 15 };
    const [outcome] = await imap.receive([ANN]);
    assert.equal(outcome?.result, 'delivered');
    assert.deepEqual([appended, imap.server.kept], [[`${ANN} Junk`], []]);
  });

  test('without LMTP, all mail goes by IMAP', async () => {
    const appended: string[] = [];
    const answers: (Error | undefined)[] = [
      undefined,
      new Refusal('mailbox_full', 'full'),
      new Error('down'),
    ];
    const imap = await openBench(() => ({
      lmtp: undefined,
      appendByImap: async ({ address }, mailbox) => {
        const error = answers.shift();
        if (error) throw error;
        appended.push(`${address} ${mailbox}`);
      },
    }));
    await imap.receive([ANN]);
    assert.deepEqual(appended, [`${ANN} INBOX`]);
    assert.match(await refusalOf(imap.receive([ANN])), /^552 5\.2\.2 /);
    assert.match(await refusalOf(imap.receive([ANN])), /^451 4\.3\.0 /);
  });

  test('a failure to notify the apps does not hold up the mail', async () => {
    for (const changeOf of [
      () => Promise.reject(new Error('no')),
      () => new Promise<never>(() => {}),
    ]) {
      const silent = await openBench(() => ({ changeOf }));
      const [outcome] = await silent.receive([ANN]);
      assert.equal(outcome?.result, 'delivered');
    }
  });

  test('a sender outside ASCII is passed on where the server accepts SMTPUTF8, else only in the header', async () => {
    const from = 'bøb@sender.test';
    await bench.receive([ANN], { from, protocol: 'UTF8SMTP' });
    const [known] = bench.server.kept;
    assert.deepEqual([known?.from, known?.source.includes('Return-Path')], [from, false]);
    const plain = await openBench();
    await plain.server.close();
    const old = await startLmtpServer({ port: plain.server.port, hideSMTPUTF8: true });
    await plain.receive([ANN], { from, protocol: 'UTF8SMTP' });
    const [kept] = old.kept;
    assert.equal(kept?.from, '');
    assert.ok(
      Buffer.from(kept?.source ?? '', 'latin1')
        .toString()
        .startsWith(`Return-Path: <${from}>`),
    );
  });
});

async function readBody({ store }: MailServerBench, id = 0): Promise<string> {
  const body = await store.bodies.find(id);
  assert.ok(body);
  return Buffer.concat(await Array.fromAsync(store.bodies.read(body))).toString();
}
