/** A program that lets the server put messages in order: SORT and THREAD (RFC 5256, RFC 5957, RFC 5267). */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { freePort } from '../support/free-port.ts';
import { ImapLines } from '../support/imap-lines.ts';
import { startTestService, type TestService } from '../support/service.ts';

onEachEngine('IMAP SORT and THREAD', (engine) => {
  let service: TestService;
  let port: number;
  before(async () => {
    service = await startTestService(engine, { IMAP_PORT: String(await freePort()) });
    port = service.addresses.imap?.port ?? 0;
  });

  /** A session with messages, each of some lines of a header, in INBOX. */
  async function openWith(headers: readonly string[]): Promise<ImapLines> {
    const account = await service.makeAccount();
    const client = await ImapLines.connect(port);
    await client.ok(`LOGIN ${account.address} "${account.password}"`);
    for (const [index, header] of headers.entries()) {
      const source = `${header}\n\n${'x'.repeat(index)}`.replaceAll('\n', '\r\n');
      const date = `"0${1 + ((index * 2) % 5)}-Feb-2020 10:00:00 +0000"`;
      await client.ok(`APPEND INBOX ${date} {${Buffer.byteLength(source)}+}\r\n${source}`);
    }
    await client.ok('SELECT INBOX');
    return client;
  }

  test('messages are put in order by what was asked for, and by their numbers where it is equal', async () => {
    const client = await openWith([
      'From: "Zoe" <b@x.test>\nTo: team: z@x.test;\nSubject: Re: beta\nDate: Mon, 3 Feb 2020 01:00:00 +0100',
      'From: a@y.test\nTo: c@x.test\nSubject: [list] Alpha\nDate: Mon, 3 Feb 2020 02:00:00 +0300',
      'From: =?utf-8?q?=C3=84nn?= <C@x.test>\nSubject: BETA (fwd)',
      'Cc: b@x.test\nTo: d@x.test\nSubject: gamma\nDate: nonsense',
    ]);
    const orders: readonly (readonly [criteria: string, order: string])[] = [
      ['ARRIVAL', '1 4 2 3'],
      ['REVERSE ARRIVAL', '3 2 4 1'],
      // Dates by their instant; of 3 and 4 those of arrival count: the 5th and the 2nd.
      ['DATE', '4 2 1 3'],
      ['SUBJECT', '2 1 3 4'],
      ['SUBJECT REVERSE DATE', '2 3 1 4'],
      ['REVERSE SUBJECT', '4 1 3 2'],
      ['FROM', '4 2 1 3'],
      ['DISPLAYFROM', '4 2 3 1'],
      ['TO', '3 2 4 1'],
      ['DISPLAYTO', '3 2 4 1'],
      ['CC ARRIVAL', '1 2 3 4'],
    ];
    for (const [criteria, order] of orders) {
      const told = await client.ok(`SORT (${criteria}) UTF-8 ALL`);
      assert.deepEqual([criteria, told], [criteria, [`* SORT ${order}`]]);
    }
    assert.deepEqual(await client.ok('UID SORT (REVERSE SIZE) US-ASCII SUBJECT beta'), [
      '* SORT 1 3',
    ]);
    assert.deepEqual(await client.ok('SORT (SIZE) UTF-8 SUBJECT nothing'), ['* SORT']);
    client.close();
  });

  test('an order is told as a search with RETURN is, and may be saved', async () => {
    const client = await openWith(['Subject: c', 'Subject: a', 'Subject: b', 'Subject: d']);
    const told = async (returns: string) =>
      (await client.ok(`UID SORT RETURN (${returns}) (REVERSE SUBJECT) UTF-8 1:3`))
        .join()
        .replace(/^\* ESEARCH \(TAG "a\d+"\)/, '');
    assert.equal(await told(''), ' UID ALL 1,3,2');
    assert.equal(await told('MIN MAX COUNT'), ' UID MIN 1 MAX 2 COUNT 3');
    assert.equal(await told('PARTIAL 2:3'), ' UID PARTIAL (2:3 3,2)');
    assert.equal(await told('SAVE'), '');
    assert.deepEqual(await client.ok('UID SEARCH $'), ['* SEARCH 1 2 3']);
    // What is refused leaves nothing: the next command of a program that did not wait would change these.
    for (const asked of [
      'SORT RETURN (SAVE) (DATE) KOI8-R',
      'SEARCH RETURN (SAVE) CHARSET KOI8-R',
    ]) {
      await client.ok('SEARCH RETURN (SAVE) 1:3');
      assert.match((await client.command(`${asked} ALL`)).join(), /^NO \[BADCHARSET /);
      assert.deepEqual(await client.ok('UID SEARCH $'), ['* SEARCH']);
    }
    // A space at the end is no key.
    assert.deepEqual(await client.ok('UID SEARCH 2 ALL '), ['* SEARCH 2']);
    const [, withModseq = ''] = await client.ok('SORT (SUBJECT) UTF-8 MODSEQ 1');
    assert.match(withModseq, /^\* SORT 2 3 1 4 \(MODSEQ \d+\)$/);
    client.close();
  });

  test('who asks for what is not there is told so', async () => {
    const client = await openWith(['Subject: a']);
    const answer = async (command: string) => (await client.command(command)).at(-1) ?? '';
    assert.match(await answer('SORT (COLOR) UTF-8 ALL'), /^BAD The sort key is not known/);
    assert.match(await answer('SORT () UTF-8 ALL'), /^BAD /);
    assert.match(await answer('SORT (DATE) ALL'), /^NO \[BADCHARSET /);
    assert.match(await answer('SORT (DATE) KOI8-R ALL'), /^NO \[BADCHARSET /);
    assert.match(await answer('SORT RETURN (CONTEXT) (DATE) UTF-8 ALL'), /^BAD /);
    client.close();
  });

  test('messages come in threads, by what they answer or by their subjects', async () => {
    const client = await openWith([
      'Message-ID: <a@x.test>\nSubject: one\nDate: Mon, 3 Feb 2020 01:00:00 +0000',
      'Message-ID: <b@x.test>\nReferences: <a@x.test>\nSubject: other\nDate: Mon, 3 Feb 2020 03:00:00 +0000',
      'Message-ID: <c@x.test>\nIn-Reply-To: <a@x.test> <b@x.test>\nDate: Mon, 3 Feb 2020 02:00:00 +0000',
      'Subject: Re: ONE\nDate: Mon, 3 Feb 2020 04:00:00 +0000',
      'References: <nobody@x.test>\nDate: Mon, 3 Feb 2020 05:00:00 +0000',
    ]);
    assert.deepEqual(await client.ok('THREAD REFERENCES UTF-8 ALL'), ['* THREAD (1 (3)(2)(4))(5)']);
    assert.deepEqual(await client.ok('THREAD ORDEREDSUBJECT UTF-8 ALL'), [
      '* THREAD (1 4)(3 5)(2)',
    ]);
    await client.ok('STORE 1 +FLAGS (\\Deleted)');
    await client.ok('EXPUNGE');
    // Of the first message nothing is left but its answers, and 1 to 4 are UIDs 2 to 5.
    assert.deepEqual(await client.ok('THREAD REFERENCES UTF-8 ALL'), ['* THREAD ((2)(1))(3)(4)']);
    assert.deepEqual(await client.ok('UID THREAD REFERENCES UTF-8 UID 2:3'), ['* THREAD ((3)(2))']);
    assert.deepEqual(await client.ok('THREAD REFERENCES UTF-8 SUBJECT nothing'), ['* THREAD']);
    const answer = async (command: string) => (await client.command(command)).at(-1) ?? '';
    assert.match(await answer('THREAD REFS UTF-8 ALL'), /^BAD The algorithm is not known/);
    assert.match(await answer('THREAD REFERENCES X ALL'), /^NO \[BADCHARSET /);
    client.close();
  });
});
