/** NOTIFY (RFC 5465) where there is too much to watch, and where events are lost. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ImapLines } from '../../../test/support/imap-lines.ts';
import { startImapWith } from '../../../test/support/imap-listener.ts';
import type { AccountChange } from '../../mailboxes/changes/changes.ts';
import type { OpenMailbox } from '../../mailboxes/mailstore/mailstore.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { ImapMailstore } from './imap.ts';

function mailbox(id: number, name = `m${id}`): OpenMailbox {
  return {
    ...{ id, name, uidvalidity: id, highestmodseq: 1, pruned_modseq: 0, fork_modseq: 0 },
    ...{ uidnext: 1, messages: 0, unseen: 0, octets: 0, special_use: null, keywords: '' },
    recent_uid: 1,
  };
}

/** A listener on mailboxes that a test changes, with or without an event. */
async function start(recheckMs = 60_000) {
  const all = new Map<string, OpenMailbox>();
  const put = (one: OpenMailbox) => all.set(one.name, one);
  let tell: (change: AccountChange) => void = () => {};
  const counts = { lists: 0, opens: 0, isAway: false };
  const imap = {
    async list() {
      counts.lists++;
      if (counts.isAway) throw new Refusal('unavailable', 'away');
      return [...all.values()];
    },
    async open(_: unknown, name: string) {
      counts.opens++;
      return all.get(name) ?? Promise.reject(new Refusal('mailbox_not_found', 'none'));
    },
    subscriptions: async () => new Map(),
  };
  const listener = await startImapWith({
    mailstore: { imap } as unknown as ImapMailstore,
    changes: {
      subscribe: (accountId, listen) => {
        if (accountId === 1) tell = listen;
        return () => {};
      },
    },
    accessOf: async () => new Map([[1, { status: 'active', credentialVersion: 5 }]]),
    recheckMs,
  });
  const client = await ImapLines.connect(listener.address.port);
  await client.ok('LOGIN 1 x');
  const changed = (name: string) => {
    const rest = { uidvalidity: '1', token: '1', eventType: 'MailboxesChanged' };
    tell({ kind: 'mailbox', accountId: 1, mailbox: name, ...rest });
  };
  const listed = () => tell({ kind: 'mailboxes', accountId: 1 });
  const stop = async () => {
    client.close();
    await listener.close(1_000);
  };
  return { client, put, counts, changed, listed, stop };
}

const MESSAGES = '(MessageNew MessageExpunge)';

test('a session watches 500 mailboxes at most, and is told when there are more', async () => {
  const { client, put, counts, changed, listed, stop } = await start();
  for (let id = 1; id <= 500; id++) put(mailbox(id));
  const told = await client.ok(`NOTIFY SET STATUS (personal ${MESSAGES})`);
  assert.equal(told.length, 500);
  assert.equal(told[0], '* STATUS "m1" (MESSAGES 0 UIDNEXT 1 UIDVALIDITY 1)');
  // All of one list: none is asked for alone.
  assert.deepEqual([counts.lists, counts.opens], [1, 0]);
  put({ ...mailbox(7), messages: 1, uidnext: 2 });
  for (let times = 0; times < 100; times++) changed('m7');
  assert.match(await client.next(), /^\* STATUS "m7" \(MESSAGES 1 UIDNEXT 2 /);
  assert.deepEqual([counts.lists, counts.opens], [1, 1]);
  put(mailbox(501));
  listed();
  assert.match(await client.next(), /^\* OK \[NOTIFICATIONOVERFLOW\] More than 500 mailboxes/);
  put({ ...mailbox(7), messages: 2, uidnext: 3 });
  changed('m7');
  assert.deepEqual(await client.ok('NOOP'), []);
  const again = await client.command(`NOTIFY SET STATUS (personal ${MESSAGES})`);
  assert.match(again.join('\n'), /^NO \[NOTIFICATIONOVERFLOW\] At most 500 mailboxes/);
  // By name they are fewer.
  assert.match(
    (await client.ok(`NOTIFY SET STATUS (mailboxes m7 ${MESSAGES})`)).join('\n'),
    /^\* STATUS "m7" \(MESSAGES 2 UIDNEXT 3 UIDVALIDITY 7\)$/,
  );
  await stop();
});

test('what events did not tell is found by the check of the accounts', async () => {
  const { client, put, stop } = await start(20);
  put(mailbox(1));
  await client.ok(`NOTIFY SET (personal (MessageNew MessageExpunge MailboxName))`);
  put({ ...mailbox(1), messages: 1, uidnext: 2 });
  assert.match(await client.next(), /^\* STATUS "m1" \(MESSAGES 1 UIDNEXT 2 /);
  put(mailbox(2, 'new'));
  assert.equal(await client.next(), '* LIST (\\HasNoChildren \\Subscribed) "/" "new"');
  await stop();
});

test('what could not be read is told when it can be, and a session outlives that', async () => {
  const { client, put, counts, listed, stop } = await start();
  put(mailbox(1));
  await client.ok(`NOTIFY SET (personal (MailboxName))`);
  put(mailbox(2, 'new'));
  counts.isAway = true;
  listed();
  while (counts.lists < 2) await new Promise((resolve) => setImmediate(resolve));
  counts.isAway = false;
  listed();
  assert.match(await client.next(), /^\* LIST \(.*\) "\/" "new"$/);
  // A NOTIFY that fails leaves what was set before.
  counts.isAway = true;
  assert.match((await client.command('NOTIFY SET (inboxes (SubscriptionChange))')).join(), /^NO /);
  counts.isAway = false;
  put(mailbox(3, 'newer'));
  listed();
  assert.match(await client.next(), /"newer"$/);
  await stop();
});
