/**
 * The model of sync against a scripted server of each kind, on each engine: what the shadow keeps is
 * in the database. On real servers the same model is in test/servers/.
 */
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { onEachEngine } from '../../../../test/support/databases.ts';
import {
  type FakeServer,
  startFakeServer,
} from '../../../../test/support/imap-client/fake-server.ts';
import { openImapStore } from '../../../../test/support/imap-client/open-store.ts';
import { live, lives, type ModelMailbox, readSource } from '../../../../test/support/sync-model.ts';
import type { MailUser } from '../../mailstore/mailstore.ts';
import type { ImapMailstore } from './imap.ts';

const kinds = {
  'CONDSTORE and QRESYNC': 'ENABLE CONDSTORE QRESYNC ESEARCH',
  'CONDSTORE alone': 'ENABLE CONDSTORE',
  neither: '',
};

let added = 0;

function mailboxOf(server: FakeServer, store: ImapMailstore, user: MailUser): ModelMailbox {
  const flagsOf = (uid: number) =>
    new Set(
      server.messages
        .find((one) => one.uid === uid)
        ?.flags.split(' ')
        .filter(Boolean),
    );
  const append = async (count: number) => {
    for (let left = count; left > 0; left--) server.add(`Subject: m${++added}\r\n\r\n`);
  };
  return {
    append,
    async setFlag(uid, flag, on) {
      const flags = flagsOf(uid);
      if (on) flags.add(flag);
      else flags.delete(flag);
      server.setFlags(uid, [...flags].join(' '));
    },
    expunge: async (uid) => server.expunge(uid),
    moveAway: async (uid) => server.expunge(uid),
    state: async () =>
      new Map(server.messages.map(({ uid }) => [uid, [...flagsOf(uid)].sort()] as const)),
    fields: ['flags'],
    sync: (request) => store.sync(user, { mailbox: 'INBOX', ...request }),
    sources: async () => new Map(server.messages.map(({ uid, source }) => [uid, source] as const)),
    read: (uid) => readSource(store, user, 'INBOX', uid),
    async makeAnew(count) {
      server.makeAnew();
      await append(count);
    },
  };
}

const options = { maxLength: 30, forgets: false, reads: true, madeAnew: true };

onEachEngine('a client that applies every delta of an IMAP server', (engine) => {
  for (const [title, extensions] of Object.entries(kinds)) {
    void suite(`with ${title}`, () => {
      void test('holds what the mailbox holds', async () => {
        const runs = engine === 'sqlite' ? 60 : 15;
        await fc.assert(
          fc.asyncProperty(lives(options), async (steps) => {
            const server = await startFakeServer();
            server.capabilities = `IMAP4rev1 AUTH=PLAIN UIDPLUS ${extensions}`;
            const { store, user } = await openImapStore(server.port, {}, {}, engine);
            await live(mailboxOf(server, store, user), steps);
            store.close();
            await server.stop();
          }),
          { numRuns: runs },
        );
      });
    });
  }
});
