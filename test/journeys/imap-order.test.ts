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
    const client = await ImapLines.open(port, account);
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

  test('a large mailbox, whose facts are kept, is found, put in order and fetched as a small one is', async () => {
    const dates = ['3 Feb 2020', '1 Jan 2003', 'nonsense', '4 Mar 2021', '29 Feb 2020'];
    const client = await openWith(
      dates.map((date, at) =>
        [
          `Message-ID: <${at}@x.test>\nReferences: <${(at * 3) % 5}@x.test>\nFrom: a${at}@x.test`,
          `Subject: ${at % 2 ? 'Re: ' : ''}number ${at >> 1}\nDate: ${date} 00:00:00 +0000`,
        ].join('\n'),
      ),
    );
    for (let count = dates.length; count < 1_280; count *= 2) {
      await client.ok(`COPY 1:${count} INBOX`);
      await client.ok('NOOP');
    }
    await client.ok('STORE 7,500:600,1030 +FLAGS (\\Deleted)');
    await client.ok('EXPUNGE');
    const items = '(UID INTERNALDATE RFC822.SIZE ENVELOPE BODYSTRUCTURE)';
    for (const asked of [
      items,
      '(UID RFC822.SIZE)',
      '(BODY.PEEK[]<0.30>)',
      '(FLAGS PREVIEW BODY)',
    ]) {
      const all = await client.ok(`FETCH 1:* ${asked}`);
      const pieces = ['1:400', '401:800', '801:*'].map((set) => `FETCH ${set} ${asked}`);
      const told: string[] = [];
      for (const piece of pieces) told.push(...(await client.ok(piece)));
      assert.deepEqual(all, told, asked);
    }
    // By UID: it is known which of the five a message is.
    const uids = Array.from({ length: 1_280 }, (_, at) => at + 1).filter(
      (uid) => uid !== 7 && uid !== 1_030 && (uid < 500 || uid > 600),
    );
    const [there] = await client.ok('UID SEARCH ALL');
    assert.equal(there, `* SEARCH ${uids.join(' ')}`);
    const kindOf = (uid: number) => (uid - 1) % 5;
    const found = async (key: string, kinds: readonly number[]) => {
      const expected = uids.filter((uid) => kinds.includes(kindOf(uid)));
      const told = `* SEARCH ${expected.join(' ')}`;
      assert.deepEqual(await client.ok(`UID SEARCH ${key}`), [told], key);
    };
    await found('SUBJECT "number 1"', [2, 3]);
    await found('SUBJECT "number 1" NOT FROM a2', [3]);
    await found('OR FROM a0 SUBJECT "RE: NUMBER 1"', [0, 3]);
    assert.deepEqual(await client.ok('UID SEARCH NOT SUBJECT number'), ['* SEARCH']);
    await found('LARGER 0 SENTSINCE 1-Jan-2021', [3]);
    await found('SINCE 3-Feb-2020 BEFORE 4-Feb-2020', [1]);
    const [arrived] = await client.ok('UID SORT (ARRIVAL) UTF-8 ALL');
    const arrivals = [1, 3, 5, 2, 4];
    const byArrival = uids.toSorted(
      (a, b) => (arrivals[kindOf(a)] ?? 0) - (arrivals[kindOf(b)] ?? 0) || a - b,
    );
    assert.equal(arrived, `* SORT ${byArrival.join(' ')}`);
    // The third has no date: it came on the 5th of February.
    const sent = [2, 1, 3, 5, 4];
    const bySent = uids.toSorted(
      (a, b) => (sent[kindOf(b)] ?? 0) - (sent[kindOf(a)] ?? 0) || a - b,
    );
    for (const _ of ['made', 'kept']) {
      const [told] = await client.ok('UID SORT (REVERSE DATE) UTF-8 ALL');
      assert.equal(told, `* SORT ${bySent.join(' ')}`);
    }
    const [both] = await client.ok('UID SORT (REVERSE FROM REVERSE SIZE) UTF-8 DELETED 1:600');
    assert.equal(both, '* SORT');
    const threads = await client.ok('UID THREAD REFERENCES UTF-8 ALL');
    assert.deepEqual(await client.ok('UID THREAD REFERENCES UTF-8 ALL'), threads);
    const numbers = threads[0]?.match(/\d+/g)?.map(Number) ?? [];
    assert.deepEqual(
      numbers.toSorted((a, b) => a - b),
      uids,
    );
    client.close();
  });
});
