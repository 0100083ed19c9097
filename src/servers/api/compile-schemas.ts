/**
 * Compiles the schema of a route when the first request needs it. Fastify by itself compiles all of them at the
 * start: a quarter of the processor time of a start, although most routes are rarely used.
 */
import ajvCompiler from '@fastify/ajv-compiler';
import serializerCompiler from '@fastify/fast-json-stringify-compiler';
import type { FastifyServerOptions } from 'fastify';
import type { FastifyValidationResult } from 'fastify/types/schema.js';

type Compilers = NonNullable<
  NonNullable<FastifyServerOptions['schemaController']>['compilersFactory']
>;

const buildValidator = (...options: Parameters<ajvCompiler.BuildCompilerFromPool>) => {
  const compile = ajvCompiler()(...options);
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
