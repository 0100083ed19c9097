import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServerDelivery } from './server-delivery.ts';

test('a source that stalls before anything is sent holds an APPEND no longer than its time', async () => {
  const never = () => assert.fail('nothing is sent');
  const imap = { appendByImap: never, hasReceived: never, changeOf: never };
  const delivery = new ServerDelivery({ imap, log: { warn: never } });
  const begun = Promise.withResolvers<void>();
  async function* open(): AsyncGenerator<Buffer> {
    yield Buffer.from('Subject: x\r\n');
    begun.resolve();
    await new Promise(() => {});
  }
  const ending = new AbortController();
  const user = { accountId: 1, address: 'ann@acme.test' };
  const mail = { from: '', size: 12, open };
  const delivered = delivery.deliver(mail, [{ user, mailbox: 'INBOX' }], ending.signal);
  await begun.promise;
  ending.abort();
  const [result] = await delivered;
  assert.equal(result?.result, 'temporary');
});
