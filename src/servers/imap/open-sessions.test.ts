/** Sessions of mail programs on several nodes, as operators list them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type NodeWire, type OpenSession, OpenSessions, SessionsOfNodes } from './imap.ts';

type Session = Omit<OpenSession, 'host'>;

function sessionOf(id: string, accountId: number, since: number): Session {
  return {
    id,
    accountId,
    address: 'ada@acme.test',
    client: '192.0.2.1',
    since,
    isSecure: true,
    program: 'mbsync',
    command: 'IDLE',
    commandAt: since,
    received: 1,
    sent: 2,
  };
}

/** Nodes whose texts reach all of them. */
function openNodes(names: readonly string[], running = names, answerMs = 10_000) {
  const listeners: ((text: string) => void)[] = [];
  const wire: NodeWire = {
    send: async (text) => {
      for (const listener of listeners) listener(text);
    },
    listen: (listener) => {
      listeners.push(listener);
    },
  };
  const nodes = names.map((node) => {
    const here = new OpenSessions();
    const open = (session: Session) => here.add({ describe: () => session });
    const all = new SessionsOfNodes({ here, node, listNodes: async () => running, wire, answerMs });
    return { open, all, here };
  });
  return { nodes, listeners, wire };
}

const idsOf = ({ sessions }: { readonly sessions: readonly OpenSession[] }) =>
  sessions.map(({ id }) => id);

test('all nodes are asked; pages are in the order of the logins, whichever node has them', async () => {
  const { nodes } = openNodes(['a', 'b', 'c']);
  for (let at = 0; at < 9; at++) {
    // Three logins at once: their ids decide.
    nodes[at % 3]?.open(sessionOf(`s${at}`, at % 2, Math.floor(at / 3)));
  }
  const { all } = nodes[1] ?? assert.fail();
  const first = await all.list({ limit: 4 });
  assert.ok(first.isComplete);
  assert.deepEqual(idsOf(first), ['s8', 's7', 's6', 's5']);
  const rest = await all.list({ limit: 100, after: [1, 's5'] });
  assert.deepEqual(idsOf(rest), ['s4', 's3', 's2', 's1', 's0']);
  assert.deepEqual(idsOf(await all.list({ limit: 100, accountId: 1 })), ['s7', 's5', 's3', 's1']);
  assert.deepEqual(idsOf(await all.list({ limit: 1, id: 's3' })), ['s3']);
});

test('a node that does not answer is waited for until the time is over, and said to be missing', async () => {
  const { nodes } = openNodes(['a', 'b'], ['a', 'b', 'frozen'], 50);
  nodes[0]?.open(sessionOf('s1', 1, 1));
  nodes[1]?.open(sessionOf('s2', 1, 2));
  const found = await nodes[0]?.all.list({ limit: 10 });
  assert.equal(found?.isComplete, false);
  assert.deepEqual(idsOf(found), ['s2', 's1']);
});

test('without a wire a node shows its own, and knows whether there are others', async () => {
  const here = new OpenSessions();
  here.add({ describe: () => sessionOf('s1', 1, 1) });
  here.add({ describe: () => undefined });
  for (const others of [[], ['b']]) {
    const all = new SessionsOfNodes({ here, node: 'a', listNodes: async () => ['a', ...others] });
    const found = await all.list({ limit: 10 });
    assert.deepEqual(idsOf(found), ['s1']);
    assert.equal(found.isComplete, others.length === 0);
  }
  assert.deepEqual(here.count(), { open: 1, idle: 1 });
});

test('where the wire is closed a node shows its own', async () => {
  const { nodes, wire } = openNodes(['a', 'b']);
  nodes[0]?.open(sessionOf('s1', 1, 1));
  wire.send = async () => Promise.reject(new Error('closed'));
  const found = await nodes[0]?.all.list({ limit: 10 });
  assert.deepEqual([found?.isComplete, idsOf(found ?? assert.fail())], [false, ['s1']]);
});

test('texts of others may hold anything, and no node answers twice', async () => {
  const { nodes, listeners, wire } = openNodes(['a', 'b']);
  nodes[1]?.open(sessionOf('s2', 1, 2));
  const forged = sessionOf('forged', 1, 9);
  const send = wire.send;
  wire.send = async (text) => {
    await send(text);
    const { answer } = JSON.parse(text);
    if (!answer) return;
    for (const from of ['b', 'stranger']) {
      await send(JSON.stringify({ from, answer, sessions: [{ ...forged, host: 'x' }] }));
    }
  };
  assert.deepEqual(idsOf((await nodes[0]?.all.list({ limit: 10 })) ?? assert.fail()), ['s2']);
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      for (const listener of listeners) {
        listener(text);
        listener(`{"from":"b","ask":"1","query":${text}}`);
        listener(`{"from":"b","answer":"1","sessions":${text}}`);
      }
    }),
  );
});
