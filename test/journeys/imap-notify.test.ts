/** NOTIFY (RFC 5465): a program is told of its mailboxes at any time, by one connection. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { freePort } from '../support/free-port.ts';
import { ImapLines } from '../support/imap-lines.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';

const MESSAGES = '(MessageNew MessageExpunge)';
const ALL = '(MessageNew MessageExpunge FlagChange)';

onEachEngine('IMAP with NOTIFY', (engine) => {
  let service: TestService;
  let port: number;
  before(async () => {
    service = await startTestService(engine, { IMAP_PORT: String(await freePort()) });
    port = service.addresses.imap?.port ?? 0;
  });

  const open = (account: TestAccount) => ImapLines.open(port, account);

  async function append(client: ImapLines, mailbox: string, subject = 's'): Promise<void> {
    const text = `Subject: ${subject}\r\n\r\nHi\r\n`;
    await client.ok(`APPEND ${mailbox} {${text.length}+}\r\n${text}`);
  }

  /** Two programs of one account, of which the first one asks to be told. */
  async function pair(): Promise<[ann: ImapLines, other: ImapLines, account: TestAccount]> {
    const account = await service.makeAccount();
    return [await open(account), await open(account), account];
  }

  test('the state of mailboxes is told at once where it is asked for', async () => {
    const [ann, other] = await pair();
    await append(other, 'Archive');
    const [, state] = /\((.*)\)/.exec((await ann.ok('STATUS Archive (UIDNEXT)')).join()) ?? [];
    const [, validity] =
      /(UIDVALIDITY \d+)/.exec((await ann.ok('STATUS Archive (UIDVALIDITY)')).join()) ?? [];
    assert.deepEqual(await ann.ok(`NOTIFY SET STATUS (mailboxes Archive ${MESSAGES})`), [
      `* STATUS "Archive" (MESSAGES 1 ${state} ${validity})`,
    ]);
    assert.match(
      (await ann.ok(`notify set status (subtree (Archive Nowhere) ${ALL})`)).join('\n'),
      /^\* STATUS "Archive" \(MESSAGES 1 UIDNEXT 2 UIDVALIDITY \d+ HIGHESTMODSEQ \d+\)$/,
    );
    const alone: [event: string, told: RegExp][] = [
      ['MessageNew', /\(MESSAGES 1 UIDNEXT 2 UIDVALIDITY \d+\)$/],
      ['MessageExpunge', /\(MESSAGES 1\)$/],
      ['FlagChange', /\(UIDVALIDITY \d+ HIGHESTMODSEQ \d+\)$/],
    ];
    for (const [event, told] of alone) {
      const [line = '', ...more] = await ann.ok(`NOTIFY SET STATUS (mailboxes Archive (${event}))`);
      assert.match(line, told);
      assert.deepEqual(more, []);
    }
    assert.deepEqual(await ann.ok(`NOTIFY SET (mailboxes (Archive Nowhere) ${ALL})`), []);
    // Of the selected mailbox the program has the state.
    await ann.ok('SELECT Archive');
    const told = await ann.ok(`NOTIFY SET STATUS (personal ${MESSAGES})`);
    assert.deepEqual(told.map((line) => /"(.*)"/.exec(line)?.[1]).toSorted(), [
      ...['Drafts', 'INBOX', 'Junk', 'Sent', 'Trash'],
    ]);
    ann.close();
    other.close();
  });

  test('one event alone is told of a mailbox that is not selected', async () => {
    const [ann, other] = await pair();
    await ann.ok('NOTIFY SET (mailboxes INBOX (FlagChange)) (mailboxes Archive (MessageExpunge))');
    await append(other, 'Archive');
    assert.match(await ann.next(), /^\* STATUS "Archive" \(MESSAGES 1 /);
    await append(other, 'INBOX');
    assert.match(await ann.next(), /^\* STATUS "INBOX" \(MESSAGES 1 .* UNSEEN 1\)/);
    await other.ok('SELECT INBOX');
    await other.ok('STORE 1 +FLAGS (\\Seen)');
    assert.match(await ann.next(), /^\* STATUS "INBOX" \(MESSAGES 1 .* UNSEEN 0\)/);
    await other.ok('SELECT Archive');
    await other.ok('STORE 1 +FLAGS (\\Seen \\Deleted)');
    await other.ok('EXPUNGE');
    // Not told: the new flags.
    assert.match(await ann.next(), /^\* STATUS "Archive" \(MESSAGES 0 /);
    ann.close();
    other.close();
  });

  test('new mail, removals and flags elsewhere are told without a command, and in IDLE', async () => {
    const [ann, other, account] = await pair();
    await ann.ok(`NOTIFY SET (mailboxes INBOX ${ALL}) (mailboxes Archive ${MESSAGES})`);
    await service.send({ from: 'b@b.test', to: account.address, subject: 's', text: 't' });
    const status = (messages: number, next: number, more: string) =>
      new RegExp(
        `^\\* STATUS "INBOX" \\(MESSAGES ${messages} UIDNEXT ${next} UIDVALIDITY \\d+ ${more}\\)$`,
      );
    assert.match(await ann.next(), status(1, 2, 'UNSEEN 1'));
    await other.ok('SELECT INBOX');
    await other.ok('STORE 1 +FLAGS (\\Seen)');
    assert.match(await ann.next(), status(1, 2, 'UNSEEN 0'));
    // Not told: the program has no MODSEQ, and how many are unread is the same.
    await other.ok('STORE 1 +FLAGS (\\Flagged)');
    // Not told: nobody asked for flags there.
    await append(other, 'Archive');
    assert.match(await ann.next(), /^\* STATUS "Archive" \(MESSAGES 1 UIDNEXT 2 UIDVALIDITY \d+\)/);
    await ann.ok('ENABLE QRESYNC');
    ann.send('i IDLE\r\n');
    assert.match(await ann.next(), /^\+ /);
    await other.ok('STORE 1 -FLAGS (\\Flagged)');
    assert.match(await ann.next(), status(1, 2, 'UNSEEN 0 HIGHESTMODSEQ \\d+'));
    await other.ok('STORE 1 +FLAGS (\\Deleted)');
    assert.match(await ann.next(), status(1, 2, 'UNSEEN 0 HIGHESTMODSEQ \\d+'));
    await other.ok('EXPUNGE');
    assert.match(await ann.next(), status(0, 2, 'UNSEEN 0 HIGHESTMODSEQ \\d+'));
    ann.send('DONE\r\n');
    assert.match(await ann.next(), /^i OK /);
    await ann.ok('NOTIFY NONE');
    await append(other, 'INBOX');
    assert.deepEqual(await ann.ok('NOOP'), []);
    ann.close();
    other.close();
  });

  test('the selected mailbox is told at once, with what is wanted of new messages', async () => {
    const [ann, other] = await pair();
    await append(other, 'INBOX', 'one');
    await append(other, 'INBOX', 'two');
    await ann.ok('SELECT INBOX');
    await append(other, 'INBOX', 'three');
    // What came until now is told by the command.
    const told = await ann.ok(
      'NOTIFY SET (selected (MessageNew (FLAGS RFC822.SIZE) MessageExpunge FlagChange))',
    );
    assert.deepEqual(told, [
      '* 3 EXISTS',
      '* 3 RECENT',
      '* 3 FETCH (UID 3 FLAGS (\\Recent) RFC822.SIZE 22)',
    ]);
    const items = 'BODY.PEEK[HEADER.FIELDS (SUBJECT)]';
    await ann.ok(`NOTIFY SET (selected (MessageNew (${items}) MessageExpunge FlagChange))`);
    await append(other, 'INBOX', 'four');
    assert.equal(await ann.next(), '* 4 EXISTS');
    assert.equal(await ann.next(), '* 4 RECENT');
    assert.match(await ann.next(), /^\* 4 FETCH \(UID 4 BODY\[HEADER.FIELDS \(SUBJECT\)\] \{17\}/);
    assert.equal(await ann.next(), 'Subject: four');
    assert.equal(await ann.next(), '');
    assert.equal(await ann.next(), ')');
    // Its own message has nothing new for it.
    assert.deepEqual(await appendLines(ann), ['* 5 EXISTS', '* 5 RECENT']);
    await other.ok('SELECT INBOX');
    await other.ok('STORE 2 +FLAGS (\\Deleted)');
    assert.equal(await ann.next(), '* 2 FETCH (UID 2 FLAGS (\\Deleted \\Recent))');
    await other.ok('EXPUNGE');
    assert.equal(await ann.next(), '* 2 EXPUNGE');
    ann.close();
    other.close();
  });

  async function appendLines(client: ImapLines): Promise<string[]> {
    const text = 'Subject: own\r\n\r\nHi\r\n';
    return client.ok(`APPEND INBOX {${text.length}+}\r\n${text}`);
  }

  test('removals wait for a command where sequence numbers shall stay', async () => {
    const [ann, other] = await pair();
    for (const subject of ['one', 'two']) await append(other, 'INBOX', subject);
    await ann.ok('ENABLE IMAP4rev2 CONDSTORE');
    await ann.ok('SELECT INBOX');
    await ann.ok(`NOTIFY SET (selected-delayed ${ALL})`);
    await other.ok('SELECT INBOX');
    await other.ok('STORE 1 +FLAGS (\\Deleted)');
    assert.match(await ann.next(), /^\* 1 FETCH \(UID 1 FLAGS \(\\Deleted\) MODSEQ \(\d+\)\)$/);
    await other.ok('EXPUNGE');
    await append(other, 'INBOX', 'three');
    assert.equal(await ann.next(), '* 3 EXISTS');
    assert.deepEqual(await ann.ok('FETCH 2 UID'), ['* 2 FETCH (UID 2)']);
    assert.deepEqual(await ann.ok('NOOP'), ['* 1 EXPUNGE']);
    ann.close();
    other.close();
  });

  test('who wants nothing of the selected mailbox gets all of it when he asks again', async () => {
    const [ann, other] = await pair();
    await append(other, 'INBOX', 'one');
    await ann.ok('ENABLE IMAP4rev2 QRESYNC');
    const selected = await ann.ok('SELECT INBOX');
    const [, modseq = ''] = /HIGHESTMODSEQ (\d+)/.exec(selected.join()) ?? [];
    await ann.ok(`NOTIFY SET (selected ${MESSAGES})`);
    await other.ok('SELECT INBOX');
    await other.ok('STORE 1 +FLAGS (\\Flagged)');
    await append(other, 'INBOX', 'two');
    assert.equal(await ann.next(), '* 2 EXISTS');
    // Flags were not told: a program that comes back must get them from there on.
    assert.match((await ann.command('EXPUNGE')).join(), new RegExp(`HIGHESTMODSEQ ${modseq}\\b`));
    await ann.ok('NOTIFY SET (selected NONE)');
    await other.ok('STORE 1 +FLAGS (\\Deleted)');
    await other.ok('EXPUNGE');
    assert.deepEqual(await ann.ok('NOOP'), []);
    await other.ok('STORE 1 +FLAGS (\\Seen)');
    assert.match((await ann.ok('UID STORE 2 +FLAGS (\\Draft)')).join(), /UID 2 FLAGS/);
    const told = await ann.ok(`NOTIFY SET (selected ${ALL})`);
    assert.match(told[0] ?? '', /^\* 2 FETCH \(UID 2 FLAGS \(\\Draft \\Seen\) MODSEQ/);
    assert.deepEqual(told.slice(1), ['* VANISHED 1']);
    ann.close();
    other.close();
  });

  test('mailboxes that are made, renamed, deleted and subscribed are told', async () => {
    const [ann, other, account] = await pair();
    await ann.ok('NOTIFY SET (subtree Work (MailboxName SubscriptionChange))');
    const make = async (name: string) => {
      const made = await service.mail(account.token, 'POST', '/mail/mailboxes/create', {
        mailbox: name,
      });
      assert.equal(made.status, 201, JSON.stringify(made.body));
    };
    await make('Elsewhere');
    await make('Work');
    assert.equal(await ann.next(), '* LIST (\\HasNoChildren \\Subscribed) "/" "Work"');
    await other.ok('UNSUBSCRIBE Work');
    assert.equal(await ann.next(), '* LIST (\\HasNoChildren) "/" "Work"');
    await other.ok('SUBSCRIBE Work');
    assert.equal(await ann.next(), '* LIST (\\HasNoChildren \\Subscribed) "/" "Work"');
    await make('Work/a');
    assert.equal(await ann.next(), '* LIST (\\HasNoChildren \\Subscribed) "/" "Work/a"');
    assert.equal(await ann.next(), '* LIST (\\HasChildren \\Subscribed) "/" "Work"');
    await other.ok('RENAME Work Job');
    assert.equal(
      await ann.next(),
      '* LIST (\\HasChildren \\Subscribed) "/" "Job" ("OLDNAME" ("Work"))',
    );
    await other.ok('RENAME Job Work');
    assert.match(await ann.next(), /^\* LIST \(.*\) "\/" "Work" \("OLDNAME" \("Job"\)\)$/);
    await other.ok('DELETE Work/a');
    assert.match(await ann.next(), /^\* LIST \(\\HasNoChildren \\NonExistent.*\) "\/" "Work\/a"$/);
    assert.match(await ann.next(), /^\* LIST \(\\HasNoChildren.*\) "\/" "Work"$/);
    // What the program does itself it knows.
    assert.deepEqual(await ann.ok('CREATE Work/b'), []);
    assert.deepEqual(await ann.ok('NOOP'), []);
    ann.close();
    other.close();
  });

  test('what the program itself writes elsewhere is not told, and what others write is', async () => {
    const [ann, other] = await pair();
    await append(other, 'INBOX');
    await append(other, 'INBOX');
    await ann.ok('SELECT INBOX');
    await ann.ok(`NOTIFY SET (selected ${ALL}) (subscribed ${MESSAGES})`);
    assert.deepEqual(await ann.ok('COPY 1 Archive'), []);
    await append(ann, 'Archive');
    assert.deepEqual(await ann.ok('NOOP'), []);
    await append(other, 'Archive');
    assert.match(await ann.next(), /^\* STATUS "Archive" \(MESSAGES 3 UIDNEXT 4 /);
    await ann.ok('STORE 1 +FLAGS.SILENT (\\Deleted)');
    await ann.ok('CLOSE');
    assert.deepEqual(await ann.ok('NOOP'), []);
    await append(other, 'INBOX');
    assert.match(await ann.next(), /^\* STATUS "INBOX" \(MESSAGES 2 UIDNEXT 4 /);
    ann.close();
    other.close();
  });

  test('what is not known, or too much, is refused, and what was set before stays', async () => {
    const [ann, other] = await pair();
    const refused: [command: string, answer: RegExp][] = [
      ['NOTIFY', /^BAD /],
      ['NOTIFY SET', /^BAD /],
      ['NOTIFY SET (inboxes MessageNew)', /^BAD /],
      [`NOTIFY SET (selected ${ALL}) (selected-delayed ${ALL})`, /^BAD /],
      ['NOTIFY SET (selected (MailboxName))', /^BAD /],
      ['NOTIFY SET (selected (MessageNew))', /^BAD /],
      ['NOTIFY SET (selected (FlagChange))', /^BAD /],
      ['NOTIFY SET (personal (MessageNew (UID) MessageExpunge))', /^BAD /],
      ['NOTIFY SET (everything (MailboxName))', /^BAD /],
      [
        'NOTIFY SET (personal (ServerMetadataChange X-New))',
        /^NO \[BADEVENT \(MessageNew MessageExpunge FlagChange MailboxName SubscriptionChange\)\] /,
      ],
      [
        `NOTIFY SET (mailboxes (${'abcdefghijklmnopqrstuvwxyz '.repeat(700)}x) ${MESSAGES})`,
        /^NO \[NOTIFICATIONOVERFLOW\] /,
      ],
    ];
    await ann.ok(`NOTIFY SET (mailboxes Archive ${MESSAGES})`);
    for (const [command, answer] of refused) {
      const lines = await ann.command(command);
      assert.equal(lines.length, 1, command);
      assert.match(lines[0] ?? '', answer, command);
    }
    await append(other, 'Archive');
    assert.match(await ann.next(), /^\* STATUS "Archive" /);
    ann.close();
    other.close();
  });
});
