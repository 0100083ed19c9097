/** What apps are answered where the file of a message's source is gone. */
import assert from 'node:assert/strict';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { freePort } from '../support/free-port.ts';
import { ImapLines } from '../support/imap-lines.ts';
import { startTestService, type TestService } from '../support/service.ts';

async function removeBodies(service: TestService): Promise<number> {
  const bodies = join(service.config.dataDir, 'bodies');
  const files = (await readdir(bodies, { recursive: true })).filter((name) =>
    /^[0-9a-f]{2}\//.test(name),
  );
  for (const file of files) await rm(join(bodies, file));
  return files.length;
}

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
    assert.equal(await removeBodies(service), 1);
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

  test('ends no answer of IMAP in the middle, and hides no flag', { skip }, async () => {
    const service = await startTestService(engine, { IMAP_PORT: String(await freePort()) });
    const ann = await service.makeAccount();
    const client = await ImapLines.open(service.addresses.imap?.port ?? 0, ann);
    const named = (count: number) =>
      Array.from(
        { length: count },
        (_, at) => `--b\r\nContent-Type: text/plain; name=${'n'.repeat(300)}${at}\r\n\r\n\r\n`,
      );
    // Together their structures are more than what is sent at once, and the second one is in a file.
    for (const [parts, size] of [
      [30, 0],
      [160, 100_000],
    ] as const) {
      const text = `Content-Type: multipart/mixed; boundary=b\r\n\r\n${named(parts).join('')}--b--\r\n${'x'.repeat(size)}`;
      client.send(`x APPEND INBOX {${text.length}}\r\n`);
      assert.match(await client.next(), /^\+ /);
      client.send(`${text}\r\n`);
      assert.match(await client.next(), /^x OK/);
    }
    await client.ok('SELECT INBOX');
    // They are kept from now on.
    await client.ok('FETCH 1:2 BODYSTRUCTURE');
    assert.equal(await removeBodies(service), 1);
    assert.deepEqual(await client.command('FETCH 1:2 BODY[HEADER.FIELDS (X-A)]'), [
      'NO [SERVERBUG] the source of this message is missing or damaged',
    ]);
    const told = await client.ok('NOOP');
    assert.deepEqual(
      told.map((line) => line.replace(' \\Recent', '')),
      ['* 1 FETCH (UID 1 FLAGS (\\Seen))', '* 2 FETCH (UID 2 FLAGS (\\Seen))'],
    );
    client.send('x FETCH 1:2 (BODYSTRUCTURE BODY.PEEK[HEADER.FIELDS (X-A)])\r\n');
    const lines = [await client.next(), await client.next(), await client.next()];
    assert.match(lines[0] ?? '', /^\* 1 FETCH .* BODY\[HEADER.FIELDS \(X-A\)\] \{2\}$/);
    assert.deepEqual(lines.slice(1), ['', ')']);
    assert.equal(await client.next(), '', 'the connection ends within the line of the second');
    assert.equal(client.isClosed, true);
  });
});
