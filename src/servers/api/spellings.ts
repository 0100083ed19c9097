/**
 * Names that are almost right. A member of a body, or a parameter of a query, that no schema knows is ignored; one
 * that is close to a known name is a typing error, and ignoring it would do something else than the caller meant.
 */
import type { FastifyRequest } from 'fastify';
import type { FieldError } from '../errors/errors.ts';
import { refuseFields } from './describe-invalid.ts';
import type { Api } from './server.ts';

/** The most unknown names of one request that are compared: a body may have thousands. */
const COMPARED_MAX = 50;

/** Shorter names differ by one letter from too many others: they are close only if case or underscores differ. */
const SHORT = 4;
/** From this length on, two wrong letters are a typing error too. */
const LONG = 7;

/** The result of checking one request. */
interface Found {
  readonly errors: FieldError[];
  compared: number;
}

/** Checks a value whose path is `path`, and adds its errors. */
type Look = (value: unknown, path: string, found: Found) => void;

/** Refuses requests with a name that is close to a known one, on every route that has a schema. */
export function refuseNearNames(app: Api): void {
  app.addHook('onRoute', (route) => {
    const lookAtBody = lookFor(route.schema?.body);
    const lookAtQuery = lookFor(route.schema?.querystring);
    if (!lookAtBody && !lookAtQuery) return;
    const check = (request: FastifyRequest, _reply: unknown, done: (error?: Error) => void) => {
      const found: Found = { errors: [], compared: 0 };
      lookAtBody?.(request.body, '', found);
      lookAtQuery?.(request.query, '', found);
      done(found.errors.length > 0 ? refuseFields(found.errors) : undefined);
    };
    const others = route.preValidation ?? [];
    route.preValidation = [check, ...(Array.isArray(others) ? others : [others])];
  });
}

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
  return (value, path, found) => {
    if (!Array.isArray(value)) return;
    for (const [at, item] of value.entries()) look(item, `${path}${at}.`, found);
  };
}

function lookAtMembers(properties: Record<string, unknown>): Look {
  const known = new Map(
    Object.entries(properties).map(([name, member]) => [name, lookFor(member)]),
  );
  return (value, path, found) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
    for (const [name, member] of Object.entries(value)) {
      if (known.has(name)) known.get(name)?.(member, `${path}${name}.`, found);
      else if (found.compared < COMPARED_MAX) {
        found.compared++;
        const meant = nearest(name, known.keys());
        if (meant === undefined) continue;
        const message = `is not known: did you mean ${path}${meant}?`;
        found.errors.push({ field: `${path}${name}`, message });
      }
    }
  };
}

/** The known name that was meant, if any: first one that differs only in case and underscores. */
function nearest(name: string, known: Iterable<string>): string | undefined {
  const names = [...known];
  const plain = plainName(name);
  return (
    names.find((candidate) => plainName(candidate) === plain) ??
    names.find((candidate) => isSlip(plain, plainName(candidate)))
  );
}

function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[_-]/g, '');
}

/** Whether a name is another one, or a typing error for it. */
export function isNearName(name: string, candidate: string): boolean {
  const [plain, meant] = [plainName(name), plainName(candidate)];
  return plain === meant || isSlip(plain, meant);
}

function isSlip(name: string, candidate: string): boolean {
  if (candidate.length < SHORT) return false;
  const slips = candidate.length < LONG ? 1 : 2;
  return Math.abs(name.length - candidate.length) <= slips && isWithin(name, candidate, slips);
}

/** Whether so many wrong, missing, extra or swapped letters make one name the other. */
function isWithin(name: string, candidate: string, slips: number): boolean {
  let same = 0;
  while (same < name.length && name[same] === candidate[same]) same++;
  const a = name.slice(same);
  const b = candidate.slice(same);
  if (a === b) return true;
  if (slips === 0) return false;
  const rest = slips - 1;
  return (
    isWithin(a.slice(1), b, rest) ||
    isWithin(a, b.slice(1), rest) ||
    isWithin(a.slice(1), b.slice(1), rest) ||
    (a[0] === b[1] && a[1] === b[0] && isWithin(a.slice(2), b.slice(2), rest))
  );
}
