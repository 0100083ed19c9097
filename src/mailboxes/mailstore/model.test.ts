/**
 * A client that only applies the answers of sync holds exactly what the mailbox holds, whatever happened in
 * between, and whatever page sizes it asked for.
 */
import { before, test } from 'node:test';
import fc from 'fast-check';
import { onEachEngine } from '../../../test/support/databases.ts';
import {
  openTestMailstore,
  sampleMessage,
  type TestMailstore,
} from '../../../test/support/mail.ts';
import { live, lives, type ModelMailbox } from '../../../test/support/sync-model.ts';
import type { MailUser, MessageField } from './mailstore.ts';

onEachEngine('a client that applies every delta', (engine) => {
  let store: TestMailstore;
  let clock = Date.UTC(2026, 0, 1);
  before(async () => {
    // The number of octets of envelope and structure of the messages below, one to four of which have it.
    store = await openTestMailstore(engine, () => clock, { pageBytes: 1_200 });
  });

  function inboxOf(user: MailUser, fields: readonly MessageField[]): ModelMailbox {
    const { mailstore } = store;
    const mailbox = 'INBOX';
    let appended = 0;
    return {
      async append(count) {
        for (let left = count; left > 0; left--) {
          // Long and short ones alternate, so that pages end at other UIDs each time.
          const subject = 'm'.repeat((appended++ * 271) % 800);
          await store.append(await store.stage(sampleMessage(subject)), [{ user, mailbox }]);
        }
      },
      async setFlag(uid, flag, on) {
        await mailstore.setFlags(
          user,
          { mailbox: mailbox, uids: [uid] },
          on ? { add: [flag] } : { remove: [flag] },
        );
      },
      async expunge(uid) {
        await mailstore.expunge(user, { mailbox: mailbox, uids: [uid] });
      },
      async moveAway(uid) {
        await mailstore.move(user, { mailbox: mailbox, uids: [uid] }, 'Trash');
      },
      async state() {
        const { changes } = await mailstore.sync(user, { mailbox, fields: ['flags'] });
        return new Map(changes.added.map(({ uid, flags }) => [uid, flags ?? []]));
      },
      fields,
      sync: (request) => mailstore.sync(user, { mailbox, ...request }),
      async forget() {
        clock += 31 * 86_400_000;
        await mailstore.pruneTombstones(30 * 86_400_000);
      },
    };
  }

  for (const fields of [['flags'], ['flags', 'envelope', 'bodyStructure']] as const) {
    test(`holds what the mailbox holds, with ${fields.join(', ')}`, async () => {
      await fc.assert(
        fc.asyncProperty(lives({ maxLength: 40, forgets: true }), async (steps) => {
          await live(inboxOf(await store.makeUser(), fields), steps);
        }),
        { numRuns: engine === 'sqlite' ? 100 : 30 },
      );
    });
  }
});
