import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { OpenMailbox } from '../../mailboxes/mailstore/mailstore.ts';
import { type Ended, runCommand } from './run-command.ts';
import { Bye, type Channel, type ImapServices, Session } from './session.ts';
import { View } from './view.ts';
import type { Output } from './write.ts';

/** Runs a command of which nothing can be sent to its end. @returns what was begun */
async function cutOff(session: Session, command: string, error: Error) {
  const sent: Output[] = [];
  const ended: Ended[] = [];
  const send = (output: Output) => {
    sent.push(output);
    return Promise.reject(error);
  };
  const onEnd = (one: Ended) => ended.push(one);
  await assert.rejects(runCommand(session, [command], send, onEnd), (thrown) => {
    assert.ok(thrown instanceof Bye);
    assert.equal(thrown.cause, error instanceof Bye ? undefined : error);
    return true;
  });
  assert.deepEqual(
    ended.map(({ outcome }) => outcome),
    ['bye'],
  );
  return sent;
}

const channel = { address: '192.0.2.7' } as Channel;
const ERRORS = [new Error('the source is gone'), new Bye('The client left')];

test('what cannot be sent to its end has no other answer behind it: that would stand within its line', async () => {
  for (const error of ERRORS) {
    const session = new Session({} as ImapServices, channel);
    assert.deepEqual(await cutOff(session, 'x ID NIL', error), ['* ID ("name" "Postroom")\r\n']);
  }
});

test('nor have news of others, although the command itself was carried out', async () => {
  const updated = [{ uid: 1, modseq: '2', flags: ['\\Seen'] }];
  const changes = { added: [], updated, removed: [] };
  const sync = async () => ({ mailbox: 'INBOX', uidvalidity: '1', token: '2', changes });
  const mailbox = { id: 1, name: 'INBOX', uidvalidity: 1, highestmodseq: 1 } as OpenMailbox;
  for (const error of ERRORS) {
    const session = new Session({ mailstore: { sync } } as unknown as ImapServices, channel);
    const user = { accountId: 1, userId: 'u', address: 'a@a.test' };
    session.logIn({ ...user, credentialVersion: 1, expiresAt: 0 });
    session.openMailbox(new View({ mailbox, uids: [1], token: '1', isReadOnly: false }));
    assert.deepEqual(await cutOff(session, 'x NOOP', error), [
      '* 1 FETCH (UID 1 FLAGS (\\Seen))\r\n',
    ]);
  }
});
