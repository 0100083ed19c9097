/** Delivery to real mail servers: by LMTP, by IMAP where that is not the way, and from the queue. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, suite, test } from 'node:test';
import { answerOf, Refusal } from '../../src/platform/errors/errors.ts';
import { type MailServerBench, openMailServerBench } from '../support/mail-server-bench.ts';
import { startCyrus } from './cyrus.ts';
import { startDovecot } from './dovecot.ts';
import { imapSide, inMailbox, readSources } from './look-through.ts';
import type { MailServer } from './mail-server.ts';

const ANN = 'ann@acme.test';
const BEN = 'ben@acme.test';
const CAL = 'cal@acme.test';
const FROM = 'From: Bob <bob@sender.test>\r\n';
/** Larger than any mailbox on Dovecot here. */
const LARGE = `${FROM}Subject: large\r\n\r\n${`${'x'.repeat(76)}\r\n`.repeat(3_000)}`;

const QUOTA = `
mail_plugins = $mail_plugins quota
protocol lmtp {
  mail_plugins = $mail_plugins quota
}
plugin {
  quota = count:User quota
  quota_vsizes = yes
  quota_rule = *:storage=200K
  quota_grace = 0
}
`;

const starts = {
  dovecot: () => startDovecot({ settings: QUOTA }),
  cyrus: startCyrus,
} satisfies Record<string, () => Promise<MailServer>>;

for (const [name, start] of Object.entries(starts)) {
  void suite(`delivery to ${name}`, () => {
    let server: MailServer;
    let bench: MailServerBench;
    const benches: MailServerBench[] = [];
    before(async () => {
      server = await start();
      for (const address of [ANN, BEN, CAL]) await server.addAccount(address);
    });
    beforeEach(async () => {
      const port = server.lmtpPort ?? 0;
      bench = await openMailServerBench('sqlite', () => ({
        ...imapSide(server),
        lmtp: { server: { host: server.host, port }, hostname: 'mx.test' },
      }));
      benches.push(bench);
    });
    after(async () => {
      for (const one of benches) {
        one.mailServer.close();
        await one.queue.stop(0);
      }
      await server?.stop();
    });

    const withSubject = async (address: string, subject: string, mailbox?: string) =>
      (await readSources(server, address, mailbox)).filter((source) =>
        source.includes(`Subject: ${subject}\r\n`),
      );

    test('a message arrives unchanged', async () => {
      // Cyrus adds these two where they are missing.
      const ids = 'Date: Thu, 1 Jan 2026 00:00:00 +0000\r\nMessage-ID: <lines@sender.test>\r\n';
      const body = `${FROM}${ids}Subject: lines\r\n\r\n.\r\n..dots\r\n${'y'.repeat(900)}\r\nn\xe4ive\r\n\r\n`;
      await bench.receive([ANN, BEN], { source: Buffer.from(body, 'latin1').toString('latin1') });
      for (const address of [ANN, BEN]) {
        const [source = '', ...others] = await withSubject(address, 'lines');
        assert.deepEqual(others, []);
        // The test hands its text over as UTF-8.
        assert.ok(source.endsWith(Buffer.from(body).toString('latin1')), source);
        const paths = source.match(/^Return-Path:.*$/gim);
        assert.deepEqual(paths, ['Return-Path: <bob@sender.test>']);
        assert.match(source, /^Authentication-Results: mx\.test/m);
      }
      assert.deepEqual(await bench.rows(), []);
    });

    // Cyrus makes a mailbox for whoever gets mail.
    if (name === 'dovecot')
      test('an account that the server does not have is refused for good', async () => {
        await bench.account('dan');
        await assert.rejects(
          bench.receive(['dan@acme.test']),
          (error) => error instanceof Refusal && answerOf(error.code).smtp.code === 550,
        );
        bench.work();
        await bench.receive([ANN, 'dan@acme.test']);
        await bench.pass(0);
        assert.deepEqual(
          (await bench.rows()).map(({ kind, status }) => [kind, status]),
          [
            ['mailbox', 'failed'],
            ['bounce', 'queued'],
          ],
        );
      });

    test('an existing message is found by our Received field, another is not', async () => {
      await bench.receive([ANN], { source: `${FROM}Subject: found\r\n\r\nHello.\r\n` });
      const [source = ''] = await withSubject(ANN, 'found');
      const id = / by mx\.test with ESMTP id ([0-9a-f-]{36})/.exec(source)?.[1] ?? '';
      const ann = { accountId: 1, address: ANN };
      const { hasReceived } = imapSide(server);
      assert.equal(await hasReceived(ann, 'INBOX', id), true);
      assert.equal(await hasReceived(ann, 'Junk', id), false);
      assert.equal(await hasReceived(ann, 'INBOX', crypto.randomUUID()), false);
    });

    test('mail for Junk is added there', async () => {
      const source = Buffer.from('Subject: junk\nbare: lf\r\n\r\nHello.\r\n');
      const open = async function* () {
        yield source;
      };
      const results = await bench.mailServer.deliver({ open, size: source.length, from: '' }, [
        { user: { accountId: 1, address: BEN }, mailbox: 'Junk' },
      ]);
      assert.deepEqual(results, [{ result: 'delivered' }]);
      assert.equal((await withSubject(BEN, 'junk', 'Junk')).length, 1);
      assert.equal((await withSubject(BEN, 'junk')).length, 0);
    });

    test('a server that is down: the sender and the queue keep their mail', async () => {
      await bench.activate('hooked.test');
      await bench.domains.setRoute('u', 'hooked.test', {
        forwardMode: 'webhook',
        webhookUrl: 'https://receiver.test/',
      });
      await server.pause();
      const source = `${FROM}Subject: late\r\n\r\nHello.\r\n`;
      await assert.rejects(
        bench.receive([ANN], { source }),
        (error) => error instanceof Refusal && error.code === 'unavailable',
      );
      await bench.receive([BEN, 'x@hooked.test'], { source });
      bench.work();
      await bench.pass(60_000);
      await server.resume();
      for (let turn = 0; (await withSubject(BEN, 'late')).length === 0; turn++) {
        assert.ok(turn < 100, 'the queue brings it');
        await bench.pass(60_000);
      }
      assert.equal((await withSubject(BEN, 'late')).length, 1);
      assert.equal((await withSubject(ANN, 'late')).length, 0);
    });

    if (name === 'dovecot')
      test('over quota: the sender gets that reply', async () => {
        await assert.rejects(
          bench.receive([CAL], { source: LARGE }),
          (error) => error instanceof Refusal && error.code === 'mailbox_full',
        );
        assert.equal((await readSources(server, CAL)).length, 0);
        assert.deepEqual(await bench.rows(), []);
      });

    test('a hundred messages over the available connections', async () => {
      await inMailbox(server, BEN, 'INBOX', (client) => client.messageDelete('1:*'));
      const subjects = Array.from({ length: 100 }, (_, at) => `many-${at}`);
      await Promise.all(
        subjects.map((subject) =>
          bench.receive([BEN], { source: `${FROM}Subject: ${subject}\r\n\r\nHello.\r\n` }),
        ),
      );
      const sources = await readSources(server, BEN);
      assert.equal(new Set(sources.map((one) => /many-\d+/.exec(one)?.[0])).size, 100);
      assert.equal(sources.length, 100);
    });
  });
}
