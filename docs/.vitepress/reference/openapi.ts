/**
 * The parts of an OpenAPI 3.1 document that the reference shows.
 */
import { readFileSync } from 'node:fs';

export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly additionalProperties?: boolean | Schema;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly examples?: readonly unknown[];
}

export interface Media {
  readonly schema?: Schema;
  readonly example?: unknown;
}

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: Schema;
  readonly example?: unknown;
}

export interface Answer {
  readonly description: string;
  readonly content?: Readonly<Record<string, Media>>;
}

export interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  readonly responses: Readonly<Record<string, Answer>>;
}

export interface Description {
  readonly info: { readonly description: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  /** What receivers are told, by the `type` of its body. */
  readonly webhooks: Readonly<Record<string, { readonly post: Operation }>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** An operation with where it is. */
export interface Endpoint extends Operation {
  /** In capitals. */
  readonly method: string;
  readonly path: string;
}

/** Reads `docs/openapi.json`. */
export function readDescription(): Description {
  return JSON.parse(readFileSync(new URL('../../openapi.json', import.meta.url), 'utf8'));
}

/** All operations, in the order of the document. */
export function listEndpoints(description: Description): Endpoint[] {
  return Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      ...operation,
      method: method.toUpperCase(),
      path,
    })),
  );
}

/** The name of the component that a schema refers to. */
export function refName(schema: Schema): string | undefined {
  return schema.$ref?.replace('#/components/schemas/', '');
}

/** A schema, or what it refers to. */
export function resolve(description: Description, schema: Schema): Schema {
  const name = refName(schema);
  if (name === undefined) return schema;
  const found = description.components.schemas[name];
  if (!found) throw new Error(`there is no schema ${name}`);
  return found;
}
