/**
 * JSON Schemas with their TypeScript types. The types are TypeBox's. What makes the schemas is here: the dozen kinds that
 * we use are a few lines each, while TypeBox loads 500 files to make them, a tenth of the processor time of a start.
 */
import type { TProperties, TSchema, TSchemaOptions, Type as TypeBox } from 'typebox';

export type {
  Static,
  TNumberOptions,
  TObject,
  TSchema,
  TSchemaOptions,
  TStringOptions,
} from 'typebox';
export { type Check, checkOf } from './check.ts';

/** What says that a property may be missing. It is hidden: it is no part of the schema. */
const OPTIONAL = '~optional';

const isOptional = (schema: TSchema) => OPTIONAL in schema;

/** The same schema, hidden parts too, as an object of its own. */
const copy = (schema: TSchema): TSchema =>
  Object.defineProperties({}, Object.getOwnPropertyDescriptors(schema));

const optional = (schema: TSchema): TSchema =>
  Object.defineProperty(copy(schema), OPTIONAL, { value: true });

function object(properties: TProperties, options?: TSchemaOptions): TSchema {
  const names = Object.keys(properties);
  const required = names.filter((name) => !isOptional(properties[name] ?? {}));
  return { type: 'object', ...(required.length > 0 && { required }), properties, ...options };
}

function partial(schema: { properties: TProperties }, options?: TSchemaOptions): TSchema {
  const entries = Object.entries(schema.properties);
  return object(
    Object.fromEntries(entries.map(([name, value]) => [name, optional(value)])),
    options,
  );
}

const ofType = (type: string) => (options?: TSchemaOptions) => ({ type, ...options });

const builders = {
  Array: (items: TSchema, options?: TSchemaOptions) => ({ type: 'array', items, ...options }),
  Boolean: ofType('boolean'),
  Enum: (values: unknown, options?: TSchemaOptions) => ({ enum: values, ...options }),
  Integer: ofType('integer'),
  Literal: (value: unknown, options?: TSchemaOptions) => ({
    type: typeof value,
    const: value,
    ...options,
  }),
  Null: ofType('null'),
  Number: ofType('number'),
  Object: object,
  Optional: optional,
  Partial: partial,
  /** Only of texts as keys: those that TypeBox's type says. */
  Record: (_key: TSchema, value: TSchema, options?: TSchemaOptions) => ({
    type: 'object',
    patternProperties: { '^.*$': value },
    ...options,
  }),
  String: ofType('string'),
  Tuple: (items: readonly TSchema[], options?: TSchemaOptions) => ({
    type: 'array',
    additionalItems: false,
    items,
    minItems: items.length,
    ...options,
  }),
  Union: (anyOf: readonly TSchema[], options?: TSchemaOptions) => ({ anyOf, ...options }),
  Unknown: (options?: TSchemaOptions) => ({ ...options }),
  Unsafe: copy,
};

/** Makes schemas, each as TypeBox's function of that name does. */
export const Type = builders as unknown as Pick<typeof TypeBox, keyof typeof builders>;
