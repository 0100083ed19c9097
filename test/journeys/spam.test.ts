/** Mail that Rspamd judges, from the sender's answer to the mailbox. A real Rspamd is in test/servers. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { atEnd } from '../support/at-end.ts';
import { startTestService } from '../support/service.ts';

test('spam is refused, deferred or put into Junk, and a dead filter stops no mail', async () => {
  let answer: string | undefined;
  const server = createServer((request, response) => {
    request.resume().on('end', () => (answer ? response.end(answer) : response.destroy()));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  atEnd(async () => {
    server.close();
    server.closeAllConnections();
  });
  const service = await startTestService('sqlite', {
    RSPAMD_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    SMTP_TRUSTED_NETWORKS: 'none',
  });
  const ann = await service.makeAccount();
  const said = (action: string) => {
    answer = JSON.stringify({ action, score: 7.1, required_score: 15 });
  };
  const send = () =>
    service.send({
      from: 'bob@sender.test',
      to: ann.address,
      text: 'Hello',
      headers: { 'X-Spam-Status': 'No, trust me', 'X-Spam-Flag': 'NO' },
    });
  const sources = async (mailbox: string) => {
    const { added } = (await service.mail(ann.token, 'POST', '/mail/sync', { mailbox })).body
      .changes;
    const read = ({ uid }: { uid: number }) =>
      service.mail(ann.token, 'GET', `/mail/message?mailbox=${mailbox}&uid=${uid}`);
    const answers = await Promise.all(added.map(read));
    return answers.map(({ body }): string => body.rfc822);
  };

  said('reject');
  await assert.rejects(send(), { responseCode: 550, response: /^550 5\.7\.1 / });
  said('greylist');
  await assert.rejects(send(), { responseCode: 451, response: /^451 4\.7\.1 / });
  said('add header');
  await send();
  said('no action');
  await send();
  answer = undefined;
  await send();
  const [junk, inbox] = [await sources('Junk'), await sources('INBOX')];
  const status = (source = '') => source.match(/^X-Spam.*$/gim);
  assert.deepEqual(junk.map(status), [['X-Spam-Status: Yes, score=7.10 required=15.00']]);
  assert.deepEqual(inbox.map(status), [['X-Spam-Status: No, score=7.10 required=15.00'], null]);
});
