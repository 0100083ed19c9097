/** The part on Courier of docs/guides/imap-server.md, step by step. */
import assert from 'node:assert/strict';
import { unpackCourier } from './courier.ts';
import { follow, prepareInstalled, putIn } from './imap-guide.ts';
import { installTree } from './machine.ts';

/** What the scripts of Debian's packages do when they are installed. */
const SCRIPTS = `
  adduser --quiet --system --group --no-create-home --home /var/lib/courier courier
  chown courier:courier /var/lib/courier
  install -d -o root -g courier -m 0775 /run/courier
  install -d -o courier -g courier -m 0750 /run/courier/authdaemon
  openssl dhparam -dsaparam -out /etc/courier/dhparams.pem 2048 2>/dev/null`;

export async function followCourier(): Promise<void> {
  const step = 'Courier';
  const { machine, postroom } = await prepareInstalled();
  await installTree(machine, await unpackCourier(), SCRIPTS);
  // A user of the server's own, whom PAM knows.
  await machine.run(`useradd --create-home eva && echo 'eva:her own' | chpasswd
    runuser -u eva -- maildirmake.courier /home/eva/Maildir`);
  await follow(machine, 'apt-get install courier');
  await follow(machine, "sed -i -e 's/^MAXPERIP");
  await machine.run('until ss -Hltn sport = :993 | grep -q . ; do sleep 0.1; done');
  const password = (await machine.run('cat /root/postroom-master')).trim();
  await putIn(machine, '/etc/postroom.env', { 'THE-PASSWORD': password }, step);
  await postroom.start();
  await postroom.makeDomain('acme.test');
  const ada = await postroom.makeAccount('ada', 'acme.test');
  await follow(machine, 'home=/var/vmail');
  await postroom.deliver(ada.address);
  assert.deepEqual(await postroom.subjects(ada.token), ['Hello']);
  const own = "curl -sS --user 'eva:her own' imaps://mail.example.org/";
  const env = { CURL_CA_BUNDLE: '/etc/ssl/certs/mail.example.org.pem' };
  assert.match(await machine.run(own, { env }), /INBOX/);
  await postroom.stop();
}
