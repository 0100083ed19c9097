/**
 * Other spellings of known names. A member of a body, or a parameter of a query, that no schema knows is ignored, so
 * that a newer client meets an older service; one that differs from a known name in case, `_` or `-` alone is refused. The
 * orders to the queue refuse any unknown member: their filters only narrow, so that one less would reach more deliveries.
 */
import type { FastifyRequest } from 'fastify';
import type { FieldError } from '../../platform/errors/errors.ts';
import { refuseFields } from './describe-invalid.ts';
import type { Api } from './route-tools.ts';

/** Checks a value whose path is `path`, and adds its errors. */
type Look = (value: unknown, path: string, errors: FieldError[]) => void;

/** Refuses requests with another spelling of a known name, on every route that has a schema. */
export function refuseSpellings(app: Api): void {
  app.addHook('onRoute', (route) => {
    const lookAtBody = lookFor(route.schema?.body);
    const lookAtQuery = lookFor(route.schema?.querystring);
    if (!lookAtBody && !lookAtQuery) return;
    const check = (request: FastifyRequest, _reply: unknown, done: (error?: Error) => void) => {
      const errors: FieldError[] = [];
      lookAtBody?.(request.body, '', errors);
      lookAtQuery?.(request.query, '', errors);
      done(errors.length > 0 ? refuseFields(errors) : undefined);
    };
    route.preValidation = [check, ...[route.preValidation ?? []].flat()];
  });
}

/** Unknown members of one object that are compared with known ones: a stranger may send thousands. */
const UNKNOWN_MAX = 100;

/** The part of a JSON schema that names members. */
interface Shape {
  readonly content?: Record<string, { readonly schema?: unknown }>;
  readonly properties?: Record<string, unknown>;
  readonly items?: unknown;
  readonly anyOf?: readonly unknown[];
}

/** @returns undefined where a value of this schema has no named members */
function lookFor(schema: unknown): Look | undefined {
  if (typeof schema !== 'object' || schema === null) return undefined;
  const { content, properties, items, anyOf } = schema as Shape;
  if (content) return lookFor(content['application/json']?.schema);
  // A value may follow any of the alternatives: their names are known together.
  if (anyOf) return lookFor({ properties: Object.assign({}, ...anyOf.map(propertiesOf)) });
  if (items) return lookAtItems(lookFor(items));
  return properties && Object.keys(properties).length > 0 ? lookAtMembers(properties) : undefined;
}

function propertiesOf(schema: unknown): object {
  return (schema as Shape).properties ?? {};
}

function lookAtItems(look: Look | undefined): Look | undefined {
  if (!look) return undefined;
  return (value, path, errors) => {
    if (!Array.isArray(value)) return;
    for (const [at, item] of value.entries()) look(item, `${path}${at}.`, errors);
  };
}

function lookAtMembers(properties: Record<string, unknown>): Look {
  const known = new Map(
    Object.entries(properties).map(([name, member]) => [name, lookFor(member)]),
  );
  const spellings = new Map([...known.keys()].map((name) => [plainName(name), name]));
  return (value, path, errors) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
    let unknown = 0;
    for (const [name, member] of Object.entries(value)) {
      if (known.has(name)) {
        known.get(name)?.(member, `${path}${name}.`, errors);
        continue;
      }
      if (++unknown > UNKNOWN_MAX) continue;
      const meant = spellings.get(plainName(name));
      if (meant === undefined) continue;
      const message = `is not known: did you mean ${path}${meant}?`;
      errors.push({ field: `${path}${name}`, message });
    }
  };
}

/** A name without what differs between spellings of it. */
export function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[_-]/g, '');
}
