/** The API gives the same answers whichever store has the mailboxes: the embedded one, or a real mail server. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';
import { connectAs, deliveryUrl, mailstoreUrl, servers } from './imap-client.ts';
import type { MailServer } from './mail-server.ts';

const stores: Readonly<Record<string, () => Promise<MailServer | undefined>>> = {
  'the embedded store': async () => undefined,
  ...servers,
};

/** A message whose parts are nested so many levels deep. */
function nested(depth: number): string {
  let part = 'Content-Type: text/plain\r\n\r\nThe innermost text.\r\n';
  for (let level = 1; level < depth; level++) {
    const boundary = `b${level}`;
    part = `Content-Type: multipart/mixed; boundary="${boundary}"\r\n\r\n--${boundary}\r\n${part}\r\n--${boundary}--\r\n`;
  }
  const boundary = `b${depth}`;
  return (
    'From: Bob <bob@example.test>\r\nSubject: deep\r\nMIME-Version: 1.0\r\n' +
    `Content-Type: multipart/mixed; boundary="${boundary}"\r\n\r\n` +
    `--${boundary}\r\nContent-Type: text/plain\r\n\r\nThe outer text.\r\n` +
    `--${boundary}\r\n${part}\r\n--${boundary}--\r\n`
  );
}

for (const [title, start] of Object.entries(stores)) {
  void suite(`the answers of ${title}`, () => {
    let server: MailServer | undefined;
    let service: TestService;
    before(async () => {
      server = await start();
      service = await startTestService('sqlite', {
        ...(server && { MAILSTORE_URL: mailstoreUrl(server), ...deliveryUrl(server) }),
      });
    });
    after(async () => {
      await service?.stop();
      await server?.stop();
    });

    async function open(): Promise<TestAccount> {
      const account = await service.makeAccount();
      await server?.addAccount(account.address);
      if (server) await (await connectAs(server, account.address)).logout();
      return account;
    }

    const ask = ({ token }: TestAccount, path: string, body: object) =>
      service.mail(token, 'POST', path, body);

    async function must(account: TestAccount, path: string, body: object) {
      const answer = await ask(account, path, body);
      assert.equal(answer.status, 200, `${path}: ${JSON.stringify(answer.body)}`);
      return answer.body;
    }

    async function append(account: TestAccount, source: string | Buffer): Promise<number> {
      const { uid } = await service.mailstore.appendMessage(
        account,
        { mailbox: 'INBOX', octets: source.length },
        (async function* () {
          yield Buffer.from(source);
        })(),
      );
      return uid;
    }

    void test('every added message has the fields that were asked, while messages are deleted', async () => {
      const account = await open();
      const first = await append(account, 'From: a@b.test\r\nSubject: one\r\n\r\nText\r\n');
      const messages = 60;
      for (let made = 1; made < messages; made *= 2) {
        const uids = Array.from({ length: Math.min(made, messages - made) }, (_, at) => first + at);
        await must(account, '/mail/copy', { mailbox: 'INBOX', uids, to: 'INBOX' });
      }
      const fields = ['envelope', 'flags', 'size', 'internalDate', 'bodyStructure', 'preview'];
      const deleted: number[] = [];
      const left = new Set(Array.from({ length: messages }, (_, at) => first + at));
      const removeSome = async () => {
        const uids = [...left].filter((uid) => uid % 3 === 0).slice(-4);
        if (uids.length === 0) return;
        for (const uid of uids) left.delete(uid);
        deleted.push(...uids);
        await must(account, '/mail/delete', { mailbox: 'INBOX', uids });
      };
      const copy = new Set<number>();
      let last: { uidvalidity?: string; token?: string } = {};
      for (let more = true; more; ) {
        const [page] = await Promise.all([
          must(account, '/mail/sync', { ...last, fields, limit: 7 }),
          removeSome(),
        ]);
        for (const message of page.changes.added) {
          for (const field of fields) assert.ok(field in message, `${message.uid} has no ${field}`);
          copy.add(message.uid);
        }
        last = { uidvalidity: page.uidvalidity, token: page.token };
        more = page.hasMore === true;
      }
      const { changes, reset } = await must(account, '/mail/sync', { ...last, fields });
      assert.equal(reset, undefined);
      const removed = changes.removed.map(({ uid }: { uid: number }) => uid);
      assert.ok(
        deleted.some((uid) => !copy.has(uid)),
        'some were deleted before their page',
      );
      assert.deepEqual(
        removed,
        deleted.toSorted((a, b) => a - b).filter((uid) => uid <= messages),
      );
      for (const uid of removed) copy.delete(uid);
      assert.deepEqual(changes.added, []);
      assert.deepEqual(
        [...copy].sort((a, b) => a - b),
        [...left],
      );
    });

    void test('names are NFC in every call, and a rename may change the case alone', async () => {
      const account = await open();
      const make = await ask(account, '/mail/mailboxes/create', { mailbox: 'Cafe\u0301' });
      assert.equal(make.status, 201, JSON.stringify(make.body));
      const mailbox: string = make.body.mailbox;
      assert.ok(mailbox.endsWith('Caf\u00e9'), mailbox);
      const decomposed = mailbox.normalize('NFD');
      assert.notEqual(decomposed, mailbox);
      const uid = await append(account, 'From: a@b.test\r\nSubject: one\r\n\r\nText\r\n');
      const uids = [uid];
      const { copied } = await must(account, '/mail/copy', {
        mailbox: 'INBOX',
        uids,
        to: decomposed,
      });
      const there = { mailbox: decomposed, uids: [copied[0].toUid] };
      assert.equal(
        (await must(account, '/mail/flags', { ...there, add: ['\\Seen'] })).mailbox,
        mailbox,
      );
      assert.equal(
        (await must(account, '/mail/sync', { mailbox: decomposed })).changes.added.length,
        1,
      );
      const name = encodeURIComponent(decomposed);
      const read = await service.mail(
        account.token,
        'GET',
        `/mail/message?mailbox=${name}&uid=${copied[0].toUid}`,
      );
      assert.equal(read.status, 200);
      const rename = (from: string, to: string) =>
        ask(account, '/mail/mailboxes/rename', { mailbox: from, to });
      assert.equal((await rename(decomposed, decomposed)).body.mailbox, mailbox);
      const upper = mailbox.replace('Caf', 'CAF');
      assert.equal((await rename(decomposed, upper)).body.mailbox, upper);
      assert.equal((await ask(account, '/mail/sync', { mailbox })).body.code, 'mailbox_not_found');
      assert.equal((await rename(upper.normalize('NFD'), 'Plain')).status, 200);
      const plain = mailbox.replace('Caf\u00e9', 'Plain');
      assert.equal((await ask(account, '/mail/mailboxes/delete', { mailbox: plain })).status, 200);
    });

    void test('a mailbox of another client is reached by the name that is listed', async () => {
      if (!server) return;
      const account = await open();
      const client = await connectAs(server, account.address);
      const below = server.name === 'courier' ? ['INBOX'] : [];
      await client.mailboxCreate([...below, 'Cafe\u0301']);
      await client.logout();
      const { body } = await service.mail(account.token, 'GET', '/mail/mailboxes');
      const listed: string[] = body.mailboxes.map(({ mailbox }: { mailbox: string }) => mailbox);
      const mailbox = listed.find((name) => name.normalize('NFC').endsWith('Caf\u00e9'));
      assert.ok(mailbox !== undefined, listed.join());
      assert.equal((await must(account, '/mail/sync', { mailbox })).mailbox, mailbox);
      await must(account, '/mail/mailboxes/delete', { mailbox });
    });

    void test('what a server does not take is refused for good, in its own words', async () => {
      const account = await open();
      const uid = await append(account, 'From: a@b.test\r\nSubject: one\r\n\r\nText\r\n');
      const set = { mailbox: 'INBOX', uids: [uid] };
      for (const keyword of server ? ['NIL', 'nil', 'a b'] : ['a b']) {
        const { status, body } = await ask(account, '/mail/flags', { ...set, add: [keyword] });
        assert.equal(status, 400, keyword);
        assert.equal(body.code, 'invalid_request');
      }
      const long = await ask(account, '/mail/flags', { ...set, add: ['k'.repeat(64)] });
      if (server?.name === 'dovecot') {
        assert.equal(long.status, 422);
        assert.equal(long.body.code, 'mail_server_refused');
        assert.match(long.body.detail, /Keyword length too long/);
      } else assert.equal(long.status, 200, JSON.stringify(long.body));
      const odd = await ask(account, '/mail/flags', { ...set, add: ['x~y'] });
      assert.equal(odd.status, server?.name === 'courier' ? 422 : 200, JSON.stringify(odd.body));
      const above = await ask(account, '/mail/mailboxes/create', { mailbox: 'above' });
      const below = await ask(account, '/mail/mailboxes/create', { mailbox: 'above/below' });
      assert.deepEqual([above.status, below.status], [201, 201]);
      const remove = await ask(account, '/mail/mailboxes/delete', above.body);
      const isRefused = server?.name === 'cyrus';
      assert.equal(remove.status, isRefused ? 409 : 200, JSON.stringify(remove.body));
      if (isRefused) assert.equal(remove.body.code, 'mailbox_has_children');
      await must(account, '/mail/sync', { mailbox: below.body.mailbox });
    });

    void test('a search finds messages that are marked \\Deleted', async () => {
      const account = await open();
      const uid = await append(account, 'From: a@b.test\r\nSubject: marked\r\n\r\nText\r\n');
      await must(account, '/mail/flags', { mailbox: 'INBOX', uids: [uid], add: ['\\Deleted'] });
      for (const request of [{ subject: 'marked' }, { flags: ['\\Deleted'] }]) {
        for (let searched = await must(account, '/mail/search', request); ; ) {
          if (!searched.indexing) {
            assert.deepEqual(
              searched.matches.map((match: { uid: number }) => match.uid),
              [uid],
            );
            break;
          }
          searched = await must(account, '/mail/search', request);
        }
      }
    });

    void test('parts that the server cannot read have the same preview and structure', async () => {
      const account = await open();
      const head = 'From: a@b.test\r\nMIME-Version: 1.0\r\nContent-Type:';
      const html = `${head} text/html\r\n\r\n<meta charset=koi8-r>`;
      const inner = `--x\r\nContent-Type: multipart/alternative\r\n\r\nThe text.\r\n--x--\r\n`;
      for (const [source, preview] of [
        [`${head} multipart/mixed\r\n\r\nThe text.\r\n`, 'The text.'],
        [`${head} multipart/mixed; boundary=other\r\n\r\nThe text.\r\n`, 'The text.'],
        [`${head} multipart/mixed; boundary=x\r\n\r\n${inner}`, 'The text.'],
        [Buffer.from(`${html}\xf0\xd2\xc9\r\n`, 'latin1'), 'При'],
        [`${head} text/plain\r\n\r\n`, ''],
      ] as const) {
        const uid = await append(account, source);
        const fields = ['bodyStructure', 'preview', 'hasAttachment'];
        const { changes } = await must(account, '/mail/sync', { fields });
        const added = changes.added.find((message: { uid: number }) => message.uid === uid);
        assert.equal(added.preview, preview, String(source));
        assert.equal(added.hasAttachment, false);
        const { body } = await service.mail(account.token, 'GET', `/mail/message?uid=${uid}`);
        assert.equal(added.bodyStructure.type, body.bodyStructure.type);
      }
    });

    void test('a message nested 120 deep has its structure, preview and parts', async () => {
      const account = await open();
      const uid = await append(account, nested(120));
      const fields = ['envelope', 'size', 'bodyStructure', 'preview', 'hasAttachment', 'threadId'];
      const { changes } = await must(account, '/mail/sync', { fields });
      const [added] = changes.added;
      assert.equal(added.preview, 'The outer text.');
      assert.equal(added.envelope.subject, 'deep');
      assert.equal(added.size, nested(120).length);
      const get = (path: string) => service.mail(account.token, 'GET', path);
      const message = await get(`/mail/message?uid=${uid}`);
      assert.deepEqual(added.bodyStructure, message.body.bodyStructure);
      assert.equal(added.bodyStructure.childNodes.length, 2);
      const part = await service.mailstore.fetchPart(account, 'INBOX', uid, '1');
      const text = Buffer.concat(await Array.fromAsync(part.open())).toString();
      assert.equal(text.trim(), 'The outer text.');
      const { matches } = await must(account, '/mail/search', { larger: 100 });
      assert.equal(matches[0].preview, 'The outer text.');
    });
  });
}
