/** The Python samples of the API reference, run against a service. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { readReference, readSamples } from '../support/reference-samples.ts';
import { API_KEY, startTestService } from '../support/service.ts';

/** Runs each sample; prints the statuses of the answers. */
const runner = `
import contextlib, io, json, sys
from urllib.error import HTTPError

statuses = []
for sample in json.load(open(sys.argv[1])):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            exec(sample, {})
            statuses.append(int(printed.getvalue().split()[0]))
        except HTTPError as error:
            statuses.append(error.code)
print(json.dumps(statuses))
`;

test('each one is a call that the service accepts', async () => {
  const service = await startTestService('sqlite');
  const { token } = await service.makeAccount();
  const directory = await mkdtemp(join(tmpdir(), 'postroom-python-'));
  const samples = readSamples(await readReference(), 'python [Python]', service.url);
  assert.ok(samples.length > 20);
  const path = join(directory, 'samples.json');
  await writeFile(path, JSON.stringify(samples));
  const env = {
    ...process.env,
    KEY: API_KEY,
    TOKEN: token,
    SIGNATURE: '00',
    COOKIE: 'x=y',
    SESSION: 'x',
  };
  const { stdout } = await promisify(execFile)('python3', ['-c', runner, path], { env });
  await rm(directory, { recursive: true });
  const statuses: number[] = JSON.parse(stdout);
  for (const [index, status] of statuses.entries()) {
    assert.ok(![400, 405, 413, 415, 500].includes(status), `${samples[index]}\n${status}`);
  }
});
