/** What happens to a message by Rspamd's answer, or without one. Rspamd is a server that answers what the test says. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { atEnd } from '../../../test/support/at-end.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { SpamFilter, type SpamFilterOptions } from './spam-filter.ts';

type Answer = (response: ServerResponse) => void;

interface Asked {
  readonly headers: IncomingMessage['headersDistinct'];
  readonly url: string | undefined;
  readonly body: string;
}

const saying = (answer: unknown) => (response: ServerResponse) =>
  void response.end(typeof answer === 'string' ? answer : JSON.stringify(answer));

const clean = saying({ action: 'no action', score: 0.5, required_score: 15 });

async function startRspamd(first: Answer = clean) {
  let answer = first;
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    request.on('end', () => {
      asked.push({ headers: request.headersDistinct, url: request.url, body });
      answer(response);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  atEnd(async () => {
    server.close();
    server.closeAllConnections();
  });
  const answers = (next: Answer) => {
    answer = next;
  };
  return { url: `http://127.0.0.1:${port}`, asked, answers };
}

const MESSAGE = 'Subject: x\r\n\r\nHello\r\n';

function mailOf(remoteAddress = '192.0.2.1', text = MESSAGE) {
  const arrival = { heloName: 'a b\r\nX: y', remoteAddress };
  return {
    envelope: { id: 'id-1', from: 'bób@a.test', to: ['x@b.test', 'y@b.test'], arrival },
    octets: text.length,
    async *source() {
      yield Buffer.from(text.slice(0, 5));
      yield Buffer.from(text.slice(5));
    },
  };
}

function open(url: string, more: Partial<SpamFilterOptions> = {}) {
  const outcomes: string[] = [];
  const outages: [boolean, string][] = [];
  const filter = new SpamFilter({
    url,
    hostname: 'mx.test',
    isTrusted: (address) => address === '10.0.0.1',
    onChecked: (outcome) => outcomes.push(outcome),
    onOutage: (isOut, reason) => outages.push([isOut, reason]),
    ...more,
  });
  atEnd(() => filter.close());
  return { filter, outcomes, outages };
}

suite('the spam filter', () => {
  test('gets the message and what is known about its sender', async () => {
    const rspamd = await startRspamd();
    const { filter } = open(rspamd.url);
    assert.deepEqual(await filter.check(mailOf()), { action: 'accept', score: 0.5, required: 15 });
    const [asked] = rspamd.asked;
    assert.equal(asked?.url, '/checkv2');
    assert.equal(asked?.body, MESSAGE);
    const { ip, helo, from, rcpt, hostname } = asked?.headers ?? {};
    assert.deepEqual([ip, helo, from], [['192.0.2.1'], ['a?b??X:?y'], ['<b?b@a.test>']]);
    assert.deepEqual(rcpt, ['x@b.test', 'y@b.test']);
    assert.equal(hostname, undefined, 'the client has no name');
    await filter.check({ ...mailOf(), clientName: 'mx.a.test\\010' });
    assert.deepEqual(rspamd.asked[1]?.headers.hostname, ['mx.a.test\\010']);
  });

  test('decides by its action', async () => {
    const rspamd = await startRspamd();
    const { filter, outcomes } = open(rspamd.url);
    const expected = {
      'no action': 'accept',
      'add header': 'junk',
      'rewrite subject': 'junk',
      quarantine: 'junk',
      discard: 'junk',
      greylist: 'defer',
      'soft reject': 'defer',
      reject: 'reject',
    };
    for (const [action, outcome] of Object.entries(expected)) {
      rspamd.answers(saying({ action, score: 1, required_score: 15 }));
      assert.equal((await filter.check(mailOf()))?.action, outcome, action);
    }
    assert.deepEqual(outcomes, Object.values(expected));
  });

  test('is not asked about trusted clients, nor about large messages', async () => {
    const rspamd = await startRspamd();
    const { filter, outcomes } = open(rspamd.url);
    assert.equal(await filter.check(mailOf('10.0.0.1')), undefined);
    assert.equal(await filter.check({ ...mailOf(), octets: 9 * 1024 * 1024 }), undefined);
    assert.deepEqual([outcomes, rspamd.asked.length], [['skipped', 'skipped'], 0]);
  });

  const nonsense: Record<string, Answer> = {
    'no JSON': saying('<html>'),
    nothing: saying(''),
    null: saying('null'),
    'a number': saying('1'),
    'deep nesting': saying('['.repeat(100_000)),
    'an action of its own': saying({ action: 'explode', score: 1, required_score: 15 }),
    'an action of all objects': saying({ action: 'constructor', score: 1, required_score: 15 }),
    'an action that is a list': saying({ action: ['reject'], score: 1, required_score: 15 }),
    'an endless score': saying('{"action":"reject","score":1e999,"required_score":15}'),
    'a score as text': saying({ action: 'reject', score: '20', required_score: 15 }),
    'an error': saying({ error: 'out of memory' }),
    'another status': (response) => void response.writeHead(500).end('{"action":"reject"}'),
    'a redirect': (response) => void response.writeHead(302, { location: '/other' }).end(),
    'a cut answer': (response) => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('{"action":');
      response.destroy();
    },
    'too much': saying(
      `{"action":"reject","score":20,"required_score":15,"x":"${'x'.repeat(2 ** 21)}"}`,
    ),
    'nothing at all': (response) => void response.destroy(),
  };
  for (const [what, answer] of Object.entries(nonsense)) {
    test(`that says ${what} is ignored`, async () => {
      const rspamd = await startRspamd(answer);
      const { filter, outcomes } = open(rspamd.url);
      assert.equal(await filter.check(mailOf()), undefined);
      assert.deepEqual(outcomes, ['failed']);
      rspamd.answers(clean);
      assert.equal(
        (await filter.check(mailOf()))?.action,
        'accept',
        'one failure is none of its own',
      );
    });
  }

  test('that is slow is not waited for', async () => {
    const rspamd = await startRspamd(() => {});
    const { filter, outcomes } = open(rspamd.url, { times: { answerMs: 50, restMs: 60_000 } });
    const checks = Array.from({ length: 40 }, () => filter.check(mailOf()));
    assert.ok((await Promise.all(checks)).every((verdict) => verdict === undefined));
    assert.ok(outcomes.every((outcome) => outcome === 'failed'));
  });

  test('has slots left where many clients of one network send what is slow to judge', async () => {
    const held: ServerResponse[] = [];
    const rspamd = await startRspamd((response) => {
      if (response.req.headers.ip === '192.0.2.1') clean(response);
      else held.push(response);
    });
    const { filter } = open(rspamd.url, { times: { answerMs: 60_000, restMs: 60_000 } });
    const slow = Array.from({ length: 40 }, (_, n) => filter.check(mailOf(`198.51.100.${n}`)));
    assert.equal((await filter.check(mailOf()))?.action, 'accept');
    while (held.length < 16) await turn();
    assert.equal(held.length, 16, 'none of theirs has ended yet');
    rspamd.answers(clean);
    for (const response of held) clean(response);
    for (const verdict of await Promise.all(slow)) assert.equal(verdict?.action, 'accept');
  });

  test('that is slow with some messages is not given up, and is asked about other mail', async () => {
    const rspamd = await startRspamd((response) => {
      const { url, headers } = response.req;
      if (url === '/ping') response.end('pong\r\n');
      else if (headers.ip !== '198.51.100.1') clean(response);
    });
    const { filter, outcomes, outages } = open(rspamd.url, {
      times: { answerMs: 2_000, restMs: 60_000 },
    });
    const slow = Array.from({ length: 20 }, () => filter.check(mailOf('198.51.100.1')));
    assert.equal((await filter.check(mailOf()))?.action, 'accept', 'another has slots left');
    const verdicts = await Promise.all(slow);
    assert.ok(
      verdicts.every((verdict) => verdict?.action === 'defer'),
      'none comes in unjudged',
    );
    assert.deepEqual(outages, []);
    assert.equal((await filter.check(mailOf()))?.action, 'accept', 'it is asked further');
    assert.deepEqual([...new Set(outcomes)].sort(), ['accept', 'defer']);
  });

  test('that is not there at the start is told before any mail, and once it is there', async () => {
    const { url, answers } = await startRspamd((response) => void response.writeHead(404).end());
    const told = Promise.withResolvers<string>();
    const { filter, outages } = open(url, {
      times: { answerMs: 5_000, restMs: 10 },
      onOutage(isOut, reason) {
        if (isOut) told.resolve(reason);
        outages.push([isOut, reason]);
      },
    });
    const looked = filter.look();
    assert.equal(await told.promise, 'it does not answer /ping');
    assert.equal(await filter.check(mailOf()), undefined, 'a message comes meanwhile');
    answers((response) => void response.end('pong\r\n'));
    await looked;
    assert.deepEqual(
      outages.map(([isOut]) => isOut),
      [true, false],
    );
    await filter.look();
    assert.equal(outages.length, 2);
  });

  test('that is dead is not asked for a while, is logged once, and is asked again later', async () => {
    const { filter, outcomes, outages } = open(`http://127.0.0.1:${await freePort()}`, {
      times: { answerMs: 5_000, restMs: 60_000 },
    });
    for (let n = 0; n < 7; n++) assert.equal(await filter.check(mailOf()), undefined);
    assert.deepEqual(outcomes, [...Array(5).fill('failed'), 'skipped', 'skipped']);
    assert.equal(outages.length, 1);
    assert.match(outages[0]?.[1] ?? '', /ECONNREFUSED/);

    const other = await startRspamd(saying('no'));
    const again = open(other.url, { times: { answerMs: 5_000, restMs: 0 } });
    for (let n = 0; n < 7; n++) await again.filter.check(mailOf());
    other.answers(clean);
    assert.equal((await again.filter.check(mailOf()))?.action, 'accept');
    assert.deepEqual(
      again.outages.map(([isOut]) => isOut),
      [true, false],
    );
  });
});
