import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Ended, runCommand } from './run-command.ts';
import { Bye, type Channel, type ImapServices, Session } from './session.ts';
import type { Output } from './write.ts';

test('what cannot be sent to its end has no other answer behind it: that would stand within its line', async () => {
  for (const error of [new Error('the source is gone'), new Bye('The client left')]) {
    const session = new Session({} as ImapServices, { address: '192.0.2.7' } as Channel);
    const sent: Output[] = [];
    const ended: Ended[] = [];
    const send = (output: Output) => {
      sent.push(output);
      return Promise.reject(error);
    };
    const onEnd = (one: Ended) => ended.push(one);
    await assert.rejects(runCommand(session, ['x ID NIL'], send, onEnd), (thrown) => {
      assert.ok(thrown instanceof Bye);
      assert.equal(
        thrown === error ? undefined : thrown.cause,
        error instanceof Bye ? undefined : error,
      );
      return true;
    });
    assert.deepEqual(sent, ['* ID ("name" "Postroom")\r\n']);
    assert.deepEqual(ended, [{ name: 'ID', outcome: 'bye' }]);
  }
});
