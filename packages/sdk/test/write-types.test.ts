/** The SDK's types are those of the API's description. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { SDK_TYPES, writeSdkTypes } from '../write-types.ts';

const answer = (schema: object) => ({
  paths: {
    '/v2/things/{id}': {
      post: {
        operationId: 'changeThing',
        summary: 'Change a thing',
        parameters: [
          { name: 'id', in: 'path', required: true, schema: { type: 'integer' } },
          { name: 'idempotency-key', in: 'header', schema: { type: 'string' } },
        ],
        responses: {
          '400': {
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Problem' } } },
          },
          '201': { content: { 'application/json': { schema } } },
        },
      },
    },
  },
  components: { schemas: {} },
});

test('docs/openapi.json and the types of the SDK belong together: else run `npm run openapi`', async () => {
  const api = JSON.parse(await readFile('docs/openapi.json', 'utf8'));
  assert.equal(await readFile(SDK_TYPES, 'utf8'), writeSdkTypes(api));
});

test('an operation has its route, its parameters and its answer', () => {
  const schema = {
    type: 'object',
    required: ['a'],
    properties: {
      a: { type: ['string', 'null'], description: 'Of */ it.' },
      'b-c': { type: 'array', items: { enum: ["it's", 1] } },
      d: { type: 'object', additionalProperties: { type: 'boolean' } },
      e: { anyOf: [{ $ref: '#/components/schemas/Problem' }, { const: 'x' }] },
    },
  };
  const written = writeSdkTypes(answer(schema));
  assert.ok(written.includes("  changeThing: 'POST /v2/things/{id} key',"), written);
  assert.ok(written.includes('/** Of *\\/ it. */\n      a: string | null;'), written);
  assert.ok(written.includes("'b-c'?: ('it\\'s' | 1)[];"), written);
  assert.ok(written.includes('d?: Record<string, boolean>;'), written);
  assert.ok(written.includes("e?: Problem | 'x';"), written);
  assert.ok(
    written.includes('path: {\n      id: number;\n    };\n    query: Record<never, never>;'),
    written,
  );
});

test('a keyword that has no type here stops the writing', () => {
  assert.throws(() => writeSdkTypes(answer({ type: 'strange' })), /the type strange/);
});
