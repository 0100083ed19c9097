import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type TSchema, Type as TypeBox } from 'typebox';
import { checkOf, Type } from './schema.ts';

/** Schemas of every kind, with options and without. */
function schemasBy({
  Object: object,
  Array: array,
  ...type
}: Pick<typeof TypeBox, keyof typeof Type>): Record<string, TSchema> {
  const { Optional: optional, String: string } = type;
  const options = { title: 'T', description: 'd', examples: [1] };
  const some = object(
    { a: string({ minLength: 1 }), b: optional(type.Integer()), c: optional(type.Null(options)) },
    { ...options, additionalProperties: false },
  );
  return {
    some,
    empty: object({}),
    list: array(some, { maxItems: 2 }),
    flag: type.Boolean(options),
    words: type.Enum(['a', 'b'], { type: 'string' }),
    number: type.Number({ minimum: 0 }),
    literals: type.Union([type.Literal('a'), type.Literal(1), type.Literal(true)], options),
    partial: type.Partial(some, { title: 'Part' }),
    again: object({ all: type.Partial(some), maybe: optional(optional(some)) }),
    record: type.Record(string(), type.Integer(), options),
    pair: type.Tuple([type.Number(), string({ maxLength: 64 })], options),
    unknown: type.Unknown(options),
    unsafe: object({
      u: type.Unsafe<Date>({ type: 'string' }),
      o: type.Unsafe<Date>(optional(some)),
    }),
  };
}

test('schemas are what TypeBox makes of the same calls, in the same order', () => {
  const ours = schemasBy(Type);
  const theirs = schemasBy(TypeBox);
  for (const [name, schema] of Object.entries(theirs)) {
    assert.equal(JSON.stringify(ours[name]), JSON.stringify(schema), name);
  }
});

test('a check says whether a value is of its schema, and what is wrong with it', () => {
  const isSome = checkOf(
    Type.Object({
      id: Type.Integer({ minimum: 1 }),
      name: Type.Optional(Type.String({ maxLength: 2 })),
      after: Type.Optional(Type.Tuple([Type.Number(), Type.String()])),
    }),
  );
  assert.equal(isSome.problem(), undefined);
  for (const [value, problem] of [
    [{ id: 1, more: true }, undefined],
    [{ id: 1, name: 'ab', after: [1.5, 'x'] }, undefined],
    [{}, "it must have required property 'id'"],
    ['text', 'it must be object'],
    [{ id: 0 }, '/id must be >= 1'],
    [{ id: '1' }, '/id must be integer'],
    [{ id: 1, name: 'abc' }, '/name must NOT have more than 2 characters'],
    [{ id: 1, after: [1] }, '/after must NOT have fewer than 2 items'],
    [{ id: 1, after: [1, 'x', 2] }, '/after must NOT have more than 2 items'],
  ]) {
    assert.equal(isSome(value), problem === undefined);
    assert.equal(isSome.problem(), problem);
  }
});
