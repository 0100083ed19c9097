/**
 * Paths and queries are text: where a route's schema says integer, decimal digits become a number before the schema is
 * checked. Only digits: `1e3`, `1.5`, `-0`, `+1` and blanks stay text and are refused; the validator's own conversion
 * would accept them.
 */
import type { FastifyRequest } from 'fastify';
import type { Api } from './route-tools.ts';

/**
 * Beyond sixteen digits the number is not exact, but then no schema and no row has it either; beyond
 * three hundred there is no double at all.
 */
const decimal = /^(?:0|-?[1-9][0-9]{0,299})$/;

/** Adds the conversion only to the routes that need it. */
export function convertIntegers(app: Api): void {
  app.addHook('onRoute', (route) => {
    const inPath = integerFields(route.schema?.params);
    const inQuery = integerFields(route.schema?.querystring);
    if (inPath.length === 0 && inQuery.length === 0) return;
    const convert = (request: FastifyRequest, _reply: unknown, done: () => void) => {
      convertFields(request.params, inPath);
      convertFields(request.query, inQuery);
      done();
    };
    const others = route.preValidation ?? [];
    route.preValidation = [convert, ...(Array.isArray(others) ? others : [others])];
  });
}

function integerFields(schema: unknown): readonly string[] {
  if (typeof schema !== 'object' || schema === null || !('properties' in schema)) return [];
  const properties = schema.properties;
  if (typeof properties !== 'object' || properties === null) return [];
  return Object.entries(properties)
    .filter(([, field]) => field?.type === 'integer')
    .map(([name]) => name);
}

function convertFields(values: unknown, names: readonly string[]): void {
  // Fastify parses both into plain records of text, or of lists of text where a name is repeated.
  const fields = values as Record<string, unknown>;
  for (const name of names) {
    const value = fields[name];
    if (typeof value !== 'string' || !decimal.test(value)) continue;
    fields[name] = Number(value);
  }
}
