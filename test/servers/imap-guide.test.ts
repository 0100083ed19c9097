/** The commands and files of docs/guides/imap-server.md, run as they stand there, on real machines. */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { after, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { exceptionOf } from '../support/doc-not-run.ts';
import { type CodeBlock, readPage } from '../support/doc-pages.ts';
import { type Machine, startMachine } from './machine.ts';
import { endProcess } from './mail-server.ts';
import { findPostgres } from './postgres.ts';

const page = readPage('docs/guides/imap-server.md');
const used = new Set<CodeBlock>();

/** The only block that begins with this, or has this label. */
function block(begins: string): CodeBlock {
  const found = page.blocks.filter(
    ({ label, text }) => label === begins || text.startsWith(begins),
  );
  const [one] = found;
  assert.ok(one && found.length === 1, `${found.length} blocks begin with "${begins}"`);
  used.add(one);
  return one;
}

/** The commands that install Dovecot, and put these files in place: both set-ups begin with the same. */
function installing(files: string): string {
  const begins = 'apt-get install dovecot';
  const found = page.blocks.filter(({ text }) => text.startsWith(begins) && text.includes(files));
  const [one] = found;
  assert.ok(one && found.length === 1, `${found.length} blocks install Dovecot with ${files}`);
  used.add(one);
  return one.text;
}

/** Runs the commands of a block. */
const follow = (machine: Machine, begins: string) => machine.run(block(begins).text);

/** Puts the lines of a block into the file that it names, filled in. */
async function putIn(machine: Machine, label: string, values: Record<string, string> = {}) {
  let { text } = block(label);
  for (const [name, value] of Object.entries(values)) {
    assert.ok(text.includes(name), `${label} has ${name}`);
    text = text.replaceAll(name, value);
  }
  await machine.append(label, text);
}

const SECRET = 'a secret of the mail server, 32 or more';
const USER = 'user_1';
const KEY = 'key-of-the-operator';

const machines: Machine[] = [];
after(async () => {
  for (const machine of machines) await machine.stop();
});

/** Postroom, set up as docs/guides/production.md has it, on a machine. */
class Postroom {
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

/** A machine as the guide finds it: Postroom runs there and has made its tables. */
async function prepare(databaseUrl?: string): Promise<{ machine: Machine; postroom: Postroom }> {
  const machine = await startMachine();
  machines.push(machine);
  await machine.run('useradd --system --home-dir /var/lib/postroom postroom');
  await machine.run('install -d -o postroom -g postroom -m 0700 /var/lib/postroom');
  await machine.run(`echo '127.0.0.1 mail.example.org' >> /etc/hosts
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=mail.example.org \
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
  const postroom = new Postroom(machine, databaseUrl);
  await postroom.start();
  await postroom.stop();
  return { machine, postroom };
}

/** Steps 3 and 4, and whether an account of Postroom's has what the page says. */
async function finish(machine: Machine, postroom: Postroom) {
  await follow(machine, '(umask 077 && openssl rand');
  const password = (await machine.run('cat /root/postroom-master')).trim();
  await putIn(machine, '/etc/postroom.env', { 'THE-PASSWORD': password });
  await follow(machine, 'systemctl restart dovecot');
  await postroom.start();
  await postroom.makeDomain('acme.test');
  const ann = await postroom.makeAccount('ann', 'acme.test');
  const looked = await follow(machine, 'doveadm auth lookup');
  assert.match(looked, /ann@acme\.test/);
  assert.match(looked, /\/var\/vmail\/1\b/);
  assert.match(looked, /auth succeeded/);
  await machine.run(`doveadm auth test '${ann.address}' '${ann.password}'`);
  await postroom.deliver(ann.address);
  assert.deepEqual(await postroom.subjects(ann.token), ['Hello']);
  assert.match(await machine.run('ls /var/vmail/1'), /^mdbox$/m);
  return ann;
}

/** Step 5: a change by another client is told on the socket. */
async function checkEvents(
  machine: Machine,
  { address, token }: { address: string; token: string },
) {
  await putIn(machine, '/etc/dovecot/postroom-notifier.env', {
    'THE-SECRET-OF-POSTROOM': `'${SECRET}'`,
  });
  await follow(machine, 'chmod 600 /etc/dovecot/postroom-notifier.env');
  const listen = `
    const socket = new WebSocket('ws://127.0.0.1:8080/ws', ['postroom', 'bearer.${token}']);
    socket.onmessage = ({ data }) => console.log(JSON.parse(data).type);`;
  const listener = machine.start(`exec node_modules/.bin/node -e "$SCRIPT"`, { SCRIPT: listen });
  let heard = '';
  listener.stdout?.setEncoding('utf8').on('data', (text: string) => {
    heard += text;
  });
  const hear = async (text: string) => {
    while (!heard.includes(text)) {
      assert.ok(listener.stdout && listener.exitCode === null, heard);
      await once(listener.stdout, 'data');
    }
  };
  await hear('hello');
  await machine.run(`doveadm flags add -u ${address} '\\Flagged' mailbox INBOX all`);
  await hear('mailbox_changed');
  await endProcess(listener, 'SIGKILL');
}

void suite('the guide to mail servers', () => {
  for (const [title, databaseUrl] of [
    ['SQLite', undefined],
    ['PostgreSQL', 'postgres://postroom@127.0.0.1:5432/postroom'],
  ] as const) {
    void test(`sets up a new Dovecot on ${title}`, async () => {
      const { machine, postroom } = await prepare(databaseUrl);
      await machine.run(installing('deploy/dovecot/*.conf'));
      if (databaseUrl !== undefined) {
        const role = block('dovecot-role.sql').text;
        await machine.run('psql -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -U postgres postroom', {
          input: role,
        });
        await follow(machine, 'chmod 600 /etc/dovecot/postroom-postgresql.conf.ext');
      }
      const ann = await finish(machine, postroom);
      await checkEvents(machine, ann);
      await machine.run('/etc/cron.daily/postroom-purge');
      if (databaseUrl === undefined) {
        // What Dovecot leaves beside the database while Postroom is stopped, Postroom can open.
        await postroom.stop();
        await machine.run(`doveadm auth test '${ann.address}' '${ann.password}'`);
        await postroom.start();
        await postroom.makeAccount('bob', 'acme.test');
      }
      await postroom.stop();
    });
  }

  void test('adds Postroom to a Dovecot that has users of its own', async () => {
    const { machine, postroom } = await prepare();
    const eva = 'eva@old.test';
    await machine.run(`cp /etc/ssl/certs/mail.example.org.pem /etc/dovecot/private/dovecot.pem
      cp /etc/ssl/private/mail.example.org.key /etc/dovecot/private/dovecot.key`);
    await machine.run('useradd --system --home-dir /var/vmail --shell /usr/sbin/nologin vmail');
    await machine.append(
      '/etc/dovecot/conf.d/50-own.conf',
      `mail_location = maildir:~/Maildir
passdb {
  driver = passwd-file
  args = /etc/dovecot/users
}
userdb {
  driver = passwd-file
  args = /etc/dovecot/users
}
`,
    );
    await machine.run(`install -d -o vmail -g vmail /srv/mail
      user=$(id -u vmail):$(id -g vmail)
      echo "${eva}:$(doveadm pw -s SHA512-CRYPT -p 'her own')" | sed "s|$|:$user::/srv/mail/eva|" > /etc/dovecot/users`);
    const restart = () => machine.run('systemctl restart dovecot');
    const deliver = `doveadm save -u ${eva} -m INBOX`;
    await machine.append('/etc/dovecot/local.conf', 'first_valid_uid = 1\n');
    await restart();
    await machine.run(deliver, { input: 'Subject: Old\r\n\r\nOld.\r\n' });

    await machine.run(installing('99-postroom.conf'));
    const ann = await finish(machine, postroom);
    const keeps = async () => {
      await machine.run(`doveadm auth test '${eva}' 'her own'`);
      assert.match(await machine.run(`doveadm user -f home '${eva}'`), /^\/srv\/mail\/eva$/m);
    };
    await keeps();

    await postroom.makeDomain('old.test');
    const same = await postroom.makeAccount('eva', 'old.test');
    await keeps();
    await machine.run(`doveadm auth test '${eva}' '${same.password}'`);
    await postroom.deliver(eva);
    assert.deepEqual(await postroom.subjects(same.token), ['Old', 'Hello']);
    const files = await machine.run('find /srv/mail/eva/Maildir -type f -path "*/[cn]??/*"');
    assert.equal(files.trim().split('\n').length, 2);
    await checkEvents(machine, same);

    await machine.append(
      '/etc/dovecot/local.conf',
      'mail_plugins = $mail_plugins acl\nplugin {\n  acl = vfile\n}\n',
    );
    await restart();
    await assert.rejects(postroom.subjects(ann.token), /"unavailable"/);
    await putIn(machine, '/etc/dovecot/local.conf');
    await restart();
    // Postroom leaves a server that was down alone for a moment.
    let found = await postroom.subjects(ann.token).catch(String);
    for (let tries = 0; tries < 50 && typeof found === 'string'; tries++) {
      await sleep(200);
      found = await postroom.subjects(ann.token).catch(String);
    }
    assert.deepEqual(found, ['Hello']);
    await postroom.stop();
  });

  void test('has no code that was not run, but for a reason', () => {
    const left = page.blocks.filter(
      // Those are looked at with the settings of all pages.
      (one) => !used.has(one) && one.label !== '.env' && !exceptionOf(page.path, one.text),
    );
    assert.deepEqual(
      left.map(({ line }) => `${page.path}:${line}`),
      [],
    );
  });
});
