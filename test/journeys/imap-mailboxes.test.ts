/** Programs that change mailboxes, and messages, which others change in the same moment. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { freePort } from '../support/free-port.ts';
import { ImapLines } from '../support/imap-lines.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';

onEachEngine('IMAP: mailboxes that are open', (engine) => {
  let service: TestService;
  let port: number;
  before(async () => {
    service = await startTestService(engine, { IMAP_PORT: String(await freePort()) });
    port = service.addresses.imap?.port ?? 0;
  });

  const open = (account: TestAccount) => ImapLines.open(port, account);

  test('who deletes the selected mailbox has none selected, and goes on', async () => {
    const ann = await service.makeAccount();
    const client = await open(ann);
    for (const closed of [[], ['* OK [CLOSED] Closed']]) {
      await client.ok('CREATE Work');
      await client.ok('SELECT Work');
      if (closed.length > 0) await client.ok('ENABLE CONDSTORE');
      assert.deepEqual(await client.ok('DELETE Work'), closed);
      assert.match((await client.command('FETCH 1 UID')).join(), /^BAD Not while/);
    }
    await client.ok('SELECT INBOX');
    await client.ok('CREATE Work');
    assert.deepEqual(await client.ok('DELETE Work'), []);
    await client.ok('UNSELECT');
    client.close();
  });

  test('who renames the selected mailbox, or one above it, has it selected under its new name', async () => {
    const ann = await service.makeAccount();
    const client = await open(ann);
    const append = (name: string) => client.command(`APPEND ${name} {14+}\r\nSubject: a\r\n\r\n`);
    await client.ok('CREATE Work');
    await client.ok('CREATE Work/Plans');
    await client.ok('SELECT Work/Plans');
    await client.ok('RENAME Work/Plans Work/Ideas');
    assert.match((await append('Work/Ideas')).join('\n'), /^\* 1 EXISTS\n\* 1 RECENT\nOK /);
    await client.ok('RENAME Work Job');
    assert.deepEqual(await client.ok('NOOP'), []);
    await service.mail(ann.token, 'POST', '/mail/flags', {
      mailbox: 'Job/Ideas',
      uids: [1],
      add: ['\\Seen'],
    });
    assert.deepEqual(await client.ok('NOOP'), ['* 1 FETCH (UID 1 FLAGS (\\Seen \\Recent))']);
    client.close();
  });

  test('a name that others are below is renamed with these, and what is not subscribed stays so', async () => {
    const ann = await service.makeAccount();
    const client = await open(ann);
    await client.ok('CREATE Lists/Node/Core');
    await client.ok('CREATE lists/other');
    await client.ok('SUBSCRIBE lists/other');
    await client.ok('SELECT Lists/Node/Core');
    await client.ok('RENAME Lists Archive/Lists');
    // It is selected under its new name.
    await client.command('APPEND Archive/Lists/Node/Core {14+}\r\nSubject: a\r\n\r\n');
    assert.deepEqual(await client.ok('FETCH 1 UID'), ['* 1 FETCH (UID 1)']);
    assert.deepEqual(await client.ok('LIST "" (Lists* lists* Archive*) RETURN (SUBSCRIBED)'), [
      '* LIST (\\HasChildren \\Archive \\Subscribed) "/" "Archive"',
      '* LIST (\\HasChildren \\Noselect) "/" "Archive/Lists"',
      '* LIST (\\HasChildren \\Noselect) "/" "Archive/Lists/Node"',
      '* LIST (\\HasNoChildren) "/" "Archive/Lists/Node/Core"',
      '* LIST (\\HasChildren \\Noselect) "/" "lists"',
      '* LIST (\\HasNoChildren \\Subscribed) "/" "lists/other"',
    ]);
    // An app has none of that name.
    const renamed = { mailbox: 'lists', to: 'Other' };
    const refused = await service.mail(ann.token, 'POST', '/mail/mailboxes/rename', renamed);
    assert.equal(refused.status, 404);
    assert.match((await client.command('RENAME None Other')).join(), /^NO \[NONEXISTENT\]/);
    client.close();
  });

  test('the separator is told whatever the reference', async () => {
    const ann = await service.makeAccount();
    const client = await open(ann);
    for (const command of ['LIST', 'LSUB']) {
      for (const reference of ['""', 'INBOX', 'None/']) {
        const told = await client.ok(`${command} ${reference} ""`);
        assert.deepEqual(told, [`* ${command} (\\Noselect) "/" ""`]);
      }
    }
    client.close();
  });

  test('what is refused is named as mail programs name it, and not as the HTTP API does', async () => {
    const ann = await service.makeAccount();
    const client = await open(ann);
    await client.ok('SELECT INBOX');
    await client.command('APPEND INBOX {14+}\r\nSubject: a\r\n\r\n');
    const FLAGS = /^NO \[CANNOT\] flags must be system flags/;
    for (const sign of ['', '+', '-']) {
      const [answer] = await client.command(`STORE 1 ${sign}FLAGS (${'k'.repeat(65)})`);
      assert.match(answer ?? '', FLAGS);
    }
    await client.ok('CREATE Work');
    const [renamed] = await client.command('RENAME Work Work/Plans');
    assert.match(renamed ?? '', /^NO \[CANNOT\] the new name must not be below the mailbox/);
    client.close();
  });

  test('flags that a silent STORE set on some of its messages alone are told', async () => {
    const ann = await service.makeAccount();
    const client = await open(ann);
    for (const _ of [1, 2]) await client.command('APPEND INBOX {14+}\r\nSubject: a\r\n\r\n');
    await client.ok('SELECT INBOX');
    await service.mail(ann.token, 'POST', '/mail/delete', { mailbox: 'INBOX', uids: [1] });
    const stored = await client.command('STORE 1:2 +FLAGS.SILENT (\\Flagged)');
    assert.match(stored.join(), /^NO \[EXPUNGEISSUED\]/);
    assert.deepEqual(await client.ok('NOOP'), [
      '* 2 FETCH (UID 2 FLAGS (\\Flagged \\Recent))',
      '* 1 EXPUNGE',
    ]);
    client.close();
  });

  test('a silent STORE tells the flags of a message that others changed before, and of no other', async () => {
    const ann = await service.makeAccount();
    const client = await open(ann);
    for (const _ of [1, 2]) await client.command('APPEND INBOX {14+}\r\nSubject: a\r\n\r\n');
    await client.ok('SELECT INBOX');
    const flag = (add: string[]) =>
      service.mail(ann.token, 'POST', '/mail/flags', { mailbox: 'INBOX', uids: [1], add });
    await flag(['\\Flagged']);
    assert.deepEqual(await client.ok('STORE 1:2 +FLAGS.SILENT (\\Seen)'), [
      '* 1 FETCH (FLAGS (\\Flagged \\Seen \\Recent))',
    ]);
    assert.deepEqual(await client.ok('STORE 1:2 -FLAGS.SILENT (\\Seen)'), []);
    await flag(['\\Answered']);
    // Nothing is changed by it, and what others changed is told all the same.
    assert.deepEqual(await client.ok('UID STORE 1 +FLAGS.SILENT (\\Flagged)'), [
      '* 1 FETCH (UID 1 FLAGS (\\Answered \\Flagged \\Recent))',
    ]);
    await flag(['\\Deleted']);
    assert.deepEqual(await client.ok('STORE 1 FLAGS.SILENT (\\Seen)'), []);
    assert.deepEqual(await client.ok('NOOP'), []);
    client.close();
  });

  test('a name with NUL is refused, and is no failure of the server', async () => {
    const client = await open(await service.makeAccount());
    for (const command of ['SELECT', 'SUBSCRIBE', 'UNSUBSCRIBE', 'CREATE', 'DELETE']) {
      assert.match((await client.command(`${command} {3+}\r\na\0b`)).join(), /^BAD A string/);
      assert.match((await client.command(`${command} a&AAA-`)).join(), /^(?!NO \[SERVERBUG])/);
    }
    assert.match((await client.command('STATUS &AAA- (UIDNEXT)')).join(), /^NO \[NONEXISTENT\]/);
    client.close();
  });

  test('INBOX has one name in any case, also as the first level of others', async () => {
    const ann = await service.makeAccount();
    const client = await open(ann);
    await client.ok('CREATE Inbox/Work');
    assert.match((await client.ok('SELECT inbox/Work')).join('\n'), / 0 EXISTS/);
    assert.match((await client.ok('STATUS inbox/Work (UIDNEXT)')).join(), /"INBOX\/Work"/);
    await client.ok('RENAME inbox/Work iNbox/Job');
    await client.ok('SUBSCRIBE inBox/Job');
    await client.ok('APPEND inbox/Job {14+}\r\nSubject: a\r\n\r\n');
    assert.deepEqual(await client.ok('UID SEARCH ALL'), ['* SEARCH 1']);
    assert.deepEqual(await client.ok('LIST (SUBSCRIBED) "" INBOX/*'), [
      '* LIST (\\HasNoChildren \\Subscribed) "/" "INBOX/Job"',
    ]);
    const mailbox = 'inbox/Job';
    const post = (path: string, body: object) => service.mail(ann.token, 'POST', path, body);
    const moved = await post('/mail/move', { mailbox, uids: [1], to: 'INBOX/Job' });
    assert.equal(moved.body.detail, 'to must be another mailbox');
    const answer = { to: [{ address: ann.address }], text: 'a', inReplyTo: { mailbox, uid: 1 } };
    assert.equal((await post('/mail/send', answer)).status, 202);
    await client.ok('UNSUBSCRIBE inbox/Job');
    await client.ok('DELETE inbox/Job');
    assert.deepEqual(await client.ok('LIST "" INBOX/*'), []);
    assert.match((await client.command('CREATE iNbOx')).join(), /^NO \[ALREADYEXISTS\]/);
    client.close();
  });

  test('a command on a mailbox that another program deleted, and made anew, ends the session', async () => {
    const ann = await service.makeAccount();
    const other = await open(ann);
    for (const command of ['STORE 1 +FLAGS (\\Seen)', 'FETCH 1 BODY[]', 'COPY 1 INBOX']) {
      await other.ok('CREATE Work');
      await other.ok('APPEND Work {14+}\r\nSubject: a\r\n\r\n');
      const client = await open(ann);
      await client.ok('SELECT Work');
      await other.ok('DELETE Work');
      await other.ok('CREATE Work');
      await other.ok('APPEND Work {14+}\r\nSubject: b\r\n\r\n');
      const answer = (await client.command(`UID ${command}`)).join('\n');
      assert.equal(answer, '* BYE The mailbox was deleted, renamed or restored: connect again\n');
      await other.ok('DELETE Work');
    }
    other.close();
  });

  test('whose mailbox another program renamed is told that its command was carried out, then BYE', async () => {
    const ann = await service.makeAccount();
    const [client, other] = [await open(ann), await open(ann)];
    await client.ok('CREATE Work');
    await client.ok('SELECT Work');
    await other.ok('RENAME Work Job');
    const append = 'APPEND INBOX {14+}\r\nSubject: a\r\n\r\n';
    assert.match((await client.command(append)).join('\n'), /^OK \[APPENDUID \d+ 1\]/);
    assert.match(await client.next(), /^\* BYE The mailbox was deleted, renamed or restored/);
    assert.equal(await client.next(), '');
    assert.deepEqual(await other.ok('STATUS INBOX (MESSAGES)'), ['* STATUS "INBOX" (MESSAGES 1)']);
    other.close();
  });
});
