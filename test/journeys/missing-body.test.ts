/** What apps are answered where the file of a message's source is gone. */
import assert from 'node:assert/strict';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { startTestService } from '../support/service.ts';

onEachEngine('a message whose body file is missing', (engine) => {
  // A mail server keeps its own bodies.
  const skip = process.env.TEST_MAIL_SERVER !== undefined;
  test('is 503 in every form, and nothing else breaks', { skip }, async () => {
    const service = await startTestService(engine);
    const ann = await service.makeAccount();
    await service.send({
      from: 'bob@example.test',
      to: ann.address,
      subject: 'large',
      text: 'text',
      // Larger than what is answered in one piece.
      attachments: [{ filename: 'a.bin', content: Buffer.alloc(600_000, 'x') }],
    });
    const bodies = join(service.config.dataDir, 'bodies');
    const files = (await readdir(bodies, { recursive: true })).filter((name) =>
      /^[0-9a-f]{2}\//.test(name),
    );
    assert.equal(files.length, 1);
    for (const file of files) await rm(join(bodies, file));
    const fetchAs = async (path: string, accept: string) => {
      const response = await fetch(`${service.url}${path}`, {
        headers: { authorization: `Bearer ${ann.token}`, accept },
      });
      const text = await response.text();
      assert.equal(response.status, 503, `${path} ${accept} ${text.slice(0, 200)}`);
      assert.equal(JSON.parse(text).code, 'body_unavailable');
      assert.match(response.headers.get('content-type') ?? '', /^application\/(problem\+)?json/);
      assert.equal(response.headers.get('etag'), null);
      assert.equal(response.headers.get('content-disposition'), null);
    };
    const message = '/mail/message?mailbox=INBOX&uid=1';
    await fetchAs(message, 'application/json');
    await fetchAs(message, 'message/rfc822');
    await fetchAs(message, 'application/problem+json');
    await fetchAs('/mail/attachment?mailbox=INBOX&uid=1&part=2', '*/*');
    const synced = await service.mail(ann.token, 'POST', '/mail/sync', { fields: ['envelope'] });
    assert.equal(synced.status, 200);
    assert.equal(synced.body.changes.added[0].envelope.subject, 'large');
    await service.send({ from: 'bob@example.test', to: ann.address, subject: 'next', text: 'x' });
    const next = await service.mail(ann.token, 'GET', '/mail/message?mailbox=INBOX&uid=2');
    assert.equal(next.body.envelope.subject, 'next');
    await fetchAs('/mail/content?mailbox=INBOX&uid=1', '*/*');
    for (const [field, expected] of [
      ['envelope', [1, 2]],
      ['text', [2]],
    ] as const) {
      const request = { mailbox: 'INBOX', uids: [1, 2], fields: [field] };
      const several = await service.mail(ann.token, 'POST', '/mail/messages', request);
      assert.equal(several.status, 200);
      assert.deepEqual(
        several.body.messages.map(({ uid }: { uid: number }) => uid),
        expected,
      );
    }
  });
});
