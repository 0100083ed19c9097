/**
 * The model of sync on real mail servers: a second IMAP client makes random changes, also while a
 * sync is under way, deletes the mailbox and makes it anew. Whoever only ever applies the deltas holds
 * exactly what the server holds, and whoever reads a message gets that of the mailbox that is there.
 */
import { after, before, suite, test } from 'node:test';
import fc from 'fast-check';
import type { ImapFlow } from 'imapflow';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';
import { live, lives, type ModelMailbox, readSource, type Step } from '../support/sync-model.ts';
import { connectAs, deleteMailbox, mailstoreUrl, servers } from './imap-client.ts';
import type { MailServer } from './mail-server.ts';

const RUNS = Number(process.env.RUNS ?? 40);

/** All that each of the servers can tell of a message. */
const FIELDS = [
  'envelope',
  'flags',
  'size',
  'internalDate',
  'bodyStructure',
  'preview',
  'threadId',
  'hasAttachment',
] as const;

/** The second message comes beside the first page, and goes before its own. */
const cameBesideAPage: Step[] = [
  { do: 'race', limit: 1, pick: 3, change: { do: 'append', count: 2 } },
  { do: 'move', pick: 3 },
];

for (const [title, start] of Object.entries(servers)) {
  void suite(`a client that applies every delta of ${title}`, () => {
    let server: MailServer;
    let service: TestService;
    let account: TestAccount;
    let client: ImapFlow;
    before(async () => {
      server = await start();
      service = await startTestService('sqlite', { MAILSTORE_URL: mailstoreUrl(server) });
      account = await service.makeAccount();
      await server.addAccount(account.address);
      client = await connectAs(server, account.address);
    });
    after(async () => {
      client?.close();
      await service?.stop();
      await server?.stop();
    });

    let mailboxes = 0;
    let messages = 0;
    async function makeMailbox(): Promise<ModelMailbox> {
      mailboxes++;
      const below = server.name === 'courier' ? ['INBOX'] : [];
      const name = `model-${mailboxes}`;
      const { path: mailbox } = await client.mailboxCreate([...below, name]);
      const { path: away } = await client.mailboxCreate([...below, `away-${mailboxes}`]);
      await client.mailboxOpen(mailbox);
      const append = async (count: number) => {
        for (let left = count; left > 0; left--) {
          await client.append(mailbox, `Subject: m${++messages}\r\n\r\nHello.\r\n`);
        }
      };
      const one = (uid: number) => [String(uid), { uid: true }] as const;
      return {
        append,
        async setFlag(uid, flag, on) {
          const [range, options] = one(uid);
          if (on) await client.messageFlagsAdd(range, [flag], options);
          else await client.messageFlagsRemove(range, [flag], options);
        },
        async expunge(uid) {
          await client.messageDelete(...one(uid));
        },
        async moveAway(uid) {
          const [range, options] = one(uid);
          await client.messageMove(range, away, options);
        },
        async state() {
          await client.noop();
          const state = new Map<number, string[]>();
          const opened = client.mailbox;
          if (!opened || opened.exists === 0) return state;
          for await (const { uid, flags } of client.fetch('1:*', { uid: true, flags: true })) {
            state.set(uid, [...(flags ?? [])].filter((text) => text !== '\\Recent').sort());
          }
          return state;
        },
        fields: FIELDS,
        sync: (request) => service.mailstore.sync(account, { mailbox, ...request }),
        async sources() {
          await client.noop();
          const sources = new Map<number, string>();
          const opened = client.mailbox;
          if (!opened || opened.exists === 0) return sources;
          for await (const { uid, source } of client.fetch('1:*', { uid: true, source: true })) {
            sources.set(uid, source?.toString() ?? '');
          }
          return sources;
        },
        read: (uid) => readSource(service.mailstore, account, mailbox, uid),
        async makeAnew(count) {
          await client.mailboxClose();
          await deleteMailbox(client, mailbox);
          await client.mailboxCreate([...below, name]);
          await append(count);
          await client.mailboxOpen(mailbox);
        },
      };
    }

    void test('holds what the mailbox holds, and reads what it has', async () => {
      const options = { maxLength: 30, forgets: false, reads: true, madeAnew: true };
      await fc.assert(
        fc.asyncProperty(lives(options), async (steps) => {
          await live(await makeMailbox(), steps);
        }),
        { numRuns: RUNS, examples: [[cameBesideAPage]] },
      );
    });
  });
}
