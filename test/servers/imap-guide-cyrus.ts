/** The part on Cyrus of docs/guides/imap-server.md, step by step. */
import assert from 'node:assert/strict';
import { unpackCyrus } from './cyrus.ts';
import { block, follow, prepareInstalled, putIn } from './imap-guide.ts';
import { installTree } from './machine.ts';

/** What the scripts of Debian's cyrus-common and sasl2-bin do when they are installed. */
const SCRIPTS = `
  adduser --quiet --system --ingroup mail --home /var/spool/cyrus --no-create-home cyrus
  adduser --quiet cyrus sasl
  chown cyrus:mail /var/lib/cyrus /var/spool/cyrus /var/spool/sieve
  install -o root -g sasl -m 0660 /dev/null /etc/sasldb2
  /usr/sbin/cyrus makedirs --cleansquat`;

export async function followCyrus(): Promise<void> {
  const step = 'Cyrus';
  const { machine, postroom } = await prepareInstalled();
  await installTree(machine, await unpackCyrus(), SCRIPTS);
  await follow(machine, 'apt-get install cyrus');
  // A user of the server's own.
  await machine.run('printf "her own" | saslpasswd2 -c -p -u old.test eva');
  await putIn(machine, '/etc/imapd-postroom.conf');
  await follow(machine, 'keys=');
  await follow(machine, '(umask 077 && openssl rand', step);
  await machine.run('until ss -Hltn sport = :993 | grep -q . ; do sleep 0.1; done');
  const password = (await machine.run('cat /root/postroom-master')).trim();
  await putIn(machine, '/etc/postroom.env', { 'THE-PASSWORD': password }, step);
  await postroom.start();
  await postroom.makeDomain('acme.test');
  const ada = await postroom.makeAccount('ada', 'acme.test');
  const trusted = { env: { CURL_CA_BUNDLE: '/etc/ssl/certs/mail.example.org.pem' } };
  const looked = await machine.run(block('echo "user = postroom:').text, trusted);
  assert.match(looked, /INBOX/);
  const own = "curl -sS --user 'eva@old.test:her own' imaps://mail.example.org/";
  assert.match(await machine.run(own, trusted), /INBOX/);
  await postroom.deliver(ada.address);
  assert.deepEqual(await postroom.subjects(ada.token), ['Hello']);
  await postroom.stop();
}
