/**
 * What the tests of docs/guides/imap-server.md share: the blocks of the page, and a machine on which
 * Postroom runs.
 */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { type CodeBlock, readPage } from '../support/doc-pages.ts';
import { type Machine, startMachine } from './machine.ts';
import { findPostgres } from './postgres.ts';

export const page = readPage('docs/guides/imap-server.md');
export const used = new Set<CodeBlock>();

/** The title of the section (`##`) that a line of the page is in. */
function sectionAt(line: number): string | undefined {
  const before = page.text.split('\n').slice(0, line);
  return before.findLast((text) => text.startsWith('## '))?.slice('## '.length);
}

/** The only block that begins with this, or has this label, in a section of the page or in all of it. */
export function block(begins: string, section?: string): CodeBlock {
  const found = page.blocks.filter(
    ({ label, text, line }) =>
      (label === begins || text.startsWith(begins)) &&
      (section === undefined || sectionAt(line) === section),
  );
  const [one] = found;
  assert.ok(one && found.length === 1, `${found.length} blocks begin with "${begins}"`);
  used.add(one);
  return one;
}

/** Runs the commands of a block. */
export const follow = (machine: Machine, begins: string, section?: string) =>
  machine.run(block(begins, section).text);

/** Puts the lines of a block into the file that it names, filled in. */
export async function putIn(
  machine: Machine,
  label: string,
  values: Record<string, string> = {},
  section?: string,
) {
  let { text } = block(label, section);
  for (const [name, value] of Object.entries(values)) {
    assert.ok(text.includes(name), `${label} has ${name}`);
    text = text.replaceAll(name, value);
  }
  await machine.append(label, text);
}

export const SECRET = 'a secret of the mail server: 32 or more';
const USER = 'demo';
const KEY = 'key-of-the-operator';

const machines: Machine[] = [];

/** Ends the machines that were prepared. */
export async function stopMachines(): Promise<void> {
  for (const machine of machines) await machine.stop();
}

/** Postroom, set up as docs/guides/production.md has it, on a machine. */
export class Postroom {
  readonly #machine: Machine;
  readonly #env: Record<string, string>;
  #process: ChildProcess | undefined;

  constructor(machine: Machine, databaseUrl: string | undefined) {
    this.#machine = machine;
    this.#env = {
      DATA_DIR: '/var/lib/postroom',
      API_KEYS: KEY,
      MAILSERVER_WEBHOOK_SECRET: SECRET,
      // Nothing answers there, and says so at once.
      DNS_SERVERS: '127.0.0.1:1',
      NODE_EXTRA_CA_CERTS: '/etc/ssl/certs/mail.example.org.pem',
      LOG_LEVEL: 'warn',
      RATE_LIMIT_PER_MINUTE: '0',
      ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl }),
    };
  }

  /** Starts it with what is in /etc/postroom.env by now. */
  async start(): Promise<void> {
    const program = `exec runuser -u postroom -- node_modules/.bin/node src/main.ts`;
    const load = 'set -a; if [ -e /etc/postroom.env ]; then . /etc/postroom.env; fi; set +a';
    const started = this.#machine.start(`${load}\n${program}`, this.#env);
    this.#process = started;
    let said = '';
    started.stdout?.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    while (!said.includes('Postroom listens')) {
      assert.ok(started.stdout && started.exitCode === null, `Postroom ended: ${said}`);
      await Promise.race([once(started.stdout, 'data'), once(started, 'exit')]);
    }
  }

  async stop(): Promise<void> {
    await this.#machine.run('kill -TERM $(pgrep -u postroom -f src/main.ts)');
    if (this.#process?.exitCode === null) await once(this.#process, 'exit');
  }

  // biome-ignore lint/suspicious/noExplicitAny: whatever JSON was answered
  async call(path: string, body: object, token?: string): Promise<any> {
    const credential = token === undefined ? `x-api-key: ${KEY}` : `authorization: Bearer ${token}`;
    const address = `http://127.0.0.1:8080${path}`;
    const answer = await this.#machine.run(
      `curl -s --json @- -H '${credential}' '${address}' -w '\n%{http_code}'`,
      { input: JSON.stringify(body) },
    );
    const [, text = '', status = ''] = /^(.*)\n(\d+)$/s.exec(answer) ?? [];
    assert.match(status, /^20/, `${path}: ${answer}`);
    return JSON.parse(text);
  }

  /** Claims a domain and marks its records verified. */
  async makeDomain(domain: string): Promise<void> {
    const made = await this.call('/v2/domain', { domain, user_id: USER });
    for (const { id } of made.domain.dns) {
      const mark = { user_id: USER, id, status: 'verified' };
      await this.call(`/v2/domains/${domain}/dns/mark`, mark);
    }
  }

  async makeAccount(local_part: string, domain: string) {
    const display_name = local_part;
    const input = { domain, local_part, display_name, user_id: USER };
    const { account, password } = await this.call('/v2/email-accounts/create', input);
    const { token } = await this.call(`/v2/email-accounts/${account.id}/token`, { user_id: USER });
    return { address: account.address as string, password: password as string, token };
  }

  async deliver(to: string): Promise<void> {
    await this.#machine.run(
      `swaks --silent 2 --server 127.0.0.1:2525 --ehlo sender.test --from bob@sender.test \
        --to '${to}' --header 'Subject: Hello'`,
    );
  }

  async subjects(token: string): Promise<string[]> {
    const { changes } = await this.call('/mail/sync', { fields: ['envelope'] }, token);
    return changes.added.map(({ envelope }: { envelope: { subject: string } }) => envelope.subject);
  }
}

interface Prepared {
  readonly machine: Machine;
  readonly postroom: Postroom;
}

/** A machine as the guide finds it: Postroom runs there and has made its tables. */
export async function prepare(databaseUrl?: string): Promise<Prepared> {
  const prepared = await prepareInstalled(databaseUrl);
  await prepared.postroom.start();
  await prepared.postroom.stop();
  return prepared;
}

/** A machine on which Postroom was never started: for mail servers that do not look into its tables. */
export async function prepareInstalled(databaseUrl?: string): Promise<Prepared> {
  const machine = await startMachine();
  machines.push(machine);
  await machine.run('useradd --system --home-dir /var/lib/postroom postroom');
  await machine.run('install -d -o postroom -g postroom -m 0700 /var/lib/postroom');
  await machine.run(`echo '127.0.0.1 mail.example.org' >> /etc/hosts
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=mail.example.org \
      -addext subjectAltName=DNS:mail.example.org 2>/dev/null \
      -keyout /etc/ssl/private/mail.example.org.key -out /etc/ssl/certs/mail.example.org.pem`);
  if (databaseUrl !== undefined) {
    const bin = findPostgres() ?? '';
    await machine.run(`install -d -o postgres /var/lib/guide && cd /var/lib/guide
      export LC_ALL=C.UTF-8
      runuser -u postgres -- ${bin}/initdb -D data -A trust >/dev/null
      runuser -u postgres -- ${bin}/pg_ctl -D data -l log -w -o '-k /var/lib/guide' start >/dev/null
      psql -q -h 127.0.0.1 -U postgres -c 'CREATE ROLE postroom LOGIN' -c 'CREATE DATABASE postroom OWNER postroom'`);
  }
  return { machine, postroom: new Postroom(machine, databaseUrl) };
}
