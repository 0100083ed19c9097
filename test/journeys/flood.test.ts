/** Strangers who take all that they can get, and others who only want to bring a mail. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';
import { DialogueClient } from '../support/smtp/dialogue.ts';

/** Each address of the loopback network is a client of its own here. */
const ADDRESSES = Array.from({ length: 20 }, (_, index) => `127.0.0.${index + 2}`);
const TRIES = 100;

onEachEngine('a flood', (engine) => {
  let service: TestService;
  let ann: TestAccount;

  before(async () => {
    service = await startTestService(engine, { SMTP_TRUSTED_NETWORKS: 'none' });
    ann = await service.makeAccount('ann');
  });

  void test('20 addresses with 100 silent connections each shut nobody out', async () => {
    const held: DialogueClient[] = [];
    for (const address of ADDRESSES) {
      const tried = Array.from({ length: TRIES }, async () => {
        const client = await DialogueClient.connect(service.smtpPort, address);
        const isTaken = (await client.reply()).startsWith('220 ');
        if (isTaken) held.push(client);
        else client.destroy();
      });
      await Promise.all(tried);
    }
    // As many as SMTP_MAX_PER_IP allows.
    assert.equal(held.length, ADDRESSES.length * 20);

    const honest = await DialogueClient.connect(service.smtpPort, '127.0.0.200');
    assert.match(await honest.reply(), /^220 /);
    await honest.ask('EHLO honest.test');
    await honest.ask('MAIL FROM:<bob@honest.test>');
    await honest.ask(`RCPT TO:<${ann.address}>`);
    assert.match(await honest.ask('DATA'), /^354 /);
    assert.match(await honest.ask('Subject: hello\r\n\r\nHello.\r\n.'), /^250 /);
    honest.destroy();
    for (const client of held) assert.match(await client.ask('NOOP'), /^250 /);
    for (const client of held) client.destroy();
  });
});
