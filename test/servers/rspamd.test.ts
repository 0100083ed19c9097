/** Mail of strangers, judged by a real Rspamd, until that is killed. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createTransport } from 'nodemailer';
import { atEnd } from '../support/at-end.ts';
import { startDnsServer } from '../support/dns-server.ts';
import { freePort } from '../support/free-port.ts';
import { startTestService } from '../support/service.ts';

const READY_MS = 60_000;
/** Refused by every spam filter that is set up as it comes. */
const GTUBE = 'XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X';

/**
 * Of all of Rspamd's rules, those on the client's name: they ask neither DNS nor Redis. A client without a name has the
 * points of Debian's own settings, and those are enough for Junk.
 */
const configure = (folder: string, port: number) => `
options {
  pidfile = "${folder}/rspamd.pid";
  control_socket = "${folder}/control.sock mode=0600";
  cache_file = "${folder}/symbols.cache";
  hs_cache_dir = "${folder}";
  tempdir = "${folder}";
  disable_hyperscan = true;
  filters = "";
  url_tld = "${folder}/suffixes";
  dns { nameserver = ["127.0.0.1:9"]; }
}
logging { type = "console"; level = "warning"; }
worker "normal" { bind_socket = "127.0.0.1:${port}"; count = 1; }
actions { reject = 15; add_header = 2; }
group "hfilter" {
  .include "\${CONFDIR}/scores.d/hfilter_group.conf"
}
hfilter { hostname_enabled = true; }
modules { path = "\${PLUGINSDIR}/hfilter.lua"; }
`;

/** Starts Rspamd on a free port of loopback, with all that is its own in one folder; it ends with the test file. */
async function startRspamd() {
  const folder = await mkdtemp(join(tmpdir(), 'postroom-rspamd-'));
  const port = await freePort();
  const configuration = join(folder, 'rspamd.conf');
  await writeFile(configuration, configure(folder, port));
  // The list that comes with it takes a busy machine 20 seconds to compile.
  await writeFile(join(folder, 'suffixes'), 'test\n');
  // Started by root, it would ask for another user, who could not read the folder.
  const server = spawn('rspamd', ['--no-fork', '--insecure', '--config', configuration], {
    // A group of its own: its workers end with it.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [server.stdout, server.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      if (said.length < 100_000) said += text;
    });
  }
  await once(server, 'spawn');
  const exited = once(server, 'exit');
  const group = server.pid ?? assert.fail('Rspamd has no process id');
  let ending: Promise<unknown> | undefined;
  const kill = async () => {
    if (!ending) {
      ending = exited;
      try {
        process.kill(-group, 'SIGKILL');
      } catch {
        // Nothing was left of it.
      }
    }
    await ending;
  };
  atEnd(async () => {
    await kill();
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  });
  const url = `http://127.0.0.1:${port}`;
  const deadline = Date.now() + READY_MS;
  while (!(await isReady(url))) {
    const hasEnded = server.exitCode !== null || server.signalCode !== null;
    if (hasEnded || Date.now() > deadline) throw new Error(`Rspamd did not start:\n${said}`);
    await sleep(100);
  }
  return { url, kill };
}

async function isReady(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/ping`, { signal: AbortSignal.timeout(5_000) });
    return (await response.text()).startsWith('pong');
  } catch {
    return false;
  }
}

async function startFiltered(rspamdUrl: string) {
  const dns = await startDnsServer([
    ['5.113.0.203.in-addr.arpa', 'PTR', 'mail.sender.test'],
    ['mail.sender.test', 'A', '203.0.113.5'],
  ]);
  const metricsPort = await freePort();
  const service = await startTestService('sqlite', {
    RSPAMD_URL: rspamdUrl,
    DNS_SERVERS: dns.address,
    METRICS_PORT: String(metricsPort),
    // Rspamd takes every client of loopback for one of its own: the strangers come through a load balancer.
    SMTP_PROXY_NETWORKS: '127.0.0.1',
  });
  const ann = await service.makeAccount();
  return {
    async send(client: string, text = 'Hello') {
      const connection = connect(service.smtpPort, '127.0.0.1');
      await once(connection, 'connect');
      connection.write(`PROXY TCP4 ${client} 127.0.0.1 40000 25\r\n`);
      const transport = createTransport({ connection, secure: false, ignoreTLS: true });
      try {
        await transport.sendMail({ from: 'bob@sender.test', to: ann.address, subject: 'Hi', text });
      } finally {
        transport.close();
        connection.destroy();
      }
    },
    /** What each message of a mailbox has in X-Spam-Status. */
    async statuses(mailbox: string): Promise<(string | undefined)[]> {
      const { body } = await service.mail(ann.token, 'POST', '/mail/sync', { mailbox });
      const read = ({ uid }: { uid: number }) =>
        service.mail(ann.token, 'GET', `/mail/message?mailbox=${mailbox}&uid=${uid}`);
      const messages = await Promise.all(body.changes.added.map(read));
      return messages.map((message) => /^X-Spam-Status: (.*)$/m.exec(message.body.rfc822)?.[1]);
    },
    /** The value of one line of the metrics; 0 where it is not there. */
    async metric(name: string): Promise<number> {
      const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
      const line = text.split('\n').find((one) => one.startsWith(`${name} `));
      return Number(line?.slice(name.length) ?? 0);
    },
  };
}

/** Tries again until there is something. */
async function untilJudged<T>(ask: () => Promise<T | undefined>): Promise<T> {
  const deadline = Date.now() + READY_MS;
  for (;;) {
    const found = await ask();
    if (found !== undefined) return found;
    assert.ok(Date.now() < deadline, 'Rspamd judges nothing');
    await sleep(100);
  }
}

/** For a `catch`: any other answer is a fault. */
function isDeferred(error: { responseCode?: number }): void {
  assert.equal(error.responseCode, 451, String(error));
}

test('Rspamd accepts, marks and refuses mail, and mail is accepted without it when it is dead', async () => {
  const rspamd = await startRspamd();
  const { send, statuses, metric } = await startFiltered(rspamd.url);
  const named = '203.0.113.5';
  const judged = async (mailbox: string) =>
    (await statuses(mailbox)).filter((status) => status !== undefined);

  // DNS or Rspamd may be late on a busy machine, and mail is deferred or taken unjudged then: another one is sent.
  await untilJudged(async () => {
    await send(named).catch(isDeferred);
    return (await judged('INBOX')).length > 0 || undefined;
  });
  assert.deepEqual(await judged('INBOX'), ['No, score=0.00 required=15.00']);
  const refusal = await untilJudged(() =>
    send(named, GTUBE).then(
      () => undefined,
      (error: { response?: string }) => error.response ?? String(error),
    ),
  );
  assert.match(refusal, /^550 5\.7\.1 /);

  const marked = (await statuses('Junk')).length;
  await untilJudged(async () => {
    await send('203.0.113.6').catch(isDeferred);
    return (await statuses('Junk')).length > marked || undefined;
  });
  assert.deepEqual(
    await statuses('Junk'),
    Array(marked + 1).fill('Yes, score=2.50 required=15.00'),
  );

  const unjudged = async () =>
    (await statuses('INBOX')).filter((status) => status === undefined).length;
  const taken = await unjudged();
  const failed = await metric('postroom_spam_checks_total{action="failed"}');
  await rspamd.kill();
  for (let mails = 0; mails < 5; mails++) await send(named, GTUBE);
  assert.equal(await unjudged(), taken + 5);
  assert.equal(await metric('postroom_spam_checks_total{action="failed"}'), failed + 5);
  assert.equal(await metric('postroom_spam_filter_up'), 0);
});
