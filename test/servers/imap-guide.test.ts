/** The commands and files of docs/guides/imap-server.md, run as they stand there, on real machines. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { exceptionOf } from '../support/doc-not-run.ts';
import {
  block,
  follow,
  type Postroom,
  page,
  prepare,
  putIn,
  SECRET,
  stopMachines,
  used,
} from './imap-guide.ts';
import { followCourier } from './imap-guide-courier.ts';
import { followCyrus } from './imap-guide-cyrus.ts';
import type { Machine } from './machine.ts';
import { endProcess } from './mail-server.ts';

after(stopMachines);

/** The commands that install Dovecot, and put these files in place: both set-ups begin with the same. */
function installing(files: string): string {
  const begins = 'apt-get install dovecot';
  const found = page.blocks.filter(({ text }) => text.startsWith(begins) && text.includes(files));
  const [one] = found;
  assert.ok(one && found.length === 1, `${found.length} blocks install Dovecot with ${files}`);
  used.add(one);
  return one.text;
}

/** Steps 3 and 4, and whether an account of Postroom's has what the page says. */
async function finish(machine: Machine, postroom: Postroom) {
  await follow(machine, '(umask 077 && openssl rand', 'A new Dovecot');
  const password = (await machine.run('cat /root/postroom-master')).trim();
  await putIn(machine, '/etc/postroom.env', { 'THE-PASSWORD': password }, 'A new Dovecot');
  await follow(machine, 'systemctl restart dovecot');
  await postroom.start();
  await postroom.makeDomain('acme.test');
  const ada = await postroom.makeAccount('ada', 'acme.test');
  const looked = await follow(machine, 'doveadm auth lookup');
  assert.match(looked, /ada@acme\.test/);
  assert.match(looked, /\/var\/vmail\/1\b/);
  assert.match(looked, /auth succeeded/);
  await machine.run(`doveadm auth test '${ada.address}' '${ada.password}'`);
  await postroom.deliver(ada.address);
  assert.deepEqual(await postroom.subjects(ada.token), ['Hello']);
  assert.match(await machine.run('ls /var/vmail/1'), /^mdbox$/m);
  return ada;
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
      const ada = await finish(machine, postroom);
      await checkEvents(machine, ada);
      await machine.run('/etc/cron.daily/postroom-purge');
      if (databaseUrl === undefined) {
        // What Dovecot leaves beside the database while Postroom is stopped, Postroom can open.
        await postroom.stop();
        await machine.run(`doveadm auth test '${ada.address}' '${ada.password}'`);
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
    const ada = await finish(machine, postroom);
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
    await assert.rejects(postroom.subjects(ada.token), /"unavailable"/);
    await putIn(machine, '/etc/dovecot/local.conf');
    await restart();
    // Postroom leaves a server that was down alone for a moment.
    let found = await postroom.subjects(ada.token).catch(String);
    for (let tries = 0; tries < 50 && typeof found === 'string'; tries++) {
      await sleep(200);
      found = await postroom.subjects(ada.token).catch(String);
    }
    assert.deepEqual(found, ['Hello']);
    await postroom.stop();
  });

  void test('sets up Cyrus', followCyrus);
  void test('sets up Courier', followCourier);

  void test('has no code that was not run, but for a reason', () => {
    const left = page.blocks.filter((one) => !used.has(one) && !exceptionOf(page.path, one.text));
    assert.deepEqual(
      left.map(({ line }) => `${page.path}:${line}`),
      [],
    );
  });
});
