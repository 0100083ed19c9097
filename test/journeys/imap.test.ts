/** A mailbox by IMAP, beside HTTP and SMTP: it is the same by every door. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { ImapFlow } from 'imapflow';
import { onEachEngine } from '../support/databases.ts';
import { freePort } from '../support/free-port.ts';
import { ImapLines } from '../support/imap-lines.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';

onEachEngine('IMAP', (engine) => {
  let service: TestService;
  let port: number;
  let tlsPort: number;
  before(async () => {
    const ports = { IMAP_PORT: String(await freePort()), IMAPS_PORT: String(await freePort(1)) };
    service = await startTestService(engine, ports);
    port = service.addresses.imap?.port ?? 0;
    tlsPort = service.addresses.imaps?.port ?? 0;
  });

  async function accountWithMail(subjects: readonly string[]): Promise<TestAccount> {
    const account = await service.makeAccount();
    for (const subject of subjects) {
      await service.send({ from: 'bob@example.test', to: account.address, subject, text: subject });
    }
    return account;
  }

  async function open(account: TestAccount): Promise<ImapLines> {
    const client = await ImapLines.connect(port);
    await client.ok(`LOGIN ${account.address} "${account.password}"`);
    return client;
  }

  function flow(account: TestAccount): ImapFlow {
    const { address: user, password: pass } = account;
    return new ImapFlow({
      host: '127.0.0.1',
      port: tlsPort,
      secure: true,
      tls: { rejectUnauthorized: false },
      auth: { user, pass },
      logger: false,
    });
  }

  test('a program reads, changes, moves and stores mail', async () => {
    const ann = await accountWithMail(['one', 'two', 'three']);
    const client = flow(ann);
    await client.connect();
    const uses = new Map((await client.list()).map(({ path, specialUse }) => [path, specialUse]));
    assert.equal(uses.get('Sent'), '\\Sent');
    const lock = await client.getMailboxLock('INBOX');
    const seen = await client.fetchAll('1:*', { envelope: true, flags: true, bodyStructure: true });
    assert.deepEqual(
      seen.map(({ envelope, bodyStructure }) => [envelope?.subject, bodyStructure?.type]),
      ['one', 'two', 'three'].map((subject) => [subject, 'text/plain']),
    );
    const { content } = await client.download('2');
    const source = (await content.toArray()).join('');
    assert.match(source, /^Return-Path:[\s\S]*\r\n\r\ntwo\r\n$/);
    await client.messageFlagsAdd('1', ['\\Seen', 'work']);
    const moved = await client.messageMove('2', 'Archive');
    assert.ok(moved && moved.uidMap?.get(2) === 1);
    const appended = await client.append('Drafts', 'Subject: draft\r\n\r\nHi\r\n', ['\\Draft']);
    assert.ok(appended && appended.uid === 1);
    lock.release();
    await client.logout();
    const by = await service.look(ann);
    assert.deepEqual(
      [...(by.get('INBOX') ?? [])],
      [
        [1, ['\\Seen', 'work']],
        [3, []],
      ],
    );
    assert.deepEqual([...(by.get('Drafts') ?? [])], [[1, ['\\Draft']]]);
  });

  test('what others change is told: by HTTP, by SMTP, by another session', async () => {
    const ann = await accountWithMail(['one', 'two']);
    const [watching, other] = [await open(ann), await open(ann)];
    await watching.ok('ENABLE QRESYNC');
    await watching.ok('SELECT INBOX');
    await other.ok('SELECT INBOX');
    watching.send('i IDLE\r\n');
    assert.match(await watching.next(), /^\+ /);
    const flagged = { mailbox: 'INBOX', uids: [1], add: ['\\Flagged'] };
    await service.mail(ann.token, 'POST', '/mail/flags', flagged);
    assert.match(
      await watching.next(),
      /^\* 1 FETCH \(UID 1 FLAGS \(\\Flagged\) MODSEQ \(\d+\)\)$/,
    );
    await service.send({ from: 'b@example.test', to: ann.address, subject: 'three', text: '3' });
    assert.equal(await watching.next(), '* 3 EXISTS');
    assert.equal(await watching.next(), '* 0 RECENT');
    const moved = await other.ok('UID MOVE 2 Trash');
    assert.match(moved.join('\n'), /^\* OK \[COPYUID \d+ 2 1\] Moved\n\* 2 EXPUNGE\n\* 2 EXISTS/);
    assert.equal(await watching.next(), '* VANISHED 2');
    // iOS sends DONE and the next command in one packet.
    watching.send('DONE\r\ns UID SEARCH ALL\r\n');
    assert.match(await watching.next(), /^i OK /);
    assert.equal(await watching.next(), '* SEARCH 1 3');
    assert.match(await watching.next(), /^s OK /);
    watching.close();
    other.close();
  });
});
