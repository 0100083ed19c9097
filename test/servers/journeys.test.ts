/** The journeys of mail on every mail server: those of the embedded store, as they are. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const journeys = [
  'mail.test.ts',
  'mail-append.test.ts',
  'mail-content.test.ts',
  'mail-lists.test.ts',
  'mail-send.test.ts',
  'realtime.test.ts',
  'two-devices.test.ts',
].map((name) => fileURLToPath(new URL(`../journeys/${name}`, import.meta.url)));

void suite('the journeys of mail', () => {
  for (const name of ['dovecot', 'cyrus', 'courier']) {
    void test(`on ${name}`, async () => {
      // A runner of its own, which must not take itself for a part of this one.
      const { NODE_TEST_CONTEXT: _, ...env } = process.env;
      const child = spawn(
        process.execPath,
        ['--test', '--test-reporter=tap', '--test-timeout=120000', ...journeys],
        { env: { ...env, TEST_MAIL_SERVER: name }, stdio: ['ignore', 'pipe', 'inherit'] },
      );
      let said = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        said += text;
      });
      const [code] = await once(child, 'exit');
      assert.equal(code, 0, said);
    });
  }
});
