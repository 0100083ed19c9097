/** Checks values that come from outside of the program, but for HTTP, by their schemas. */
import { createRequire } from 'node:module';
import type { Ajv, ValidateFunction } from 'ajv';
import type { Static, TSchema } from 'typebox';

let ajv: Ajv | undefined;

/** Loaded at the first check, which many commands and tests never make. */
function loadAjv(): Ajv {
  const module = createRequire(import.meta.url)('ajv') as typeof import('ajv');
  // The schemas are ours: to check them by the schema of schemas would take longer than to compile them.
  return new module.Ajv({ validateSchema: false });
}

/** Whether a value is of a schema. */
export interface Check<Value> {
  (value: unknown): value is Value;
  /** What is wrong with the value that was checked last; undefined where nothing is. */
  problem(): string | undefined;
}

/** @returns a check of values by a schema, which is compiled at its first use */
export function checkOf<Schema extends TSchema>(schema: Schema): Check<Static<Schema>> {
  let validate: ValidateFunction | undefined;
  const check = (value: unknown): value is Static<Schema> => {
    ajv ??= loadAjv();
    validate ??= ajv.compile(schema);
    return validate(value);
  };
  return Object.assign(check, {
    problem: () => {
      const error = validate?.errors?.[0];
      return error ? `${error.instancePath || 'it'} ${error.message}` : undefined;
    },
  });
}
