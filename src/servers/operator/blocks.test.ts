/** Blocked senders, on a running service behind a load balancer: the replies, and what operators see. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { onEachEngine } from '../../../test/support/databases.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { startTestService, type TestService } from '../../../test/support/service.ts';
import { DialogueClient } from '../../../test/support/smtp/dialogue.ts';

const STRANGER = '203.0.113.5';
const TAKEN = '250 2.1.0';
const BLOCKED = '550 5.7.1';

onEachEngine('blocked senders', (engine) => {
  let service: TestService;

  before(async () => {
    service = await startTestService(engine, {
      SMTP_PROXY_NETWORKS: '127.0.0.0/8',
      SMTP_TRUSTED_NETWORKS: '198.51.100.0/24',
      METRICS_PORT: String(await freePort()),
    });
  });

  const post = (path: string, body: object) => service.v2('POST', `/v2/operator/${path}`, body);
  const block = async (kind: string, value: string) =>
    (await post('blocks', { kind, value })).body.id as number;

  /** The reply to each MAIL of a client, code and status. */
  async function answers(client: string, ...senders: readonly string[]): Promise<string[]> {
    const peer = await DialogueClient.connect(service.smtpPort);
    const [family, ours] = client.includes(':') ? ['TCP6', '::1'] : ['TCP4', '127.0.0.1'];
    peer.socket.write(`PROXY ${family} ${client} ${ours} 50000 25\r\n`);
    await peer.reply();
    await peer.ask('EHLO client.test');
    const said: string[] = [];
    for (const sender of senders) {
      said.push((await peer.ask(`MAIL FROM:<${sender}>`)).slice(0, 9));
      await peer.ask('RSET');
    }
    peer.destroy();
    return said;
  }

  test('an address, a domain and networks are refused at MAIL, and accepted again later', async () => {
    const ids = [
      await block('address', 'Spam@far.test'),
      await block('domain', 'bad.test'),
      await block('network', '192.0.2.0/24'),
      await block('network', '2001:db8::/32'),
    ];
    const senders = ['spam@FAR.test', 'ham@far.test', 'a@mx.bad.test', ''];
    assert.deepEqual(await answers(STRANGER, ...senders), [BLOCKED, TAKEN, BLOCKED, TAKEN]);
    for (const client of ['192.0.2.77', '2001:db8::25']) {
      assert.deepEqual(await answers(client, 'ham@far.test', ''), [BLOCKED, BLOCKED], client);
    }
    const trusted = await post('blocks', { kind: 'network', value: '198.51.100.7' });
    assert.match(trusted.body.errors[0].message, /SMTP_TRUSTED_NETWORKS/);
    await block('network', '198.51.0.0/16');
    const relayed = await answers('198.51.100.7', ...senders);
    assert.deepEqual(relayed, [TAKEN, TAKEN, TAKEN, TAKEN], 'a relay of our own');

    for (const id of ids) assert.equal((await post('blocks/delete', { id })).status, 200);
    assert.deepEqual(await answers(STRANGER, ...senders), [TAKEN, TAKEN, TAKEN, TAKEN]);
    assert.deepEqual(await answers('192.0.2.77', ''), [TAKEN]);
  });

  test('a refusal is in the trace and in the metrics, with its own reason', async () => {
    await block('domain', 'traced.test');
    assert.deepEqual(await answers(STRANGER, 'bob@traced.test'), [BLOCKED]);
    const find = async () =>
      (await service.v2('GET', '/v2/operator/trace?sender=bob@traced.test')).body.items;
    // Refusals are written within a second.
    let items = await find();
    for (; items.length === 0; items = await find()) await pause(50);
    const [{ event, status, detail, client }] = items;
    assert.deepEqual([event, client], ['refused', STRANGER]);
    assert.equal(status, BLOCKED);
    assert.match(detail, /^sender_blocked: .*traced\.test/);
    const port = service.addresses.metrics?.port;
    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    assert.match(metrics, /^postroom_smtp_refusals_total\{.*reason="sender_blocked".*\} [1-9]/m);
  });

  test('blocks are listed in pages, the newest first, and changes are recorded', async () => {
    const first = await post('blocks', { kind: 'domain', value: 'One.test', note: 'phishing' });
    const second = await post('blocks', { kind: 'network', value: '203.0.113.99' });
    assert.deepEqual([first.status, second.status], [200, 200]);
    const { id, created_at, ...rest } = first.body;
    assert.deepEqual(rest, { kind: 'domain', value: 'one.test', note: 'phishing' });
    assert.ok(id > 0 && Date.parse(created_at) > 0);
    const page = await service.v2('GET', '/v2/operator/blocks?limit=1');
    assert.deepEqual(page.body.items, [second.body]);
    const next = await service.v2('GET', `/v2/operator/blocks?limit=1&cursor=${page.body.cursor}`);
    assert.deepEqual(next.body.items, [first.body]);

    const again = await post('blocks', { kind: 'domain', value: 'ONE.test', note: 'other' });
    assert.deepEqual(again.body, first.body, 'one that is there is answered as it is');
    const removed = await post('blocks/delete', { id });
    assert.deepEqual(removed.body, first.body);
    for (const absent of [id, 2 ** 64]) {
      const gone = await post('blocks/delete', { id: absent });
      assert.deepEqual([gone.status, gone.body.code], [404, 'block_not_found']);
    }
    const audit = await service.v2('GET', '/v2/operator/audit?limit=3');
    assert.deepEqual(
      audit.body.items.map(({ action, target }: Record<string, string>) => [action, target]),
      [
        ['block.delete', 'one.test'],
        ['block.add', '203.0.113.99/32'],
        ['block.add', 'one.test'],
      ],
    );
  });

  test('a wrong field is refused by its name', async () => {
    const cases = [
      [{ value: 'a@b.test' }, 'kind'],
      [{ kind: 'country', value: 'a@b.test' }, 'kind'],
      [{ kind: 'address' }, 'value'],
      [{ kind: 'address', value: 'b.test' }, 'value'],
      [{ kind: 'domain', value: 'a'.repeat(1025) }, 'value'],
      [{ kind: 'network', value: '0.0.0.0/0' }, 'value'],
      [{ kind: 'domain', value: 'b.test', note: 'a\nb' }, 'note'],
      [{ kind: 'domain', value: 'b.test', note: 'x'.repeat(501) }, 'note'],
    ] as const;
    for (const [body, field] of cases) {
      const { status, body: said } = await post('blocks', body);
      assert.deepEqual([status, said.errors?.[0]?.field], [400, field], JSON.stringify(body));
    }
    const { status, body } = await post('blocks/delete', { id: 'x' });
    assert.deepEqual([status, body.errors?.[0]?.field], [400, 'id']);
  });
});
