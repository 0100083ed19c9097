/**
 * Describes the errors of a route's schema in the words of the contract.
 */
import type { FastifyError, FastifySchemaValidationError } from 'fastify';
import { type FieldError, Refusal } from '../../platform/errors/errors.ts';

/** The most fields that one answer names. */
const FIELDS_MAX = 20;

type Invalid = FastifyError & { readonly validation: FastifySchemaValidationError[] };

/** Whether a schema refused the request. */
export function isInvalid(error: unknown): error is Invalid {
  return error instanceof Error && 'validation' in error && Array.isArray(error.validation);
}

/** The refusal that names each field that is wrong. */
export function describeInvalid(invalid: Invalid): Refusal {
  const errors: FieldError[] = [];
  const seen = new Set<string>();
  for (const found of invalid.validation.slice(0, FIELDS_MAX)) {
    const field = fieldOf(found) || (invalid.validationContext ?? 'body');
    if (seen.has(field)) continue;
    seen.add(field);
    errors.push({ field, message: expected(found) });
  }
  return refuseFields(errors);
}

/** Refuses fields of the input; names up to the limit of one answer. */
export function refuseFields(found: readonly FieldError[]): Refusal {
  const errors = found.slice(0, FIELDS_MAX);
  const detail = errors.map(({ field, message }) => `${field} ${message}`).join('; ');
  return new Refusal('invalid_request', detail, { errors });
}

/** `/forward_to/0` of a JSON pointer (RFC 6901) becomes `forward_to.0`. */
function fieldOf(found: FastifySchemaValidationError): string {
  const path = found.instancePath.split('/').slice(1);
  const { missingProperty, additionalProperty } = found.params;
  const own = missingProperty ?? additionalProperty;
  if (typeof own === 'string') path.push(own);
  return path.join('.');
}

function expected(error: FastifySchemaValidationError & { parentSchema?: Schema }): string {
  const { keyword, params, message, parentSchema } = error;
  const counted = keyword.endsWith('Items') ? 'items' : 'characters';
  switch (keyword) {
    case 'required':
      return 'is required';
    case 'additionalProperties':
      return 'is not known here';
    case 'enum':
      return `must be one of ${String(params.allowedValues).replaceAll(',', ', ')}`;
    case 'type':
      return `must be ${article(String(params.type))}${contentsOf(parentSchema)}`;
    case 'minLength':
    case 'minItems':
      return params.limit === 1
        ? 'must not be empty'
        : `must have at least ${String(params.limit)} ${counted}`;
    case 'maxLength':
    case 'maxItems':
      return `must have at most ${String(params.limit)} ${counted}`;
    case 'minimum':
      return `must be at least ${String(params.limit)}`;
    case 'maximum':
      return `must be at most ${String(params.limit)}`;
    case 'format':
      if (params.format === 'date-time') return 'must be a time such as 2026-01-31T12:00:00Z';
      return message ?? 'is not valid';
    default:
      return message ?? 'is not valid';
  }
}

/** What a refusal reads of a schema. */
interface Schema {
  readonly type?: string;
  readonly items?: Schema;
  readonly required?: readonly string[];
}

/** What an array or an object has to have, as in `an array of objects with address`. */
function contentsOf(schema: Schema | undefined): string {
  if (schema?.items?.type) return ` of ${schema.items.type}s${contentsOf(schema.items)}`;
  return schema?.required?.length ? ` with ${schema.required.join(', ')}` : '';
}

function article(type: string): string {
  return /^[aeio]/.test(type) ? `an ${type}` : `a ${type}`;
}
