/** How requests are checked by the schemas of their routes. */
import ajvCompiler from '@fastify/ajv-compiler';
import serializerCompiler from '@fastify/fast-json-stringify-compiler';
import type { FastifyRequest, FastifyServerOptions } from 'fastify';
import type { FastifyValidationResult } from 'fastify/types/schema.js';
import type { Api } from './route-tools.ts';

/*
 * The schema of a route is compiled when the first request needs it. Fastify by itself compiles all of them at the
 * start: a quarter of the processor time of a start, although most routes are rarely used.
 */

type Compilers = NonNullable<
  NonNullable<FastifyServerOptions['schemaController']>['compilersFactory']
>;

/** All groups of routes share one Ajv; each call of the library's function makes a pool with others. */
const validators = ajvCompiler();

const buildValidator = (...options: Parameters<ajvCompiler.BuildCompilerFromPool>) => {
  const compile = validators(...options);
  return (schema: ajvCompiler.RouteDefinition): FastifyValidationResult => {
    let validate: FastifyValidationResult | undefined;
    const validateLater: FastifyValidationResult = (value) => {
      validate ??= compile(schema) as FastifyValidationResult;
      const result = validate(value);
      // Fastify reads the errors from the function that it called.
      validateLater.errors = validate.errors ?? null;
      return result;
    };
    return validateLater;
  };
};

const buildSerializer: Compilers['buildSerializer'] = (...options) => {
  const compile = serializerCompiler()(...options);
  return (route) => {
    let serialize: serializerCompiler.Serializer | undefined;
    return (value) => {
      serialize ??= compile(route);
      return serialize(value);
    };
  };
};

/** For Fastify's `schemaController`: its own compilers, each called at the first use. */
export const compilersFactory = { buildValidator, buildSerializer } as Compilers;

/*
 * Paths and queries are text: where a route's schema says integer, decimal digits become a number before the schema is
 * checked. Only digits: `1e3`, `1.5`, `-0`, `+1` and blanks stay text and are refused; the validator's own conversion
 * would accept them.
 */

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
    route.preValidation = [convert, ...[route.preValidation ?? []].flat()];
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
