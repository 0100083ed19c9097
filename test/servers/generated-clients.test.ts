/** What the usual generators make of the API's description: their output type-checks, and says what an answer has. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ROOT } from '../support/process.ts';

const repository = fileURLToPath(new URL('../../', import.meta.url));
// One of them refuses the compiler of this repository, so that they have a folder of their own.
const folder = join(ROOT, 'generated');
const PACKAGES = [
  'openapi-typescript@7.13.0',
  '@hey-api/openapi-ts@0.99.0',
  'typescript@5.9.3',
] as const;

const run = (command: string, ...args: string[]) =>
  promisify(execFile)(command, args, { cwd: folder, encoding: 'utf8' });
const tool = (name: string, ...args: string[]) =>
  run(process.execPath, join(folder, 'node_modules/.bin', name), ...args);

/** Type-checks what was generated, with uses of it. */
async function check(compiler: string): Promise<void> {
  const config = {
    compilerOptions: {
      ...{ strict: true, noEmit: true, target: 'es2022', module: 'esnext' },
      ...{ moduleResolution: 'bundler', allowImportingTsExtensions: true },
      ...{ lib: ['es2023', 'dom', 'dom.iterable'], types: [] },
    },
    include: ['use-types.ts', 'use-client.ts', 'paths.ts', 'client'],
  };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config));
  const { stdout } = await run(process.execPath, compiler, '-p', folder).catch((error) => error);
  assert.equal(stdout, '');
}

before(async () => {
  await mkdir(folder);
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  const quick = ['--prefer-offline', '--no-audit', '--no-fund'];
  await run('npm', 'install', ...quick, ...PACKAGES);
  await copyFile(join(repository, 'docs/openapi.json'), join(folder, 'openapi.json'));
  await tool('openapi-typescript', 'openapi.json', '-o', 'paths.ts');
  await writeFile(join(folder, 'use-types.ts'), USE_OF_TYPES);
  await writeFile(join(folder, 'use-client.ts'), USE_OF_CLIENT);
  await tool('openapi-ts', '-i', 'openapi.json', '-o', 'client', '-c', '@hey-api/client-fetch');
});

const compilers = {
  'TypeScript 5.9': join(folder, 'node_modules/typescript/bin/tsc'),
  'the TypeScript of this repository': join(repository, 'node_modules/typescript/bin/tsc'),
};

const SAME = `type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;\n`;

/** Of what openapi-typescript made: the codes of an operation, and the words of an answer. */
const USE_OF_TYPES = `import type { components, operations } from './paths.ts';
  ${SAME}
  type Shapes = components['schemas'];
  type Conflict = operations['createDomain']['responses'][409]['content']['application/json'];
  export const codes: Same<
    Conflict['code'],
    'domain_exists' | 'idempotency_key_reused' | 'idempotency_key_in_use'
  > = true;
  export const modes: Same<
    Shapes['Route']['forward_mode'], Shapes['SetRouteBody']['forward_mode']
  > = true;
  export const statuses: Same<
    Shapes['DnsRecord']['status'], 'pending' | 'verified' | 'failed' | 'disabled'
  > = true;
  // @ts-expect-error a delivery is never this
  export const kind: Shapes['Delivery']['kind'] = 'letter';`;

/** Of what @hey-api/openapi-ts made: what a call takes and answers. */
const USE_OF_CLIENT = `import { createDomain, listDeliveries, type Delivery, type Problem } from './client/index';
  export async function claim(domain: string): Promise<string> {
    const { data, error } = await createDomain({ body: { domain, user_id: 'u' } });
    if (!data) return error.code === 'domain_exists' ? error.detail : fail(error);
    return data.domain.dns.map(({ purpose }) => purpose satisfies 'mx' | 'spf' | 'dmarc' | 'dkim').join();
  }
  function fail({ request_id, errors = [] }: Problem): string {
    return [request_id, ...errors.map(({ field }) => field)].join();
  }
  export async function failed(domain: string): Promise<Delivery[]> {
    const path = { domain };
    const { data } = await listDeliveries({ path, query: { user_id: 'u', status: 'failed', order: 'newest' } });
    return data?.items ?? [];
  }
  // @ts-expect-error a body needs its user
  void createDomain({ body: { domain: 'acme.test' } });`;

for (const [name, compiler] of Object.entries(compilers)) {
  test(`${name} knows the types of openapi-typescript, and the calls of @hey-api/openapi-ts`, async () => {
    await check(compiler);
  });
}

test('no name is used twice, and what is sent has a type', async () => {
  const types = await readFile(join(folder, 'client/types.gen.ts'), 'utf8');
  assert.doesNotMatch(types, /export type \w+2 = /);
  assert.doesNotMatch(types, /body\??: unknown/);
});
