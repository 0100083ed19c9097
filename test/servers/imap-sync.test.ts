/**
 * The same journey of a mailbox on every real mail server, through the service's own API, while a
 * second IMAP client changes it.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { ImapFlow } from 'imapflow';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';
import { readSource } from '../support/sync-model.ts';
import { openSocket } from '../support/web-socket.ts';
import type { DovecotServer } from './dovecot.ts';
import { connectAs, deleteMailbox, deliveryUrl, mailstoreUrl, servers } from './imap-client.ts';
import type { MailServer } from './mail-server.ts';

const source = (subject: string, body = 'Hello.') =>
  `From: Bob <bob@example.test>\r\nTo: ann@acme.test\r\nSubject: ${subject}\r\n` +
  `Date: Sat, 21 Nov 2026 10:00:00 +0000\r\n\r\n${body}\r\n`;

/** A message with a text and a large attachment in base64. */
function withAttachment(content: Buffer): string {
  const lines = content.toString('base64').replace(/.{76}/g, '$&\r\n');
  return (
    'From: =?utf-8?q?B=C3=B6b?= <bob@example.test>\r\nSubject: =?utf-8?b?w6TDtsO8?=\r\n' +
    'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="b1"\r\n\r\n' +
    '--b1\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 7bit\r\n\r\nText\r\n' +
    '--b1\r\nContent-Type: application/octet-stream; name="a b.bin"\r\n' +
    'Content-Disposition: attachment; filename="a b.bin"\r\n' +
    `Content-Transfer-Encoding: base64\r\n\r\n${lines}\r\n--b1--\r\n`
  );
}

for (const [name, start] of Object.entries(servers)) {
  void suite(`a mailbox on ${name}`, () => {
    let server: MailServer;
    let service: TestService;
    before(async () => {
      server = await start();
      service = await startTestService('sqlite', {
        MAILSTORE_URL: mailstoreUrl(server),
        ...deliveryUrl(server),
      });
    });
    after(async () => {
      await service?.stop();
      await server?.stop();
    });

    const clients: ImapFlow[] = [];
    after(() => {
      for (const client of clients.splice(0)) client.close();
    });

    /** An account on both sides, and a second client of its mailbox. */
    async function open(): Promise<{ account: TestAccount; client: ImapFlow }> {
      const account = await service.makeAccount();
      await server.addAccount(account.address);
      const client = await connectAs(server, account.address);
      clients.push(client);
      await client.mailboxOpen('INBOX');
      return { account, client };
    }

    async function sync({ token }: TestAccount, body: object = {}) {
      const answer = await service.mail(token, 'POST', '/mail/sync', body);
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
      return answer.body;
    }

    const since = ({ uidvalidity, token }: { uidvalidity: string; token: string }) => ({
      uidvalidity,
      token,
    });

    async function append(client: ImapFlow, subject: string, mailbox = 'INBOX'): Promise<number> {
      const appended = await client.append(mailbox, source(subject));
      assert.ok(appended);
      assert.ok(appended.uid);
      return appended.uid;
    }

    const nothing = { added: [], updated: [], removed: [] };
    const uids = (list: { uid: number }[]) => list.map(({ uid }) => uid);

    void test('append, flag, unflag, expunge, copy and move', async () => {
      const { account, client } = await open();
      const first = await sync(account);
      assert.deepEqual(first.changes, nothing);
      const one = await append(client, 'one');
      const two = await append(client, 'two');
      let last = await sync(account, since(first));
      assert.deepEqual(last.changes, { ...nothing, added: [{ uid: one }, { uid: two }] });
      assert.deepEqual((await sync(account, since(last))).changes, nothing);

      await client.messageFlagsAdd(String(one), ['\\Seen', '\\Flagged'], { uid: true });
      let next = await sync(account, since(last));
      assert.equal(next.changes.updated.length, 1);
      assert.deepEqual(next.changes.updated[0].flags, ['\\Flagged', '\\Seen']);
      assert.match(next.changes.updated[0].modseq, /^\d+$/);
      await client.messageFlagsRemove(String(one), ['\\Seen'], { uid: true });
      last = next;
      next = await sync(account, since(last));
      assert.deepEqual(next.changes.updated[0].flags, ['\\Flagged']);

      await client.messageCopy(String(one), 'INBOX', { uid: true });
      last = await sync(account, since(next));
      assert.deepEqual(last.changes.removed, []);
      assert.equal(last.changes.added.length, 1);

      const trash = (await client.list()).find(({ path }) => path.endsWith('Trash'))?.path ?? '';
      const before = await sync(account, { mailbox: trash });
      await client.messageMove(String(two), trash, { uid: true });
      next = await sync(account, since(last));
      assert.deepEqual(next.changes, { ...nothing, removed: [{ uid: two }] });
      const moved = await sync(account, { mailbox: trash, ...since(before) });
      assert.equal(moved.changes.added.length, 1);

      await client.messageDelete(String(one), { uid: true });
      last = await sync(account, since(next));
      assert.deepEqual(last.changes, { ...nothing, removed: [{ uid: one }] });
      assert.deepEqual((await sync(account, since(last))).changes, nothing);
      // From the very first state: only what is still there, and nothing of what came and went.
      const whole = await sync(account, since(first));
      assert.equal(whole.reset, undefined);
      assert.equal(whole.changes.added.length, 1);
      assert.deepEqual(whole.changes.removed, []);
    });

    void test('older mail, and a bare MODSEQ, which gets a reset', async () => {
      const { account, client } = await open();
      const uid = await append(client, 'early');
      await client.messageFlagsAdd(String(uid), ['\\Seen'], { uid: true });
      const first = await sync(account, { fields: ['flags'] });
      const [{ modseq: itsModseq, ...added }] = first.changes.added;
      assert.deepEqual([first.changes.added.length, added], [1, { uid, flags: ['\\Seen'] }]);
      assert.match(itsModseq, /^\d+$/);
      assert.deepEqual((await sync(account, since(first))).changes, nothing);
      const modseq = first.token.split('-')[0];
      const anew = await sync(account, { uidvalidity: first.uidvalidity, token: modseq });
      assert.equal(anew.reset, true);
      assert.deepEqual(uids(anew.changes.added), [uid]);
      const bad = await service.mail(account.token, 'POST', '/mail/sync', {
        uidvalidity: first.uidvalidity,
        token: 'x-y',
      });
      assert.equal(bad.status, 400);
    });

    void test('5,000 messages in pages, changed while they are read', async () => {
      const { account, client } = await open();
      await append(client, 'seed');
      // Doubling by COPY is faster than 5,000 APPENDs.
      for (let count = 1; count < 5000; count *= 2) {
        await client.messageCopy(`1:${Math.min(count, 5000 - count)}`, 'INBOX');
        await client.noop();
      }
      const seen = new Set<number>();
      let page = await sync(account, { limit: 1500 });
      for (let pages = 1; ; pages++) {
        for (const { uid } of page.changes.added) {
          assert.ok(!seen.has(uid), `${uid} twice`);
          seen.add(uid);
        }
        if (pages === 2) {
          await client.messageDelete('10,4000', { uid: true });
          await client.messageFlagsAdd('20,4500', ['\\Flagged'], { uid: true });
          await append(client, 'late');
        }
        if (!page.hasMore) break;
        page = await sync(account, { ...since(page), limit: 1500 });
      }
      // 4000 was deleted before its page.
      assert.equal(seen.size, 4999);
      const rest = await sync(account, { ...since(page), fields: ['flags'] });
      assert.equal(rest.reset, undefined);
      assert.deepEqual(uids(rest.changes.removed), [10, 4000]);
      assert.deepEqual(uids(rest.changes.updated), [20, 4500]);
      assert.equal(rest.changes.added.length, 1);
      // All of it in one answer.
      assert.equal((await sync(account)).changes.added.length, 4999);
    });

    void test('an address that has the separator of master logins in it', async () => {
      // Cyrus has no mailboxes of such a name.
      if (server.name === 'cyrus') return;
      const account = await service.makeAccount('ann*postroom');
      await server.addAccount(account.address);
      // A server may look now and then alone whether it has new accounts.
      for (let tries = 0; tries < 10; tries++) {
        const { status } = await service.mail(account.token, 'POST', '/mail/sync', {});
        if (status === 200) break;
        await new Promise((resolve) => setTimeout(resolve, 1_000));
      }
      assert.deepEqual((await sync(account)).changes, nothing);
    });

    void test('a new UIDVALIDITY gives a reset', async () => {
      const { account, client } = await open();
      await append(client, 'one');
      const first = await sync(account);
      client.close();
      await server.resetUidValidity(account.address, 'INBOX');
      const anew = await sync(account, since(first));
      assert.equal(anew.reset, true);
      assert.notEqual(anew.uidvalidity, first.uidvalidity);
      assert.equal(anew.changes.added.length, 1);
      assert.deepEqual((await sync(account, since(anew))).changes, nothing);
    });

    void test('fields, a message and its parts match the message', async () => {
      const { account, client } = await open();
      const content = Buffer.alloc(1_200_000, 'Attachment of some length. ');
      const text = withAttachment(content);
      const appended = await client.append('INBOX', text, ['\\Flagged']);
      assert.ok(appended);
      assert.ok(appended.uid);
      const { uid } = appended;
      const fields = ['envelope', 'flags', 'size', 'internalDate', 'bodyStructure'];
      const { changes } = await sync(account, { fields });
      const [added] = changes.added;
      assert.equal(added.envelope.subject, 'äöü');
      assert.deepEqual(added.envelope.from, [{ name: 'Böb', address: 'bob@example.test' }]);
      assert.deepEqual(added.flags, ['\\Flagged']);
      assert.equal(added.size, text.length);
      assert.match(added.internalDate, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/);

      const get = (path: string) => service.mail(account.token, 'GET', path);
      const message = await get(`/mail/message?uid=${uid}`);
      assert.equal(message.status, 200);
      assert.equal(message.body.rfc822, text);
      assert.deepEqual(message.body.envelope, added.envelope);
      assert.deepEqual(message.body.flags, ['\\Flagged']);
      const shape = ({ size, ...part }: { size: number }): object => part;
      assert.deepEqual(
        message.body.bodyStructure.childNodes.map(shape),
        added.bodyStructure.childNodes.map(shape),
      );

      const url = `${service.url}/mail/attachment?uid=${uid}&part=2`;
      const headers = { authorization: `Bearer ${account.token}` };
      const whole = await fetch(url, { headers });
      assert.equal(whole.headers.get('content-length'), String(content.length));
      assert.ok(whole.headers.get('content-disposition')?.includes('a b.bin'));
      assert.ok(Buffer.from(await whole.arrayBuffer()).equals(content));
      const range = { ...headers, range: 'bytes=700000-700009' };
      const piece = await fetch(url, { headers: range });
      assert.equal(piece.status, 206);
      assert.equal(await piece.text(), content.toString('latin1', 700_000, 700_010));
      assert.equal((await get(`/mail/attachment?uid=${uid}&part=3`)).body.code, 'part_not_found');
      const gone = await get(`/mail/message?uid=${uid + 1}`);
      assert.equal(gone.body.code, 'message_not_found');
      const none = await get(`/mail/message?uid=1&mailbox=None`);
      assert.equal(none.body.code, 'mailbox_not_found');
      // A range of what needs no decoding begins anywhere.
      const plain = await client.append(
        'INBOX',
        `Subject: long\r\n\r\n${'0123456789'.repeat(90_000)}`,
      );
      assert.ok(plain);
      const body = await service.mailstore.fetchPart(account, 'INBOX', plain.uid ?? 0, '1');
      const middle = await Array.fromAsync(body.open({ start: 7, end: 800_003 }));
      assert.equal(Buffer.concat(middle).length, 799_996);
      assert.equal(Buffer.concat(middle).toString('latin1', 0, 5), '78901');
      // Some servers see no parts without MIME-Version; clients are shown some all the same.
      const lax = await client.append('INBOX', text.replace('MIME-Version: 1.0\r\n', ''));
      assert.ok(lax);
      const part = await service.mailstore.fetchPart(account, 'INBOX', lax.uid ?? 0, '2');
      assert.equal(part.size, content.length);
      assert.ok(Buffer.concat(await Array.fromAsync(part.open())).equals(content));
      // Reading never sets \Seen.
      const after = await sync(account, { fields: ['flags'] });
      assert.deepEqual(after.changes.added[0].flags, ['\\Flagged']);
    });

    void test('raw 8-bit characters of a header are not changed', async () => {
      const { account, client } = await open();
      const raw = Buffer.from('Subject: caf\xe9 f\xfcr alle\r\n\r\nText\r\n', 'latin1');
      const appended = await client.append('INBOX', raw);
      assert.ok(appended);
      const { open: read } = await service.mailstore.fetchMessage(
        account,
        'INBOX',
        appended.uid ?? 0,
      );
      assert.deepEqual(Buffer.concat(await Array.fromAsync(read())), raw);
    });

    void test('mailboxes with names of any script, renamed and deleted', async () => {
      const { account, client } = await open();
      const list = await client.list();
      const prefix = list.some(({ path }) => path.startsWith('INBOX.')) ? ['INBOX'] : [];
      const { path } = await client.mailboxCreate([...prefix, 'Entwürfe & 日本']);
      await append(client, 'one', path);
      const first = await sync(account, { mailbox: path });
      assert.equal(first.mailbox, path);
      assert.equal(first.changes.added.length, 1);
      const { mailstore } = service;
      const listed = await mailstore.listMailboxes(account);
      assert.equal(listed[0]?.mailbox, 'INBOX');
      assert.equal(listed.find(({ mailbox }) => mailbox === path)?.token, first.token);
      for (const use of ['\\Sent', '\\Drafts', '\\Junk', '\\Trash', '\\Archive']) {
        assert.ok(
          listed.some(({ specialUse }) => specialUse === use) || server.name === 'cyrus',
          use,
        );
      }
      const { newPath } = await client.mailboxRename(path, [...prefix, 'Anders']);
      const ask = (mailbox: string) =>
        service.mail(account.token, 'POST', '/mail/sync', { mailbox });
      assert.equal((await ask(path)).body.code, 'mailbox_not_found');
      assert.equal((await sync(account, { mailbox: newPath })).changes.added.length, 1);
      await client.mailboxDelete(newPath);
      assert.equal((await ask(newPath)).body.code, 'mailbox_not_found');
    });

    void test('a mailbox that another client empties, deletes and creates again', async () => {
      const { account, client } = await open();
      const { mailstore } = service;
      const below = (await client.list()).some(({ path }) => path.startsWith('INBOX.'));
      const name = [...(below ? ['INBOX'] : []), 'Again'];
      const { path } = await client.mailboxCreate(name);
      const read = (uid: number) => readSource(mailstore, account, path, uid);
      const long = source('old 1', 'x'.repeat(2_000_000));
      await client.append(path, long);
      await append(client, 'old 2', path);
      await append(client, 'old 3', path);
      const first = await sync(account, { mailbox: path });
      assert.equal(first.changes.added.length, 3);
      // Each of the connections that an account may have has the mailbox open.
      await Promise.all([1, 2, 3].map(read));
      const message = await mailstore.fetchMessage(account, path, 1);
      await client.mailboxOpen(path);
      await client.messageDelete('2', { uid: true });
      for (const uid of [2, 2, 2]) assert.equal(await read(uid), undefined, 'was expunged');
      await Promise.all([1, 3].map(read));

      await client.mailboxClose();
      await deleteMailbox(client, path);
      await client.mailboxCreate(name);
      const subjects = ['new 1', 'new 2', 'new 3'];
      for (const subject of subjects) await append(client, subject, path);
      const sources = await Promise.all([1, 2, 3].map(read));
      assert.deepEqual(
        sources,
        subjects.map((subject) => source(subject)),
      );
      const part = await mailstore.fetchPart(account, path, 1, '1');
      assert.equal(Buffer.concat(await Array.fromAsync(part.open())).toString(), 'Hello.\r\n');
      // What was begun of the old message is not ended with octets of the new one.
      await assert.rejects(Array.fromAsync(message.open()), { code: 'message_not_found' });
      const anew = await sync(account, { mailbox: path, ...since(first) });
      assert.equal(anew.reset, true);
      assert.notEqual(anew.uidvalidity, first.uidvalidity);
      assert.deepEqual(uids(anew.changes.added), [1, 2, 3]);
      const status = await client.status(path, { messages: true });
      assert.ok(status);
      assert.equal(status.messages, 3, 'none was lost on the server');

      await deleteMailbox(client, path);
      for (const ask of [() => read(1), () => mailstore.sync(account, { mailbox: path })]) {
        await assert.rejects(ask(), { code: 'mailbox_not_found' });
      }
    });

    void test('flags, moves and removals of our own, with the token that a sync returns', async () => {
      const { account, client } = await open();
      const { mailstore } = service;
      for (const subject of ['one', 'two', 'three']) await append(client, subject);
      const first = await sync(account);
      const flagged = await mailstore.setFlags(
        account,
        { mailbox: 'INBOX', uids: [1, 2, 99] },
        { add: ['\\Seen'] },
      );
      let last = await sync(account, since(first));
      assert.equal(flagged.state.token, last.token);
      assert.deepEqual(uids([...flagged.updated]), [1, 2]);
      assert.deepEqual(uids(last.changes.updated), [1, 2]);
      const again = await mailstore.setFlags(
        account,
        { mailbox: 'INBOX', uids: [1, 2] },
        { add: ['\\seen'] },
      );
      assert.deepEqual(again.changes, []);
      const { mailbox: trash = '' } =
        (await mailstore.listMailboxes(account)).find(({ mailbox }) => mailbox.endsWith('Trash')) ??
        {};
      const moved = await mailstore.move(account, { mailbox: 'INBOX', uids: [2] }, trash);
      const next = await sync(account, since(last));
      assert.deepEqual(next.changes, { ...nothing, removed: [{ uid: 2 }] });
      assert.equal(moved.changes[0]?.token, next.token);
      const target = await sync(account, { mailbox: trash });
      assert.deepEqual([...moved.uids.values()], uids(target.changes.added));
      assert.equal(moved.changes[1]?.token, target.token);
      assert.equal(
        (await mailstore.move(account, { mailbox: 'INBOX', uids: [77] }, trash)).changes.length,
        0,
      );
      const removed = await mailstore.expunge(account, { mailbox: 'INBOX', uids: [1, 55] });
      last = await sync(account, since(next));
      assert.deepEqual(last.changes, { ...nothing, removed: [{ uid: 1 }] });
      assert.equal(removed.state.token, last.token);
      assert.deepEqual(removed.removed, [1]);
      const none = await mailstore.expunge(account, { mailbox: 'INBOX', uids: [1] });
      assert.deepEqual(none.changes, []);
      await assert.rejects(mailstore.move(account, { mailbox: 'INBOX', uids: [3] }, 'None'), {
        code: 'mailbox_not_found',
      });
    });

    void test('messages of our own, with the token that a sync returns', async () => {
      const { account, client } = await open();
      const { mailstore } = service;
      const appendOne = async (subject: string) => {
        const text = source(subject);
        const { uid, state } = await mailstore.appendMessage(
          account,
          { mailbox: 'INBOX', octets: text.length },
          (async function* () {
            yield Buffer.from(text);
          })(),
        );
        return { uid, token: state.token };
      };
      const seen = { add: ['\\Seen'] };
      for (const subject of ['one', 'two', 'three']) {
        const { uid, token } = await appendOne(subject);
        // The connection of the next message has had no mailbox open since.
        const again = await appendOne(`${subject} again`);
        const last = await sync(account);
        assert.equal(again.token, last.token);
        assert.notEqual(again.token, token);
        assert.deepEqual(uids(last.changes.added).slice(-2), [uid, again.uid]);
        // By another client, once it knows the message, and at once by us.
        await client.noop();
        await client.messageFlagsAdd(String(uid), ['\\Flagged'], { uid: true });
        const set = { mailbox: 'INBOX', uids: [uid], uidvalidity: last.uidvalidity };
        const { state, updated } = await mailstore.setFlags(account, set, seen);
        assert.deepEqual(updated[0]?.flags, ['\\Flagged', '\\Seen']);
        assert.equal(state.token, (await sync(account)).token);
      }
    });

    void test('arriving mail is in the mailbox, and the app gets an event', async () => {
      const { account } = await open();
      const first = await sync(account);
      const socket = await openSocket(service, account.token);
      const hello = await socket.next();
      const inbox = hello.mailboxes.find(({ mailbox }: { mailbox: string }) => mailbox === 'INBOX');
      assert.equal(inbox.token, first.token);
      await service.send({
        from: 'bob@example.test',
        to: account.address,
        subject: 'Arrived',
        text: 'Hello.',
      });
      const told = await socket.next();
      assert.equal(told.type, 'mailbox_changed');
      const next = await sync(account, { ...since(first), fields: ['envelope'] });
      assert.equal(next.token, told.token);
      assert.equal(next.changes.added[0].envelope.subject, 'Arrived');
      const { uid } = next.changes.added[0];
      const { mailstore } = service;
      const message = await mailstore.fetchMessage(account, 'INBOX', uid);
      assert.deepEqual(message.flags, []);
      socket.close();
    });

    void test('a stopped server is logged, and used again when it is up', async () => {
      const { account } = await open();
      const first = await sync(account);
      // Open sessions of Dovecot outlive its main process.
      if ('doveadm' in server) await (server as DovecotServer).doveadm('kick', account.address);
      await server.pause();
      const ask = () => service.mail(account.token, 'POST', '/mail/sync', since(first));
      let down = await ask();
      // A session that is open may outlive the server's main process for a moment.
      while (down.status === 200) down = await ask();
      assert.equal(down.status, 503);
      assert.equal(down.body.code, 'unavailable');
      assert.ok(Number(down.headers.get('retry-after')) > 0);
      await server.resume();
      for (;;) {
        const answer = await ask();
        if (answer.status === 200) {
          assert.deepEqual(answer.body.changes, nothing);
          break;
        }
        assert.equal(answer.status, 503);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    });
  });
}
