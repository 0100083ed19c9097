import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { type Change, type MailboxChange, SharedChanges } from './changes.ts';

const log = { warn: () => {} };

function change(accountId: number, parts: Partial<MailboxChange> = {}): MailboxChange {
  return {
    kind: 'mailbox',
    accountId,
    mailbox: 'INBOX',
    uidvalidity: '7',
    token: '2',
    eventType: 'MailboxesChanged',
    ...parts,
  };
}

/** A node, and what it sent. */
function openNode(node: string) {
  const sent: string[] = [];
  const heard: Change[] = [];
  const counts: Record<string, number> = {};
  const wire = {
    isOpen: true,
    fails: false,
    async send(text: string) {
      if (wire.fails) throw new Error('nobody knows whether it arrived');
      sent.push(text);
    },
  };
  const count = (result: string, amount: number) => {
    counts[result] = (counts[result] ?? 0) + amount;
  };
  const changes = new SharedChanges({ node, wire, log, count });
  for (const id of [1, 2]) changes.subscribe(id, (told) => heard.push(told));
  return { changes, wire, sent, heard, counts };
}

suite('what is sent to other nodes', () => {
  test('is one text for changes that come together, with the latest of each mailbox', async () => {
    const { changes, sent, heard } = openNode('a');
    changes.publish(change(1, { token: '2' }));
    changes.publish(change(1, { token: '3' }));
    changes.publish(change(2));
    changes.publish({ kind: 'mailboxes', accountId: 1 });
    changes.publish({ kind: 'subscriptions', accountId: 1 });
    changes.publish({ kind: 'access', accountId: 1, reason: 'suspended' });
    assert.equal(heard.length, 6, 'its own listeners hear all, at once');
    assert.deepEqual(sent, []);
    await changes.flush();
    assert.deepEqual(
      sent.map((text) => JSON.parse(text)),
      [
        {
          node: 'a',
          changes: [
            change(1, { token: '3' }),
            change(2),
            { kind: 'mailboxes', accountId: 1 },
            { kind: 'subscriptions', accountId: 1 },
            { kind: 'access', accountId: 1, reason: 'suspended' },
          ],
        },
      ],
    );
  });

  test('waits while the connection is closed or fails, and is limited', async () => {
    const { changes, wire, sent, counts } = openNode('a');
    wire.isOpen = false;
    for (let id = 1; id <= 10_500; id++) changes.publish(change(id));
    await changes.flush();
    assert.equal(sent.length, 0);
    wire.isOpen = true;
    wire.fails = true;
    await changes.flush();
    wire.fails = false;
    await changes.flush();
    const accounts = sent.flatMap((text) =>
      JSON.parse(text).changes.map(({ accountId }: MailboxChange) => accountId),
    );
    assert.deepEqual([accounts.length, accounts[0], accounts.at(-1)], [10_000, 501, 10_500]);
    assert.equal(counts.sent, 10_000);
  });

  test('includes a change that came while an older one of the same mailbox was being sent', async () => {
    const { changes, wire, sent } = openNode('a');
    const send = wire.send;
    wire.send = async (text) => {
      wire.send = send;
      changes.publish(change(1, { token: '3' }));
      await send(text);
    };
    changes.publish(change(1, { token: '2' }));
    await changes.flush();
    const tokens = sent.map((text) => JSON.parse(text).changes[0].token);
    assert.deepEqual(tokens, ['2', '3']);
  });
});

suite('what comes from other nodes', () => {
  test('is passed to the listeners, except a node’s own changes', async () => {
    const [a, b] = [openNode('a'), openNode('b')];
    a.changes.publish(change(1));
    await a.changes.flush();
    const [text = ''] = a.sent;
    b.changes.receive(text);
    a.changes.receive(text);
    assert.deepEqual(b.heard, [change(1)]);
    assert.equal(a.heard.length, 1);
    await b.changes.flush();
    assert.deepEqual(b.sent, [], 'it is not sent on');
  });

  test('ends each session that it names', async () => {
    const [a, b] = [openNode('a'), openNode('b')];
    const end = { kind: 'mail_sessions', accountId: 1, by: 'app_password' } as const;
    const ends = ['1', '2'].map((id) => ({ ...end, id }));
    for (const one of ends) a.changes.publish(one);
    await a.changes.flush();
    for (const text of a.sent) b.changes.receive(text);
    assert.deepEqual(b.heard, ends);
  });

  test('is ignored where it is no change; the others of the text are published', () => {
    const { changes, heard, counts } = openNode('b');
    const wrong = [
      null,
      { kind: 'later', accountId: 1 },
      { kind: 'access', accountId: 1, reason: 'bored' },
      { kind: 'access', accountId: -1, reason: 'deleted' },
      { kind: 'access', accountId: '1', reason: 'deleted' },
      { ...change(1), token: 7 },
      { ...change(1), uidvalidity: 'x' },
      { ...change(1), mailbox: 'x'.repeat(1_025) },
      { kind: 'events', userId: 7 },
      { kind: 'mail_sessions', accountId: 1, by: 'chance', id: '1' },
    ];
    changes.receive(JSON.stringify({ node: 'a', changes: [...wrong, change(2)] }));
    assert.deepEqual(heard, [change(2)]);
    assert.deepEqual(counts, { received: 1, refused: wrong.length });
    for (const text of ['', '{', 'null', '[]', '{"node":"a"}', '{"node":7,"changes":[]}']) {
      changes.receive(text);
    }
    changes.receive(JSON.stringify({ node: 'a', changes: Array(1_001).fill(change(1)) }));
    changes.receive(JSON.stringify({ node: 'a', changes: [], more: 'x'.repeat(9_000_000) }));
    assert.equal(heard.length, 1);
    assert.equal(counts.refused, wrong.length + 8);
  });

  test('may be any text', () => {
    const { changes } = openNode('b');
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        changes.receive(text);
        changes.receive(`{"node":"a","changes":[${text}]}`);
      }),
      { numRuns: 300 },
    );
  });
});
