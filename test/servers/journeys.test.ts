/** Journeys of one node on the embedded store, as they are: on every mail server, and on three nodes. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { onMailServers, onNodes } from './journeys.ts';
import { sharedS3 } from './s3.ts';

/** Longer than other tests may take: they are whole suites. */
const timeout = 1_200_000;

/** @param signal ends the runner with the test */
async function run(
  journeys: readonly string[],
  environment: Record<string, string>,
  signal: AbortSignal,
) {
  const files = journeys.map((name) =>
    fileURLToPath(new URL(`../journeys/${name}`, import.meta.url)),
  );
  // A runner of its own, which must not take itself for a part of this one.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(
    process.execPath,
    ['--test', '--test-reporter=tap', '--test-timeout=120000', ...files],
    { env: { ...env, ...environment }, stdio: ['ignore', 'pipe', 'inherit'], signal },
  );
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const [code] = await once(child, 'exit');
  assert.equal(code, 0, said);
}

void suite('the journeys of mail', { concurrency: 2 }, () => {
  for (const name of ['dovecot', 'cyrus', 'courier']) {
    // What sending asks of a mail server is to append a copy, which other suites hold on each of them.
    const journeys = name === 'dovecot' ? [...onMailServers, 'mail-send.test.ts'] : onMailServers;
    void test(`on ${name}`, { timeout }, ({ signal }) =>
      run(journeys, { TEST_MAIL_SERVER: name }, signal),
    );
  }
  void test(
    'on three nodes behind a load balancer that changes the node at every request',
    {
      timeout,
    },
    async ({ signal }) => run(onNodes, { TEST_NODES: '3', TEST_S3_URL: await sharedS3() }, signal),
  );
});
