/** What an operator sees of the service from outside: its metrics, and its log. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { pino } from 'pino';
import { startDnsServer } from '../support/dns-server.ts';
import { freePort } from '../support/free-port.ts';
import { startTestService } from '../support/service.ts';

interface LogLine {
  readonly level: number;
  readonly msg: string;
}

const WARN = 40;

async function startWatched(environment: Record<string, string> = {}) {
  const port = await freePort();
  const lines: LogLine[] = [];
  const logger = pino({}, { write: (line) => lines.push(JSON.parse(line)) });
  const service = await startTestService(
    'sqlite',
    { METRICS_PORT: String(port), ...environment },
    logger,
  );
  return {
    service,
    warnings: () => lines.filter(({ level }) => level === WARN).map(({ msg }) => msg),
    /** The value of one line of the metrics; 0 where it is not there. */
    async metric(name: string): Promise<number> {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      const line = text.split('\n').find((one) => one.startsWith(`${name} `));
      return Number(line?.slice(name.length) ?? 0);
    },
  };
}

suite('sender checks', () => {
  test('ask DNS once about a sender, and log once that DNS does not answer', async () => {
    const dns = await startDnsServer([
      ['sender.test', 'TXT', 'v=spf1 ip4:127.0.0.1 -all'],
      ['_dmarc.sender.test', 'TXT', 'v=DMARC1; p=reject'],
    ]);
    const { service, warnings, metric } = await startWatched({ DNS_SERVERS: dns.address });
    const account = await service.makeAccount();
    const sendFrom = (from: string) =>
      service.send({ from, to: account.address, subject: 'Hi', text: 'Hello' });

    // An answer that comes late on a busy machine is not kept: then it is asked for again.
    let asked: number;
    do {
      asked = dns.asked.length;
      await sendFrom('ann@sender.test');
    } while (dns.asked.length > asked);
    assert.ok(asked >= 2);
    assert.ok((await metric('postroom_sender_checks_total{check="spf",verdict="pass"}')) >= 1);
    assert.ok((await metric('postroom_sender_checks_total{check="dmarc",verdict="pass"}')) >= 1);
    const kept = 'postroom_dns_questions_total{purpose="sender_checks",outcome="kept"}';
    assert.ok((await metric(kept)) >= 2);
    assert.equal(await metric('postroom_sender_checks_off'), 0);

    await dns.stop();
    for (const name of ['a', 'b', 'c']) await sendFrom(`ann@${name}.test`);
    const aboutDns = warnings().filter((line) => line.startsWith('DNS'));
    assert.equal(aboutDns.length, 1);
    assert.match(aboutDns[0] ?? '', /mail is accepted without SPF, DKIM and DMARC checks/);
    assert.equal(await metric('postroom_sender_checks_off'), 1);
  });
});
