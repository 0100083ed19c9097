import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { before, test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { describeWholeApi, routesElsewhere } from '../../docs/.vitepress/write-openapi.ts';
import { answerOf, answers, type ErrorCode } from '../../src/platform/errors/errors.ts';
import { startApi } from '../support/api/start-api.ts';

interface Schema {
  $ref?: string;
  anyOf?: { $ref: string }[];
}

interface Operation {
  operationId?: string;
  summary?: string;
  tags?: string[];
  security?: object[];
  responses: Record<string, { description: string; content?: Record<string, { schema: Schema }> }>;
}

let text: string;
let operations: { name: string; operation: Operation }[];

before(async () => {
  text = await describeWholeApi();
  const paths: Record<string, Record<string, Operation>> = JSON.parse(text).paths;
  operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      operation,
    })),
  );
});

test('docs/openapi.json is what the routes describe', async () => {
  const golden = await readFile(new URL('../../docs/openapi.json', import.meta.url), 'utf8');
  assert.equal(text, golden, 'run `npm run openapi` and look at what changed');
});

test('it is valid OpenAPI 3.1, and has the version of the package', async () => {
  const validator = new Validator();
  const { valid, errors } = await validator.validate(JSON.parse(text));
  assert.ok(valid, JSON.stringify(errors));
  assert.equal(validator.version, '3.1');
  const packageJson = await readFile(new URL('../../package.json', import.meta.url), 'utf8');
  assert.equal(JSON.parse(text).info.version, JSON.parse(packageJson).version);
  const broken = JSON.parse(text);
  broken.paths['/mail/sync'].post.parameters = 'none';
  assert.ok(!(await new Validator().validate(broken)).valid);
});

test('resources are named shapes, events and webhooks too', () => {
  const { components, paths, webhooks } = JSON.parse(text);
  for (const name of [
    ...['Domain', 'DomainDetails', 'DnsRecord', 'Route', 'EmailAccount', 'Delivery', 'Token'],
    ...['Mailbox', 'Sync', 'Message', 'Envelope', 'Address', 'BodyStructure', 'Content'],
    ...['SearchMatch', 'MessageReceived', 'HelloEvent', 'MailboxChangedEvent', 'Problem'],
    ...['CreateDomainBody', 'CreateDomainAnswer', 'ListDomainsAnswer', 'SyncMailboxBody'],
  ]) {
    assert.equal(components.schemas[name]?.type, 'object', name);
  }
  const bodyOf = webhooks['message.received'].post.requestBody.content['application/json'];
  assert.deepEqual(bodyOf.schema, { $ref: '#/components/schemas/MessageReceived' });
  const told = paths['/ws'].get['x-events'];
  assert.deepEqual(told.hello, { $ref: '#/components/schemas/HelloEvent' });
  const parts = components.schemas.BodyStructure.properties.childNodes.items;
  assert.deepEqual(parts, { $ref: '#/components/schemas/BodyStructure' }, 'a tree');
});

test('it has every operation of the contract', () => {
  const names = operations.map(({ name }) => name);
  for (const name of [
    'POST /v2/domain',
    'GET /v2/domains/{domain}/info',
    'POST /v2/domains/delete',
    'PUT /v2/domains/{domain}/route',
    'GET /v2/domains/{domain}/dns',
    'POST /v2/domains/{domain}/dns/mark',
    'GET /v2/domains/{domain}/email-accounts',
    'POST /v2/email-accounts/create',
    'GET /v2/email-accounts',
    'GET /v2/email-accounts/{id}',
    'PUT /v2/email-accounts/{id}',
    'POST /v2/email-accounts/delete',
    'POST /v2/email-accounts/{id}/password/reset',
    'POST /v2/email-accounts/{id}/token',
    'POST /mail/token',
    'POST /mail/sync',
    'GET /mail/message',
    'GET /mail/attachment',
    'GET /healthz',
    'GET /readyz',
    'GET /',
    'GET /docs',
  ]) {
    assert.ok(names.includes(name), name);
  }
});

test('every operation is described, tagged and says who may call it', () => {
  const { components } = JSON.parse(text);
  const schemes: Record<string, string> = { '/v2/': 'apiKey', '/mail/': 'bearer' };
  for (const { name, operation } of operations) {
    assert.ok(operation.summary, name);
    assert.equal(operation.tags?.length, 1, name);
    assert.ok(operation.security, name);
    const path = name.split(' ')[1] ?? '';
    const isSession = path === '/v2/operator/console/session';
    const scheme = Object.entries(schemes).find(([prefix]) => path.startsWith(prefix))?.[1];
    if (path.startsWith('/v2/operator/') && !isSession)
      assert.deepEqual(operation.security, [{ apiKey: [] }, { console: [] }], name);
    else if (scheme && !path.startsWith('/mail/token') && !isSession)
      assert.deepEqual(operation.security, [{ [scheme]: [] }]);
    for (const [status, { content }] of Object.entries(operation.responses)) {
      if (Number(status) < 400) continue;
      const schema = content?.['application/json']?.schema ?? assert.fail(name);
      for (const { $ref = '' } of schema.anyOf ?? [schema]) {
        const shape = $ref.replace('#/components/schemas/', '');
        const [problem, { properties }] = components.schemas[shape].allOf;
        assert.deepEqual(problem, { $ref: '#/components/schemas/Problem' });
        const [code] = properties.code.enum as [ErrorCode];
        assert.equal(answerOf(code).http, Number(status), `${name}: ${code}`);
        assert.equal(shape.toLowerCase(), `${code.replaceAll('_', '')}problem`);
      }
    }
  }
});

test('every reference has a target, and every code is named', () => {
  const { components } = JSON.parse(text);
  for (const [, name = ''] of text.matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
    assert.ok(name in components.schemas, name);
  }
  assert.deepEqual(components.schemas.Problem.properties.code.enum, Object.keys(answers));
});

test("what the console's cookie opens may lack its token, and a profile may not be there", () => {
  for (const { name, operation } of operations) {
    if (!operation.security?.some((credential) => 'console' in credential)) continue;
    const refused = JSON.stringify(operation.responses['403'] ?? '');
    assert.equal(refused.includes('csrf_token_invalid'), !name.startsWith('GET '), name);
  }
  const profile = operations.find(({ name }) => name.endsWith('/mobileconfig'));
  assert.match(profile?.operation.responses['404']?.description ?? '', /route_not_found/);
});

test('whatever writes may find the disk full, and a socket may be one too many', () => {
  const codesOf = ({ responses }: Operation, status: number): string[] =>
    responses[status]?.description.match(/(?<=`)\w+(?=`:)/g) ?? [];
  for (const { name, operation } of operations) {
    const onlyReads = ['issueToken', 'readSends'].includes(operation.operationId ?? '');
    const isWrite = !name.startsWith('GET ') && !onlyReads;
    assert.equal(codesOf(operation, 503).includes('storage_full'), isWrite, name);
  }
  const socket = operations.find(({ name }) => name === 'GET /ws')?.operation;
  assert.ok(socket);
  assert.deepEqual(codesOf(socket, 400), ['invalid_request']);
  assert.deepEqual(codesOf(socket, 429), ['too_many_connections', 'rate_limited']);
});

test('a running server serves it', async () => {
  const api = await startApi('sqlite', { routes: routesElsewhere });
  const served = await api.call('GET', '/docs/openapi.json', undefined, { 'x-api-key': undefined });
  assert.equal(served.status, 200);
  assert.deepEqual(served.body, JSON.parse(text));
  const etag = served.headers.get('etag') ?? '';
  const again = await api.call('GET', '/docs/openapi.json', undefined, { 'if-none-match': etag });
  assert.equal(again.status, 304);
});
