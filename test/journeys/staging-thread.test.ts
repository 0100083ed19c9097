/** Mail that comes fast enough to be staged by a thread of its own (src/delivery/staging/). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { onEachEngine } from '../support/databases.ts';
import { type DnsServer, startDnsServer } from '../support/dns-server.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';

/** Connections, all with a message under way. */
const TOGETHER = 12;

onEachEngine('mail under load', (engine) => {
  let dns: DnsServer;
  let service: TestService;
  let ann: TestAccount;

  before(async () => {
    dns = await startDnsServer();
    service = await startTestService(engine, { DNS_SERVERS: dns.address });
    ann = await service.makeAccount('ann');
    // The sender checks wait for their answers: so long, messages are under way.
    dns.delay = 200;
    const started = once(process, 'worker');
    await Promise.all(Array.from({ length: TOGETHER }, (_, index) => send(`first ${index}`)));
    const [thread] = (await started) as [Worker];
    // Says once that it is ready; if it was quicker than this test, it has answered questions since.
    await Promise.race([once(thread, 'message'), warmUp(thread)]);
  });

  async function warmUp(thread: Worker): Promise<void> {
    const answered = once(thread, 'message');
    await Promise.all(Array.from({ length: TOGETHER }, (_, index) => send(`warm ${index}`)));
    await answered;
  }

  function send(subject: string): Promise<void> {
    const name = subject.replaceAll(' ', '-');
    return service.send({
      envelope: { from: `bob@${name}.test`, to: ann.address },
      raw: `From: bob@${name}.test\r\nSubject: ${subject}\r\n\r\nThe text of ${subject}.\r\n`,
    });
  }

  async function readSources(): Promise<string[]> {
    const sync = await service.mail(ann.token, 'POST', '/mail/sync', { mailbox: 'INBOX' });
    const sources = sync.body.changes.added.map(async ({ uid }: { uid: number }) => {
      const path = `/mail/message?mailbox=INBOX&uid=${uid}`;
      return (await service.mail(ann.token, 'GET', path)).body.rfc822;
    });
    return Promise.all(sources);
  }

  void test('each message is stored once, with its own text behind its own checks', async () => {
    const subjects = Array.from({ length: 4 * TOGETHER }, (_, index) => `load ${index}`);
    await Promise.all(subjects.map(send));
    const sources = (await readSources()).filter((source) => source.includes('Subject: load'));
    assert.equal(sources.length, subjects.length);
    for (const subject of subjects) {
      const name = subject.replaceAll(' ', '-');
      const [source, ...others] = sources.filter((one) => one.endsWith(`text of ${subject}.\r\n`));
      assert.equal(others.length, 0);
      assert.match(source ?? '', new RegExp(`^Return-Path: <bob@${name}\\.test>\r\n`));
      assert.match(source ?? '', new RegExp(`smtp\\.mailfrom=${name}\\.test[;\r]`));
    }
  });

  void test('what is under way at the stop is finished first', async () => {
    const asked = dns.asked.length;
    const sent = Array.from({ length: TOGETHER }, (_, index) => send(`last ${index}`));
    // Several questions for each sender: then all of them are being checked.
    while (new Set(dns.asked.slice(asked).map(({ name }) => senderOf(name))).size < TOGETHER) {
      await delay(5);
    }
    await Promise.all([service.stop(), ...sent]);
  });
});

/** `last-7` of `_dmarc.last-7.test`. */
function senderOf(name: string): string {
  return /last-\d+/.exec(name)?.[0] ?? 'another';
}
