/** Extensions of IMAP, and IMAP4rev2, by lines and by a program that uses them. */
import assert from 'node:assert/strict';
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

onEachEngine('IMAP with extensions', (engine) => {
  let service: TestService;
  let port: number;
  let tlsPort: number;
  before(async () => {
    const ports = { IMAP_PORT: String(await freePort()), IMAPS_PORT: String(await freePort(1)) };
    service = await startTestService(engine, ports);
    port = service.addresses.imap?.port ?? 0;
    tlsPort = service.addresses.imaps?.port ?? 0;
  });

  const accountWithMail = (subjects: readonly string[]) => makeAccountWith(service, subjects);

  const open = (account: TestAccount) => ImapLines.open(port, account);

  const flow = (account: TestAccount) => programOf(tlsPort, account);

  test('IMAP4rev2 has names in UTF-8, ESEARCH, LIST at SELECT, and no \\Recent', async () => {
    const ann = await accountWithMail(['one', 'two']);
    const client = await open(ann);
    const utf8 = (text: string) => Buffer.from(text).toString('latin1');
    await client.ok('CREATE "R&AOk-sum&AOk-"');
    assert.deepEqual(await client.ok('LIST "" R*'), [
      '* LIST (\\HasNoChildren) "/" "R&AOk-sum&AOk-"',
    ]);
    assert.deepEqual(await client.ok('ENABLE IMAP4rev2 X-NONE'), ['* ENABLED IMAP4rev2']);
    assert.deepEqual(await client.ok('LIST "" R*'), [
      utf8('* LIST (\\HasNoChildren) "/" "Résumé"'),
    ]);
    assert.deepEqual(await client.ok(utf8('STATUS "Résumé" (MESSAGES DELETED)')), [
      utf8('* STATUS "Résumé" (MESSAGES 0 DELETED 0)'),
    ]);
    // What was UTF-7 is a name like others, and a decomposed name is the composed one.
    await client.ok('CREATE "A&AOk-B & \\"C\\""');
    assert.match((await client.ok('LIST "" A&*')).join(), /"A&AOk-B & \\"C\\""$/);
    const made = await client.ok(utf8('CREATE "Cafe\u0301"'));
    assert.deepEqual(made, [
      utf8('* LIST (\\HasNoChildren) "/" "Café" ("OLDNAME" ("Cafe\u0301"))'),
    ]);
    assert.deepEqual(await client.ok(utf8('RENAME "Café" "The\u0301"')), [
      utf8('* LIST (\\HasNoChildren) "/" "Thé" ("OLDNAME" ("Café"))'),
    ]);
    const selected = await client.ok('SELECT inbox');
    assert.ok(selected.includes('* LIST (\\HasNoChildren) "/" "INBOX"'), selected.join('\n'));
    assert.doesNotMatch(selected.join(), /RECENT|UNSEEN/i);
    assert.deepEqual(await client.ok('FETCH 1 FLAGS'), ['* 1 FETCH (FLAGS ())']);
    assert.deepEqual(await client.ok('SEARCH ALL'), ['* ESEARCH (TAG "a13") ALL 1:2']);
    assert.deepEqual(await client.ok('UID SEARCH SUBJECT none'), ['* ESEARCH (TAG "a14") UID']);
    assert.deepEqual((await client.ok(utf8('SELECT "Thé"')))[0], '* OK [CLOSED] Closed');
    // Too late for a mailbox that is open.
    assert.deepEqual(await client.ok('ENABLE UTF8=ACCEPT'), ['* ENABLED']);
    // Those that did not ask see the same mailboxes as before, and the messages as recent.
    const old = await open(ann);
    assert.match((await old.ok('LIST "" T*')).join(), /"Th&AOk-"/);
    assert.ok((await old.ok('SELECT INBOX')).includes('* 2 RECENT'));
    client.close();
    old.close();
  });

  test('an operator takes extensions off', async () => {
    const ports = { IMAP_PORT: String(await freePort(2)), IMAP_DISABLE: 'imap4rev2,QRESYNC' };
    const other = await startTestService(engine, ports);
    const ann = await other.makeAccount();
    const client = await ImapLines.connect(other.addresses.imap?.port ?? 0);
    const [before = ''] = await client.ok('CAPABILITY');
    assert.match(before, /^\* CAPABILITY IMAP4rev1 LITERAL- /);
    await client.ok(`LOGIN ${ann.address} "${ann.password}"`);
    assert.match((await client.ok('CAPABILITY')).join(), / CONDSTORE (?!QRESYNC)/);
    const enabled = await client.ok('ENABLE IMAP4rev2 QRESYNC CONDSTORE');
    assert.deepEqual(enabled, ['* ENABLED CONDSTORE']);
    client.close();
    const wrong = { ...ports, IMAP_DISABLE: 'IMAP4rev1' };
    await assert.rejects(startTestService(engine, wrong), /IMAP_DISABLE: .*IMAP4REV1/);
  });

  test('UTF8=ACCEPT takes messages with headers in UTF-8, one after another', async () => {
    const ann = await accountWithMail([]);
    const client = await open(ann);
    assert.deepEqual(await client.ok('ENABLE UTF8=ACCEPT'), ['* ENABLED UTF8=ACCEPT']);
    const message = Buffer.from('Subject: Grüße\r\n\r\nHi\r\n').toString('latin1');
    const one = `UTF8 (~{${message.length}+}\r\n${message})`;
    const stored = await client.command(`APPEND INBOX (\\Seen) ${one} (\\Draft) ${one}`);
    assert.match(stored.at(-1) ?? '', /^OK \[APPENDUID \d+ 1:2\]/);
    await client.ok('SELECT INBOX');
    assert.deepEqual(await client.ok('SEARCH SUBJECT Gr\xc3\xbc\xc3\x9f'), ['* SEARCH 1 2']);
    // What is not closed is an error, and the next command is one again.
    const open8 = `UTF8 (~{${message.length}+}\r\n${message}`;
    assert.match((await client.command(`APPEND INBOX ${open8}`)).join(), /^BAD /);
    assert.match((await client.command(`APPEND INBOX ${open8} ${one}`)).join(), /^BAD /);
    assert.match((await client.command(`APPEND Nowhere ${one}`)).join(), /^NO \[TRYCREATE\]/);
    assert.deepEqual(await client.ok('SEARCH ALL'), ['* SEARCH 1 2']);
    client.close();
  });

  test('a program that enables IMAP4rev2 unasked works with names in UTF-8', async () => {
    const ann = await accountWithMail(['one', 'two', 'three']);
    const client = flow(ann);
    await client.connect();
    assert.ok(client.enabled.has('IMAP4REV2'), [...client.enabled].join());
    await client.mailboxCreate(['Büro & "Co"', '日本']);
    const lock = await client.getMailboxLock('INBOX');
    assert.deepEqual(await client.search({ subject: 't' }), [2, 3]);
    assert.deepEqual(await client.search({ subject: 'none' }), []);
    assert.ok(await client.messageMove('2:3', 'Büro & "Co"/日本'));
    lock.release();
    const status = await client.status('Büro & "Co"/日本', { messages: true, unseen: true });
    assert.deepEqual(status && [status.messages, status.unseen], [2, 2]);
    const names = (await client.list()).map(({ path }) => path);
    assert.ok(names.includes('Büro & "Co"/日本'), names.join());
    await client.mailboxRename('Büro & "Co"/日本', 'Été');
    assert.equal((await client.mailboxOpen('Été')).exists, 2);
    await client.logout();
    assert.equal((await service.look(ann)).get('Été')?.size, 2);
  });

  test('parts are fetched without their encoding, and what has NUL is stored as text', async () => {
    const ann = await accountWithMail([]);
    const client = await open(ann);
    const png = Buffer.from([0x89, 0x50, 0, 10, 65, 13, 10]);
    const part = (encoding: string, body: string) =>
      `--b\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${body}\r\n`;
    const head = 'Subject: s\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n';
    const encoded = png.toString('base64');
    const source = `${head}${part('base64', encoded)}${part('x-other', 'AA')}--b--\r\n`;
    await client.ok(`APPEND INBOX {${source.length}+}\r\n${source}`);
    const binary = `${head}${part('binary', png.toString('latin1'))}--b--\r\n`;
    await client.ok(`APPEND INBOX ~{${binary.length}+}\r\n${binary}`);
    await client.ok('SELECT INBOX');
    assert.deepEqual(await client.ok('FETCH 1:2 (BINARY.SIZE[1] BINARY.SIZE[])'), [
      `* 1 FETCH (BINARY.SIZE[1] 7 BINARY.SIZE[] ${source.length})`,
      `* 2 FETCH (BINARY.SIZE[1] 7 BINARY.SIZE[] ${binary.length + encoded.length - 7})`,
    ]);
    const decoded = (await client.ok('FETCH 1:2 BINARY.PEEK[1]')).join('\n');
    const content = png.toString('latin1').replace('\r\n', '\n');
    assert.equal(
      decoded,
      `* 1 FETCH (BINARY[1] ~{7}\n${content})\n* 2 FETCH (BINARY[1] ~{7}\n${content})`,
    );
    assert.deepEqual(await client.ok('FETCH 1 (BINARY[1]<1.1> FLAGS BINARY[9])'), [
      '* 1 FETCH (BINARY[1]<1> ~{1}',
      'P FLAGS (\\Seen \\Recent) BINARY[9] NIL)',
    ]);
    assert.deepEqual(await client.ok(`FETCH 1 BINARY.PEEK[]<${source.length - 6}.9>`), [
      `* 1 FETCH (BINARY[]<${source.length - 6}> ~{6}`,
      '-b--',
      ')',
    ]);
    // The others are told all the same.
    const some = await client.command('FETCH 1:2 BINARY.SIZE[2]');
    assert.deepEqual(some[0], '* 2 FETCH (BINARY.SIZE[2] 0)');
    assert.match(some.at(-1) ?? '', /^NO \[UNKNOWN-CTE\]/);
    for (const bad of ['BINARY[1.TEXT]', 'BINARY[HEADER]', 'BINARY.SIZE[1]<0.1>', 'BINARY']) {
      assert.match((await client.command(`FETCH 1 ${bad}`)).join(), /^BAD /, bad);
    }
    client.close();
    const program = flow(ann);
    await program.connect();
    await program.mailboxOpen('INBOX');
    const { content: image } = await program.download('2', '1');
    assert.deepEqual(Buffer.concat((await image?.toArray()) ?? []), png);
    const [fetched] = await program.fetchAll('1', { bodyParts: ['1'] }, { binary: true });
    assert.deepEqual(fetched?.bodyParts?.get('1'), png);
    const [stored] = await program.fetchAll('2', { source: true });
    const encodedPart = `Content-Transfer-Encoding: base64\r\nContent-Type: image/png\r\n\r\n${encoded}\r\n`;
    assert.equal(stored?.source?.toString(), `${head}--b\r\n${encodedPart}--b--\r\n`);
    await program.logout();
  });

  test('what the extensions are to each other is as their RFCs say', async () => {
    const client = await open(await accountWithMail(['one', 'two', 'three', 'four']));
    await client.ok('SELECT INBOX');
    const vanished = 'UID FETCH 1:* FLAGS (CHANGEDSINCE 1 VANISHED)';
    assert.match((await client.command(vanished)).join(), /^BAD .*QRESYNC/);
    // A search may save the page that it tells, its ends too, or all where it counts them (RFC 9394 section 3.2).
    for (const [options, uids] of [
      ['PARTIAL 2:3', '2:3'],
      ['PARTIAL 2:3 MAX', '2:4'],
      ['PARTIAL 2:3 MIN', '1:3'],
      ['PARTIAL -1:-2 COUNT', '1:4'],
      ['MIN MAX', '1,4'],
    ] as const) {
      await client.ok(`UID SEARCH RETURN (SAVE ${options}) ALL`);
      const [told] = await client.ok('UID SEARCH RETURN (ALL) UID $');
      assert.match(told ?? '', new RegExp(` UID ALL ${uids}$`), options);
    }
    // What is not valid changes nothing, and what is refused leaves nothing (RFC 5182 section 2.1).
    assert.match((await client.command('SEARCH RETURN (SAVE) UID 0')).join(), /^BAD/);
    assert.deepEqual(await client.ok('FETCH $ UID'), ['* 1 FETCH (UID 1)', '* 4 FETCH (UID 4)']);
    const charset = 'SEARCH RETURN (SAVE) CHARSET KOI8-R ALL';
    assert.match((await client.command(charset)).join(), /^NO \[BADCHARSET/);
    assert.deepEqual(await client.ok('FETCH $ UID'), []);
    const [limit = ''] = await client.ok('STATUS Sent (APPENDLIMIT)');
    assert.match(limit, /^\* STATUS "Sent" \(APPENDLIMIT \d{5,}\)$/);
    // The MODSEQ of a page is that of its messages.
    await client.ok('ENABLE CONDSTORE');
    const [, modseq = ''] =
      /MODSEQ \((\d+)\)/.exec((await client.ok('FETCH 1 MODSEQ')).join()) ?? [];
    const [page = ''] = await client.ok('SEARCH RETURN (PARTIAL 1:1) MODSEQ 1');
    assert.match(page, new RegExp(` PARTIAL \\(1:1 1\\) MODSEQ ${modseq}$`));
    // Who reads a message changes its flags.
    const read = (await client.ok('FETCH 2 BODY[TEXT]')).join();
    assert.match(read, /FLAGS \(\\Seen \\Recent\) MODSEQ \(\d+\)\)$/);
    // Two parts from one octet on are not the same, nor are an item that marks a message as read and one that does not.
    const parts = (
      await client.ok('FETCH 3 (BODY[]<0.1> BODY.PEEK[]<0.1> BODY.PEEK[]<0.2>)')
    ).join();
    assert.match(parts, /<0> \{1\},(.) BODY\[\]<0> \{1\},\1 BODY\[\]<0> \{2\},\1. FLAGS \(\\Seen/);
    const [fields = ''] = await client.command('FETCH 2 BODY.PEEK[HEADER.FIELDS ("X(Y" to)]');
    assert.match(fields, /^\* 2 FETCH \(BODY\[HEADER\.FIELDS \("X\(Y" TO\)\] \{/);
    // A MODSEQ of 63 bits, or more, is one that is not reached yet: nothing changed since, and nothing is known of it.
    await client.ok('ENABLE QRESYNC');
    const [, valid = ''] = /UIDVALIDITY (\d+)/.exec((await client.ok('SELECT INBOX')).join()) ?? [];
    for (const far of ['9223372036854775807', '99999999999999999999']) {
      assert.deepEqual(await client.ok(`UID FETCH 1:* (UID) (CHANGEDSINCE ${far} VANISHED)`), []);
      const all = await client.ok(`SELECT INBOX (QRESYNC (${valid} ${far}))`);
      assert.equal(all.filter((line) => line.includes('FETCH')).length, 4);
    }
    client.close();
  });

  test('the quota is told, and who sets it', async () => {
    const ann = await accountWithMail(['one', 'two']);
    const client = await open(ann);
    // Without one there is no root.
    assert.deepEqual(await client.ok('GETQUOTAROOT INBOX'), ['* QUOTAROOT "INBOX"']);
    assert.match((await client.command('GETQUOTA account')).join(), /^NO \[NONEXISTENT\]/);
    const set = { id: ann.id, quota_bytes: 5_000 };
    const { status } = await service.v2('POST', '/v2/operator/accounts/quota', set);
    assert.equal(status, 200);
    const [, told = ''] = await client.ok('GETQUOTAROOT Nowhere');
    const [, used] = /^\* QUOTA "account" \(STORAGE (\d+) 5\)$/.exec(told) ?? [];
    const [size = ''] = await client.ok('STATUS INBOX (SIZE)');
    const octets = Number(/SIZE (\d+)/.exec(size)?.[1]);
    assert.equal(Number(used), Math.ceil(octets / 1024));
    assert.deepEqual(await client.ok('GETQUOTA account'), [told]);
    const program = flow(ann);
    await program.connect();
    const seen = await program.getQuota('INBOX');
    assert.deepEqual(seen && [seen.quotaRoot, seen.storage?.limit], ['account', 5 * 1024]);
    await program.logout();
    assert.match((await client.command('SETQUOTA account (STORAGE 9)')).join(), /^NO \[NOPERM\]/);
    await client.ok('SELECT INBOX');
    await client.ok('STORE 2 +FLAGS.SILENT (\\Deleted $XDeleted)');
    const second = await client.ok('FETCH 2 RFC822.SIZE');
    const [, deleted] = /RFC822.SIZE (\d+)/.exec(second.join()) ?? [];
    assert.deepEqual(await client.ok('STATUS INBOX (DELETED DELETED-STORAGE)'), [
      `* STATUS "INBOX" (DELETED 1 DELETED-STORAGE ${deleted})`,
    ]);
    await client.ok('STORE 2 -FLAGS.SILENT \\Deleted');
    assert.deepEqual(await client.ok('STATUS INBOX (DELETED DELETED-STORAGE)'), [
      '* STATUS "INBOX" (DELETED 0 DELETED-STORAGE 0)',
    ]);
    // Each account has its one mailbox for each use.
    const refused = await client.command('CREATE "Sent Items" (USE (\\Sent))');
    assert.match(refused.join(), /^NO \[USEATTR\]/);
    await client.ok('CREATE Plain (USE ())');
    assert.match((await client.command('CREATE Other (USE')).join(), /^BAD /);
    client.close();
  });
});
