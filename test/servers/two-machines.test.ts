/**
 * The files of "Two machines, by hand" in docs/guides/several-nodes.md, as they stand there: each machine is an address of
 * loopback with a node and an HAProxy. Only addresses of servers, ports below 1024 and paths are others.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { parseEnv } from 'node:util';
import { createTransport } from 'nodemailer';
import { readConfig } from '../../src/run/config/config.ts';
import { atEnd } from '../support/at-end.ts';
import { CERTIFICATE } from '../support/certificate.ts';
import { openTestDatabase } from '../support/databases.ts';
import { readPage } from '../support/doc-pages.ts';
import { freePort } from '../support/free-port.ts';
import { listening, type Process, ROOT, run, start, stop } from '../support/process.ts';
import { untilAllUp } from './balancer.ts';
import { until } from './mail-load.ts';
import { startRedis } from './redis.ts';
import { makeBucket } from './s3.ts';

const PROGRAM = new URL('../../postroom', import.meta.url).pathname;
const HAPROXY = '/usr/sbin/haproxy';
const KEY = 'key-of-the-test-of-two-machines';
const PASSWORD = 'a good password';

const { blocks } = readPage('docs/guides/several-nodes.md');
/** As the guide names them; on loopback each process of tests has its own. */
const machines = ['10.0.0.1', '10.0.0.2'];
const own = (address: string) =>
  `127.${10 + machines.indexOf(address)}.${(process.pid >> 8) & 255}.${process.pid & 255}`;
/** Who sends mail and requests from outside. */
const OUTSIDE = '127.0.0.9';
const ports = { ':80': await freePort(), ':443': await freePort(), ':25': await freePort() };

const { location } = await openTestDatabase('postgres');
const redis = await startRedis();
atEnd(() => redis.stop());
const bucket = await makeBucket();
const balancers = new Set<ChildProcess>();
after(() => {
  for (const balancer of balancers) balancer.kill('SIGKILL');
});

function block(label: string): string {
  const found = blocks.filter((one) => one.label === label);
  assert.equal(found.length, 1, `blocks ${label}`);
  return found[0]?.text ?? '';
}

/** With addresses of loopback. The HAProxies connect from 127.0.0.1. */
const onLoopback = (text: string) =>
  machines
    .reduce(
      (done, address) => done.replaceAll(new RegExp(`${address}\\b(?!/)`, 'g'), own(address)),
      text,
    )
    .replaceAll('10.0.0.0/24', '127.0.0.1/32');

async function environmentOf(machine: string): Promise<Record<string, string>> {
  const settings = parseEnv(onLoopback(block(machine))) as Record<string, string>;
  const others = { DATABASE_URL: location, REDIS_URL: redis.url, S3_URL: bucket };
  for (const key of [...Object.keys(others), 'DATA_DIR']) assert.ok(settings[key], key);
  const DATA_DIR = await mkdtemp(join(ROOT, 'machine-'));
  // No DNS is asked, the test knows the key, and is one client.
  const forTest = { DNS_SERVERS: '127.0.0.1:9', API_KEYS: KEY, RATE_LIMIT_PER_MINUTE: '0' };
  return { ...settings, ...others, DATA_DIR, ...forTest };
}

/**
 * Starts it with the file of the guide, which Debian's HAProxy has to accept with its user.
 *
 * @returns the path of the socket that says what it knows
 */
async function startBalancer(machine: string): Promise<string> {
  const folder = await mkdtemp(join(ROOT, 'haproxy-'));
  const pem = join(folder, 'mail.pem');
  const certificate = await Promise.all(
    [CERTIFICATE.TLS_CERT, CERTIFICATE.TLS_KEY].map((path) => readFile(path, 'utf8')),
  );
  await writeFile(pem, certificate.join(''));
  const whole = onLoopback(block('haproxy.cfg')).replace('/etc/haproxy/mail.example.com.pem', pem);
  const file = join(folder, 'haproxy.cfg');
  await writeFile(file, whole);
  execFileSync(HAPROXY, ['-c', '-q', '-f', file]);
  let config = whole
    .replace(/^ {4}(?:user|group|log) .*\n/gm, '')
    .replace('maxconn 20000', `maxconn 1000\n    stats socket ${join(folder, 'control')}`);
  for (const [bind, port] of Object.entries(ports)) {
    assert.ok(config.includes(`bind ${bind}`), bind);
    config = config.replace(new RegExp(`bind ${bind}\\b`), `bind ${own(machine)}:${port}`);
  }
  await writeFile(file, config);
  balancers.add(spawn(HAPROXY, ['-db', '-f', file], { stdio: ['ignore', 'ignore', 'inherit'] }));
  return join(folder, 'control');
}

test('what the guide adds for mail programs fits its settings and its HAProxy', async () => {
  const label = 'for mail programs';
  for (const machine of machines) {
    const settings = parseEnv(`${block(machine)}\n${block(label)}`) as Record<string, string>;
    const { imap, submission } = readConfig(settings, ROOT);
    assert.deepEqual([imap.host, imap.tlsPort], [machine, 993]);
    assert.deepEqual([submission.host, submission.tlsPort], [machine, 465]);
    for (const { proxyNetworks } of [imap, submission]) {
      assert.deepEqual(proxyNetworks, ['10.0.0.0/24']);
    }
  }
  const whole = block('haproxy.cfg').replace(/ ssl crt \S+/, '');
  const file = join(await mkdtemp(join(ROOT, 'haproxy-')), 'haproxy.cfg');
  await writeFile(file, `${whole}\n${block(`${label}, in haproxy.cfg`)}`);
  execFileSync(HAPROXY, ['-c', '-q', '-f', file]);
});

/** Calls the API by TLS from outside, through the HAProxy of a machine. */
async function call(machine: string, method: string, path: string, body?: object, token?: string) {
  const asked = request({
    host: own(machine),
    port: ports[':443'],
    localAddress: OUTSIDE,
    method,
    path,
    rejectUnauthorized: false,
    headers: {
      'content-type': 'application/json',
      ...(token ? { authorization: `Bearer ${token}` } : { 'x-api-key': KEY }),
    },
  });
  asked.end(body && JSON.stringify(body));
  const [answer] = await once(asked, 'response');
  // biome-ignore lint/suspicious/noExplicitAny: whatever JSON came
  return { status: answer.statusCode as number, body: (await json(answer)) as any };
}

async function send(machine: string, subject: string): Promise<void> {
  const transport = createTransport({
    host: own(machine),
    port: ports[':25'],
    ignoreTLS: true,
    localAddress: OUTSIDE,
  });
  try {
    await transport.sendMail({ from: 'bob@far.test', to: 'ann@acme.test', subject, text: subject });
  } finally {
    transport.close();
  }
}

const isOk = ({ status }: { status: number }) => status === 200;

const doctor = async (environment: Record<string, string>) =>
  (await run([PROGRAM, 'doctor'], environment, 'pipe').ended()).output;

test('two machines work with the files of the guide, also while one of them is restarted', async () => {
  const environments = await Promise.all(machines.map(environmentOf));
  const [first = {}, second = {}] = environments;
  const differing = Object.keys(first).filter((key) => first[key] !== second[key]);
  assert.deepEqual(differing.sort(), ['DATA_DIR', 'HOST', 'METRICS_HOST', 'SMTP_HOST']);

  const before = await doctor(first);
  assert.match(before, /^warning +SMTP port +not started/m);
  for (const check of ['database', 'Redis', 'bucket']) {
    assert.match(before, new RegExp(`^ok +${check} `, 'm'));
  }
  const nodes: Process[] = environments.map((environment) => start(environment));
  await Promise.all(nodes.map(listening));
  const checks = ['database', 'service \\(HTTP\\)', 'reverse proxy', 'Redis', 'bucket'];
  await until('doctor finds all that the machines share', async () => {
    const output = await doctor(first);
    return checks.every((check) => new RegExp(`^ok +${check} `, 'm').test(output));
  });

  const controls = await Promise.all(machines.map(startBalancer));
  const allUp = async () => {
    for (const control of controls) await untilAllUp(control);
  };
  for (const machine of machines) {
    await until('HAProxy answers', () => call(machine, 'GET', '/readyz').then(isOk, () => false));
  }
  await allUp();
  const made = await call('10.0.0.1', 'POST', '/v2/domain', { user_id: 'u', domain: 'acme.test' });
  for (const { id } of made.body.domain.dns) {
    const mark = { user_id: 'u', id, status: 'verified' };
    await call('10.0.0.2', 'POST', '/v2/domains/acme.test/dns/mark', mark);
  }
  const account = { user_id: 'u', domain: 'acme.test', local_part: 'ann', display_name: 'Ann' };
  await call('10.0.0.1', 'POST', '/v2/email-accounts/create', { ...account, password: PASSWORD });
  const login = { address: 'ann@acme.test', password: PASSWORD };
  const { token } = (await call('10.0.0.2', 'POST', '/mail/token', login)).body;

  const sent: string[] = [];
  const round = async () => {
    for (const machine of [...machines, ...machines]) {
      const subject = `mail ${sent.length}`;
      await send(machine, subject);
      sent.push(subject);
      const { status, body } = await call(
        machine,
        'POST',
        '/mail/sync',
        { fields: ['envelope'] },
        token,
      );
      assert.equal(status, 200);
      const found = body.changes.added.map(
        (one: { envelope: { subject: string } }) => one.envelope.subject,
      );
      assert.deepEqual(found, sent);
    }
  };
  await round();
  for (const [at, environment] of environments.entries()) {
    const node = nodes[at];
    assert.ok(node);
    const delivered = new RegExp(`"remoteAddress":"${OUTSIDE}".*"message delivered"`);
    // The log leaves the process a little later.
    await until('both took mail, and know who sent it', () => delivered.test(node.output()));
    let isOver = false;
    const over = stop(node).then(() => {
      isOver = true;
    });
    while (!isOver) {
      await round();
      await pause(200);
    }
    await over;
    nodes[at] = start(environment);
    await listening(nodes[at]);
    await allUp();
    await round();
  }
  await Promise.all(nodes.map(stop));
});
