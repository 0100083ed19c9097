/** A mailbox by IMAP, beside HTTP and SMTP: it is the same by every door. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { freePort } from '../support/free-port.ts';
import { ImapLines } from '../support/imap-lines.ts';
import { programOf } from '../support/mail-program.ts';
import {
  makeAccountWith,
  startTestService,
  type TestAccount,
  type TestService,
} from '../support/service.ts';

const BALANCER = '127.0.0.2';

onEachEngine('IMAP', (engine) => {
  let service: TestService;
  let port: number;
  let tlsPort: number;
  before(async () => {
    const ports = { IMAP_PORT: String(await freePort()), IMAPS_PORT: String(await freePort(1)) };
    service = await startTestService(engine, { ...ports, IMAP_PROXY_NETWORKS: BALANCER });
    port = service.addresses.imap?.port ?? 0;
    tlsPort = service.addresses.imaps?.port ?? 0;
  });

  const accountWithMail = (subjects: readonly string[]) => makeAccountWith(service, subjects);

  const open = (account: TestAccount) => ImapLines.open(port, account);

  const flow = (account: TestAccount) => programOf(tlsPort, account);

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
    const source = ((await content?.toArray()) ?? []).join('');
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
      /^\* 1 FETCH \(UID 1 FLAGS \(\\Flagged \\Recent\) MODSEQ \(\d+\)\)$/,
    );
    await service.send({ from: 'b@example.test', to: ann.address, subject: 'three', text: '3' });
    assert.equal(await watching.next(), '* 3 EXISTS');
    assert.equal(await watching.next(), '* 3 RECENT');
    const moved = await other.ok('UID MOVE 2 Trash');
    assert.match(
      moved.join('\n'),
      /^\* OK \[COPYUID \d+ 2 1\] Moved\n\* 1 FETCH .*\n\* 2 EXPUNGE\n\* 2 EXISTS/,
    );
    assert.equal(await watching.next(), '* VANISHED 2');
    // iOS sends DONE and the next command in one packet.
    watching.send('DONE\r\ns UID SEARCH ALL\r\n');
    assert.match(await watching.next(), /^i OK /);
    assert.equal(await watching.next(), '* SEARCH 1 3');
    assert.match(await watching.next(), /^s OK /);
    watching.close();
    other.close();
  });

  test('messages are found and cut by what else is known of them', async () => {
    const ann = await accountWithMail(['one', 'two', 'three']);
    const client = await open(ann);
    const selected = (await client.ok('SELECT INBOX')).join('\n');
    assert.match(selected, /\* 3 RECENT\n\* OK \[UNSEEN 1\]/);
    assert.match(selected, /\[MAILBOXID \(m\d+\)\]/);
    const [told = ''] = await client.ok('FETCH 2 (SAVEDATE EMAILID THREADID PREVIEW)');
    assert.match(told, /SAVEDATE "[ \d]\d-\w{3}-\d{4} [\d:]{8} \+0000" .* PREVIEW "two"\)$/);
    const [, email, thread] = /EMAILID \((\S+)\) THREADID \((\S+)\)/.exec(told) ?? [];
    assert.deepEqual(await client.ok(`SEARCH EMAILID ${email} THREADID ${thread}`), ['* SEARCH 2']);
    assert.deepEqual(await client.ok('SEARCH YOUNGER 3600 SAVEDSINCE 1-Jan-2020'), [
      '* SEARCH 1 2 3',
    ]);
    assert.deepEqual(await client.ok('SEARCH OR OLDER 3600 SAVEDBEFORE 1-Jan-2020'), ['* SEARCH']);
    assert.deepEqual(await client.ok('SEARCH RETURN (SAVE) SUBJECT t'), []);
    assert.deepEqual(await client.ok('FETCH $ UID'), ['* 2 FETCH (UID 2)', '* 3 FETCH (UID 3)']);
    assert.deepEqual(await client.ok('UID SEARCH RETURN (PARTIAL -1:-2) ALL'), [
      '* ESEARCH (TAG "a9") UID PARTIAL (-1:-2 2:3)',
    ]);
    assert.deepEqual(await client.ok('UID FETCH 1:* UID (PARTIAL 2:2)'), ['* 2 FETCH (UID 2)']);
    // Several messages at once, and lines that end in LF alone.
    const two = 'APPEND Archive ($New) {12+}\r\nSubject: a\n\n {13+}\r\nSubject: b\n\nX\r\n';
    const appended = (await client.command(two.trimEnd())).at(-1) ?? '';
    assert.match(appended, /^OK \[APPENDUID \d+ 1:2\] /);
    const archive = (await client.ok('SELECT Archive')).join('\n');
    assert.match(archive, /^\* FLAGS \(.* \$New\)\n/);
    assert.deepEqual(await client.ok('FETCH 2 RFC822.SIZE'), ['* 2 FETCH (RFC822.SIZE 15)']);
    assert.deepEqual(await client.ok('MOVE 1 Archive').then((lines) => lines.slice(1)), [
      '* 1 EXPUNGE',
      '* 2 EXISTS',
      '* 2 RECENT',
    ]);
    await client.ok('CREATE Lists/a');
    await client.ok('SUBSCRIBE Lists/a');
    await client.ok('DELETE Lists/a');
    assert.deepEqual(await client.ok('LIST (SUBSCRIBED) "" Lists/*'), [
      '* LIST (\\HasNoChildren \\NonExistent \\Subscribed) "/" "Lists/a"',
    ]);
    client.close();
  });

  test('NIL is a keyword as any other atom, by every door', async () => {
    const ann = await accountWithMail(['one']);
    const client = await open(ann);
    await client.ok('SELECT INBOX');
    assert.deepEqual(await client.command('STORE 1 +FLAGS (NIL)'), [
      '* FLAGS (\\Answered \\Flagged \\Deleted \\Seen \\Draft NIL)',
      '* OK [PERMANENTFLAGS (\\Answered \\Flagged \\Deleted \\Seen \\Draft NIL \\*)] Flags that are kept',
      '* 1 FETCH (FLAGS (NIL \\Recent))',
      'OK The flags are changed',
    ]);
    const { body } = await service.mail(ann.token, 'POST', '/mail/sync', { fields: ['flags'] });
    assert.deepEqual(body.changes.added[0].flags, ['NIL']);
    await client.ok('STORE 1 -FLAGS (nil)');
    const { body: after } = await service.mail(ann.token, 'POST', '/mail/sync', {
      fields: ['flags'],
    });
    assert.deepEqual(after.changes.added[0].flags, []);
    client.close();
  });

  test('removals wait until sequence numbers may change, and a later sync tells them', async () => {
    const ann = await accountWithMail(['one', 'two', 'three']);
    const client = await open(ann);
    await client.ok('ENABLE CONDSTORE');
    await client.ok('SELECT INBOX');
    await service.mail(ann.token, 'POST', '/mail/delete', { mailbox: 'INBOX', uids: [1] });
    const fetched = await client.command('FETCH 1:3 (UID)');
    assert.deepEqual(fetched.slice(0, -1), ['* 2 FETCH (UID 2)', '* 3 FETCH (UID 3)']);
    assert.match(fetched.at(-1) ?? '', /^OK \[EXPUNGEISSUED\]/);
    const stored = await client.command('STORE 1:2 +FLAGS (\\Seen)');
    assert.deepEqual(stored.slice(0, -1), ['* 2 FETCH (UID 2 FLAGS (\\Seen \\Recent) MODSEQ (6))']);
    assert.match(stored.at(-1) ?? '', /^NO \[EXPUNGEISSUED\]/);
    await client.ok('STORE 2 -FLAGS (\\Seen)');
    // A MODSEQ that covers the removal would hide it from a client that comes back with it.
    const before = await client.ok('STATUS INBOX (HIGHESTMODSEQ)');
    assert.deepEqual(await client.ok('FETCH 2 (FLAGS)'), ['* 2 FETCH (FLAGS (\\Recent))']);
    assert.deepEqual(await client.ok('NOOP'), ['* 1 EXPUNGE']);
    assert.deepEqual(await client.ok('SEARCH ALL'), ['* SEARCH 1 2']);
    assert.equal(before.length, 1);
    client.close();
  });

  test('a client that was away is told what changed since its MODSEQ', async () => {
    const ann = await accountWithMail(['one', 'two', 'three']);
    const client = await open(ann);
    const selected = await client.ok('SELECT INBOX');
    const uidvalidity = /UIDVALIDITY (\d+)/.exec(selected.join())?.[1];
    const modseq = /HIGHESTMODSEQ (\d+)/.exec(selected.join())?.[1];
    await client.ok('LOGOUT');
    const change = { mailbox: 'INBOX', uids: [3], add: ['\\Seen'] };
    await service.mail(ann.token, 'POST', '/mail/flags', change);
    await service.mail(ann.token, 'POST', '/mail/move', {
      mailbox: 'INBOX',
      uids: [1],
      to: 'Trash',
    });
    const again = await open(ann);
    await again.ok('ENABLE QRESYNC');
    const told = await again.ok(`SELECT INBOX (QRESYNC (${uidvalidity} ${modseq} 1:3))`);
    assert.ok(told.includes('* VANISHED (EARLIER) 1'), told.join('\n'));
    const [gone, count, changed] = told.slice(-3);
    assert.deepEqual([gone, count], ['* VANISHED (EARLIER) 1', '* 2 EXISTS']);
    assert.match(changed ?? '', /^\* 2 FETCH \(UID 3 FLAGS \(\\Seen\) MODSEQ/);
    // Of what it does not ask about it is told nothing.
    const few = await again.ok(`SELECT INBOX (QRESYNC (${uidvalidity} ${modseq} 1:2))`);
    assert.ok(few.includes('* VANISHED (EARLIER) 1'), few.join('\n'));
    assert.ok(!few.join().includes('FETCH'), few.join('\n'));
    // From a state that is not known: all that is not there.
    const lost = await again.ok(`SELECT INBOX (QRESYNC (${uidvalidity} 999999))`);
    assert.ok(lost.includes('* VANISHED (EARLIER) 1'), lost.join('\n'));
    // Messages that came after the state which a program names: it may know them all the same.
    const moved = { mailbox: 'INBOX', uids: [2, 3], to: 'Trash' };
    await service.mail(ann.token, 'POST', '/mail/move', moved);
    const since = `${uidvalidity} 1`;
    const early = await again.ok(`SELECT INBOX (QRESYNC (${since}))`);
    assert.ok(early.includes('* VANISHED (EARLIER) 1:3'), early.join('\n'));
    const some = await again.ok(`SELECT INBOX (QRESYNC (${since} 2:9))`);
    assert.ok(some.includes('* VANISHED (EARLIER) 2:3'), some.join('\n'));
    const fetched = await again.ok('UID FETCH 3:* (FLAGS) (CHANGEDSINCE 1 VANISHED)');
    assert.deepEqual(fetched, ['* VANISHED (EARLIER) 3']);
    again.close();
  });

  test('a conditional STORE changes only what did not change since', async () => {
    const ann = await accountWithMail(['one', 'two']);
    const client = await open(ann);
    const modseq = /HIGHESTMODSEQ (\d+)/.exec((await client.ok('SELECT INBOX')).join())?.[1];
    const change = { mailbox: 'INBOX', uids: [1], add: ['\\Flagged'] };
    await service.mail(ann.token, 'POST', '/mail/flags', change);
    const stored = await client.command(`UID STORE 1:2 (UNCHANGEDSINCE ${modseq}) FLAGS (\\Seen)`);
    assert.match(stored.at(-1) ?? '', /^OK \[MODIFIED 1\]/);
    const flags = (await service.look(ann)).get('INBOX');
    assert.deepEqual(
      [...(flags ?? [])],
      [
        [1, ['\\Flagged']],
        [2, ['\\Seen']],
      ],
    );
    client.close();
  });

  test('who loses the access is told BYE; who guesses is stopped', async () => {
    const ann = await accountWithMail([]);
    const client = await open(ann);
    await service.v2('POST', `/v2/email-accounts/${ann.id}/password/reset`, {
      user_id: ann.userId,
    });
    assert.match(await client.next(), /^\* BYE /);
    assert.equal(await client.next(), '');
    const guessing = await ImapLines.connect(port);
    for (let attempt = 1; attempt < 5; attempt++) {
      const answer = await guessing.command(`LOGIN nobody@${ann.domain} wrong`);
      assert.match(answer.join(), /^NO \[AUTHENTICATIONFAILED\]/);
    }
    assert.match((await guessing.command(`LOGIN nobody@${ann.domain} wrong`)).join(), /^\* BYE /);
  });

  test('an app password opens the mailbox until it is revoked: then its sessions end, and no others', async () => {
    const ann = await accountWithMail(['one']);
    const path = `/v2/email-accounts/${ann.id}/app-passwords`;
    const asked = { user_id: ann.userId, name: 'Phone' };
    const made = await service.v2('POST', path, asked);
    assert.equal(made.status, 201);
    const { app_password: shown, password } = made.body;
    assert.equal(typeof password, 'string');
    const phone = flow({ ...ann, password: String(password) });
    await phone.connect();
    await phone.mailboxOpen('INBOX');
    assert.equal((await phone.fetchAll('1:*', { flags: true })).length, 1);
    const other = await open(ann);
    const listed = await service.v2('GET', `${path}?user_id=${ann.userId}`);
    assert.equal(listed.body.items[0].last_used_by, 'imap');
    const closed = new Promise((resolve) => phone.on('close', () => resolve(true)));
    const revoked = await service.v2('POST', `${path}/${shown.id}/delete`, { user_id: ann.userId });
    assert.equal(revoked.body.deleted.name, 'Phone');
    assert.equal(await closed, true);
    await other.ok('NOOP');
    other.close();
    const again = await ImapLines.connect(port);
    const answer = await again.command(`LOGIN ${ann.address} ${String(password)}`);
    assert.match(answer.at(-1) ?? '', /^NO \[AUTHENTICATIONFAILED\]/);
    again.close();
  });

  test('operators see the sessions of an account, and end one', async () => {
    const ann = await accountWithMail(['one']);
    const phone = await ImapLines.connect(port);
    await phone.ok('ID ("name" "K-9 \\"Mail\\"" "version" "6.8" "os" NIL)');
    await phone.ok(`LOGIN ${ann.address} "${ann.password}"`);
    const laptop = await open(ann);
    await laptop.ok('SELECT INBOX');
    const path = '/v2/operator/imap-sessions';
    const { body } = await service.v2('GET', `${path}?account_id=${ann.id}`);
    assert.equal(body.complete, true);
    // Two logins of one millisecond are listed in the order of their ids, which are random.
    const named = body.items.findIndex((session: { program?: string }) => session.program);
    const [first, second] = [body.items[named], body.items[1 - named]];
    assert.deepEqual([first.program, first.last_command], ['K-9 "Mail" 6.8', 'LOGIN']);
    assert.deepEqual([second.mailbox, second.last_command], ['INBOX', 'SELECT']);
    assert.deepEqual(
      [second.address, second.client, second.secure, second.program],
      [ann.address, '127.0.0.1', false, undefined],
    );
    assert.ok(second.bytes_in > 20 && second.bytes_out > second.bytes_in);
    assert.equal(body.items.length, 2);
    const ended = await service.v2('POST', `${path}/${first.id}/end`, {});
    assert.deepEqual([ended.status, ended.body.id], [200, first.id]);
    assert.match(await phone.next(), /^\* BYE The session was ended by the operator/);
    await laptop.ok('NOOP');
    const again = await service.v2('POST', `${path}/${first.id}/end`, {});
    assert.deepEqual([again.status, again.body.code], [404, 'session_not_found']);
    const audit = await service.v2('GET', '/v2/operator/audit?limit=1');
    assert.equal(audit.body.items[0].action, 'imap_session.end');
    assert.match(audit.body.items[0].target, new RegExp(`^${ann.address} from 127.0.0.1`));
    laptop.close();
  });

  test('a message that is refused is not read as commands', async () => {
    const ann = await accountWithMail([]);
    const client = await open(ann);
    client.send('x APPEND Nope {14+}\r\ny DELETE INBOX\r\nz NOOP\r\n');
    assert.match(await client.next(), /^x NO \[TRYCREATE\]/);
    assert.match(await client.next(), /^z OK/);
    assert.match((await client.command('APPEND INBOX {99999999999}')).join(), /BAD|NO \[TOOBIG\]/);
    client.close();
  });

  test('a draft is replaced at once, also by one in another mailbox', async () => {
    const ann = await accountWithMail(['one', 'two']);
    const [client, other] = [await open(ann), await open(ann)];
    await client.ok('SELECT INBOX');
    const replaced = await client.ok('REPLACE 1 INBOX (\\Draft) {16+}\r\nSubject: new\n\n-\n');
    assert.match(replaced.join('\n'), /^\* OK \[APPENDUID \d+ 3\] .*\n\* 1 EXPUNGE\n\* 2 EXISTS/);
    assert.deepEqual(await client.ok('UID FETCH 3 (FLAGS RFC822.SIZE)'), [
      '* 2 FETCH (UID 3 FLAGS (\\Draft \\Recent) RFC822.SIZE 19)',
    ]);
    assert.match(
      (await client.ok('UID REPLACE 2 Drafts {3+}\r\na\r\n')).join('\n'),
      /^\* OK \[APPENDUID \d+ 1\] .*\n\* 1 EXPUNGE$/,
    );
    // Somebody else removes what is to be replaced: then nothing is stored.
    await other.ok('SELECT INBOX');
    client.send('r UID REPLACE 3 INBOX {5}\r\n');
    assert.match(await client.next(), /^\+ /);
    await other.ok('UID MOVE 3 Trash');
    client.send('lost\n\r\n');
    assert.match(await client.next(), /^r NO \[EXPUNGEISSUED\] /);
    const answer = async (command: string) => (await client.command(command)).at(-1) ?? '';
    assert.match(await answer('UID REPLACE 99 INBOX {2+}\r\nab'), /^NO \[CANNOT\] /);
    assert.match(await answer('REPLACE 9 INBOX {2+}\r\nab'), /^BAD /);
    assert.match(await answer('REPLACE 1 INBOX'), /^BAD /);
    const by = await service.look(ann);
    assert.deepEqual(
      ['INBOX', 'Drafts', 'Trash'].map((name) => [...(by.get(name)?.keys() ?? [])]),
      [[], [1], [1]],
    );
    client.close();
    other.close();
  });

  test('nothing that came before TLS counts after it', async () => {
    const ann = await accountWithMail([]);
    const client = await ImapLines.connect(port);
    client.send(`x STARTTLS\r\ny LOGIN ${ann.address} "${ann.password}"\r\n`);
    assert.match(await client.next(), /^x OK/);
    assert.doesNotMatch(await client.next(), /^y /);
    client.close();
  });

  test('strangers hold little', async () => {
    const client = await ImapLines.connect(port);
    client.send('x LOGIN {5000+}\r\n');
    assert.match(await client.next(), /^\* BYE \[TOOBIG\]/);
    const long = await ImapLines.connect(port);
    long.send('x'.repeat(70_000));
    assert.match(await long.next(), /^\* BYE \[TOOBIG\]/);
  });

  test('a client has ten connections before a login, and keeps out nobody else', async () => {
    const openFrom = async (address: string) => {
      const socket = connect({ port, host: '127.0.0.1', localAddress: BALANCER });
      socket.write(`PROXY TCP4 ${address} 192.0.2.1 1024 143\r\n`);
      const client = new ImapLines(socket);
      return { client, greeting: await client.next() };
    };
    const stranger = '203.0.113.9';
    const held = [];
    for (let n = 0; n < 10; n++) held.push(await openFrom(stranger));
    for (const { greeting } of held) assert.match(greeting, /^\* OK /);
    assert.match((await openFrom(stranger)).greeting, /^\* BYE \[LIMIT\]/);
    const other = await openFrom('203.0.113.10');
    assert.match(other.greeting, /^\* OK /);
    for (const { client } of [...held, other]) client.close();
  });
});
