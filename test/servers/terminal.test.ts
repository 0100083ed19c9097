/** What a person sees who starts Postroom at a terminal. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { environment, listening, startAtTerminal } from '../support/process.ts';

test('at a terminal the log is for people, and the text of the first start comes last', async () => {
  const env = await environment('terminal');
  const service = startAtTerminal(env);
  await listening(service);
  while (!service.output().includes('postroom demo')) {
    assert.ok(service.child.stdout);
    await once(service.child.stdout, 'data');
  }
  const [before = '', banner = ''] = service.output().split(/(?=Postroom listens)/);
  assert.match(before, /INFO/);
  assert.doesNotMatch(service.output(), /^\{/m);
  assert.match(banner, new RegExp(`Webmail +http://127.0.0.1:${env.PORT}/webmail`));
  assert.doesNotMatch(banner, /INFO/);

  await fetch(`http://127.0.0.1:${env.PORT}/v2/nothing`);
  while (!service.output().includes('"path":"/v2/nothing"')) {
    assert.ok(service.child.stdout);
    await once(service.child.stdout, 'data');
  }
  assert.match(service.output(), /INFO.*: .*request.*"status":404/);
  service.child.kill('SIGTERM');
  await service.ended();
});
