/** The mail servers of the test run are what the suites on them take them for. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { ImapFlow } from 'imapflow';
import { createTransport } from 'nodemailer';
import { startCourier } from './courier.ts';
import { startCyrus } from './cyrus.ts';
import { type DovecotServer, startDovecot } from './dovecot.ts';
import type { Login, MailServer } from './mail-server.ts';

const ADDRESS = 'ann@acme.test';
const starts = { dovecot: () => startDovecot(), cyrus: startCyrus, courier: startCourier };

function connect(server: MailServer, auth: Login): ImapFlow {
  const { host, imapPort: port } = server;
  return new ImapFlow({ host, port, secure: false, auth, logger: false, qresync: true });
}

for (const [name, start] of Object.entries(starts)) {
  void suite(name, () => {
    let server: MailServer;
    before(async () => {
      server = await start();
      await server.addAccount(ADDRESS, 'own password');
    });
    after(() => server?.stop());

    async function session<T>(auth: Login, work: (client: ImapFlow) => Promise<T>): Promise<T> {
      const client = connect(server, auth);
      await client.connect();
      try {
        return await work(client);
      } finally {
        await client.logout();
      }
    }
    const asAccount = <T>(work: (client: ImapFlow) => Promise<T>) =>
      session(server.loginAs(ADDRESS), work);
    const uidValidity = () =>
      asAccount(async (client) => (await client.mailboxOpen('INBOX')).uidValidity);

    const messages = () => asAccount(async (client) => (await client.mailboxOpen('INBOX')).exists);

    void test('an account has its mailboxes, reached with the master password', async () => {
      const found = await asAccount((client) => client.list());
      const paths = found.map(({ path }) => path.replace('INBOX.', ''));
      for (const path of ['INBOX', 'Sent', 'Drafts', 'Junk', 'Trash', 'Archive']) {
        assert.ok(paths.includes(path), `${path} in ${paths.join()}`);
      }
    });

    void test('an account logs in with its own password', async () => {
      const work = session({ user: ADDRESS, pass: 'own password' }, (client) => client.noop());
      // Courier knows none of the hashes that passwords could be handed over as.
      await (name === 'courier' ? assert.rejects(work) : work);
    });

    void test('other passwords and other accounts are refused', async () => {
      const master = server.loginAs(ADDRESS);
      const wrong: Login[] = [
        { ...master, pass: 'wrong' },
        { user: ADDRESS, pass: master.pass },
        { user: ADDRESS, pass: 'wrong' },
      ];
      // Cyrus makes the mailbox of whomever it lets in.
      if (name !== 'cyrus') wrong.push(server.loginAs('nobody@acme.test'));
      for (const auth of wrong) await assert.rejects(session(auth, async () => undefined));
    });

    void test('an appended message exists, with MODSEQ where the server has it', async () => {
      await asAccount(async (client) => {
        const appended = await client.append('INBOX', 'Subject: one\r\n\r\nText\r\n');
        assert.ok(appended);
        assert.equal(appended.uid, 1);
        const mailbox = await client.mailboxOpen('INBOX');
        assert.equal(mailbox.exists, 1);
        assert.equal(client.capabilities.has('CONDSTORE'), server.modseq);
        assert.equal(client.capabilities.has('QRESYNC'), server.modseq);
        assert.equal(mailbox.highestModseq !== undefined, server.modseq);
      });
    });

    void test('its UIDVALIDITY can be made to change', async () => {
      const old = await uidValidity();
      await server.resetUidValidity(ADDRESS, 'INBOX');
      assert.notEqual(await uidValidity(), old);
    });

    void test('a message delivered by LMTP arrives, with a tag in its address too', async () => {
      if (server.lmtpPort === undefined) return;
      const transport = createTransport({ lmtp: true, host: server.host, port: server.lmtpPort });
      const before = await messages();
      for (const to of [ADDRESS, ADDRESS.replace('@', '+tag@')]) {
        await transport.sendMail({ from: 'bob@sender.test', to, subject: 'Hello', text: 'Hello' });
      }
      assert.equal(await messages(), before + 2);
    });

    void test('it stops and starts again with the mail it had', async () => {
      const old = await uidValidity();
      await server.pause();
      await assert.rejects(asAccount((client) => client.noop()));
      await server.resume();
      assert.equal(await uidValidity(), old);
    });
  });
}

void suite('dovecot with TLS', () => {
  let server: DovecotServer;
  before(async () => {
    server = await startDovecot({ tls: true, tlsNames: ['imap.acme.test'] });
    await server.addAccount(ADDRESS);
  });
  after(() => server?.stop());

  async function connectWith(port: number, secure: boolean, servername: string) {
    const client = new ImapFlow({
      host: server.host,
      port,
      secure,
      servername,
      ...(!secure && { doSTARTTLS: true }),
      auth: server.loginAs(ADDRESS),
      tls: { ca: server.certificate ?? '' },
      logger: false,
    });
    await client.connect();
    const { secureConnection } = client;
    await client.logout();
    return secureConnection;
  }

  for (const [title, secure] of [
    ['imaps', true],
    ['STARTTLS', false],
  ] as const) {
    void test(`${title} with a certificate for the name, and for no other`, async () => {
      const port = secure ? server.imapsPort : server.imapPort;
      assert.ok(port !== undefined);
      assert.equal(await connectWith(port, secure, 'imap.acme.test'), true);
      await assert.rejects(connectWith(port, secure, 'other.acme.test'), /other.acme.test/);
    });
  }
});
