/**
 * Writes `packages/sdk/src/api-types.ts` from the description of the API: a type for every body and answer, and the
 * table of operations that the SDK calls. Part of `npm run openapi`.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const repository = fileURLToPath(new URL('../../', import.meta.url));
export const SDK_TYPES = `${repository}packages/sdk/src/api-types.ts`;

/** The keywords of JSON Schema that the description uses. */
interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly allOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: Schema;
}

type Content = Readonly<Record<string, { readonly schema?: Schema }>>;

interface Operation {
  readonly operationId: string;
  readonly summary?: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>;
}

/** What of an OpenAPI 3.1 document the types are made of. */
interface Description {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** The source of the SDK's types. @throws Error at a keyword of JSON Schema that it does not know */
export function writeSdkTypes(api: Description): string {
  // The SDK throws an error of its own, which has the code: it needs no shape for each.
  const shapes = Object.entries(api.components.schemas).filter(([, { allOf }]) => !allOf);
  const named = shapes.map(([name, schema]) =>
    schema.properties && !schema.anyOf
      ? `${comment(schema.description)}export interface ${name} ${typeOf(schema)}\n`
      : `${comment(schema.description)}export type ${name} = ${typeOf(schema)};\n`,
  );
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  // Pages, health checks and hooks of the mail server are for others than products and apps.
  const called = operations.filter(({ path }) => /^\/(?:v2|mail)\//.test(path));
  const table = called.map(
    ({ operation }) =>
      `${comment(operation.summary, '  ')}  ${operation.operationId}: ${typeOfOperation(operation)};\n`,
  );
  const backend = called.filter(({ path }) => path.startsWith('/v2/'));
  const routes = backend.map(({ path, method, operation }) => {
    const key = operation.parameters?.some(({ name }) => name === 'idempotency-key') ?? false;
    return `  ${operation.operationId}: '${method.toUpperCase()} ${path}${key ? ' key' : ''}',\n`;
  });
  const answers = called
    .filter(({ path }) => path.startsWith('/mail/'))
    .map(
      ({ path, method, operation }) =>
        `  '${method.toUpperCase()} ${path}': ${answerOf(operation)};\n`,
    );
  return [
    '// Made from docs/openapi.json by `npm run openapi`: do not edit.\n\n',
    ...named.map((text) => `${text}\n`),
    '/** What each operation takes, and what it answers. */\nexport interface Operations {\n',
    ...table,
    '}\n\n',
    '/** What the calls of an app answer, by method and path. */\nexport interface MailAnswers {\n',
    ...answers,
    '}\n\n',
    '/** Operations of a product and its operators. */\n',
    `export type OperationId =\n${backend.map(({ operation }) => `  | '${operation.operationId}'\n`).join('')};\n\n`,
    '/** Method and path of each of them; with `key` where it takes an Idempotency-Key. */\n',
    'export const ROUTES: Readonly<Record<OperationId, string>> = {\n',
    ...routes,
    '};\n',
  ].join('');
}

function typeOfOperation({ parameters = [], requestBody, responses }: Operation): string {
  const members = (place: string) =>
    objectOf(
      parameters
        .filter((parameter) => parameter.in === place)
        .map(({ name, schema, required = false, description }) => {
          return { name, schema: description ? { ...schema, description } : schema, required };
        }),
      '    ',
    );
  const body = contentType(requestBody?.content);
  return [
    '{',
    `    path: ${members('path')};`,
    `    query: ${members('query')};`,
    `    body: ${body === 'undefined' || requestBody?.required ? body : `${body} | undefined`};`,
    `    answer: ${answerOf({ responses })};`,
    '  }',
  ].join('\n');
}

function answerOf({ responses }: Pick<Operation, 'responses'>): string {
  const answer = Object.entries(responses).find(([status]) => status.startsWith('2'));
  return contentType(answer?.[1].content);
}

function contentType(content: Content | undefined): string {
  const json = content?.['application/json'];
  if (json) return typeOf(json.schema ?? {}, '    ');
  return content ? 'Uint8Array' : 'undefined';
}

function typeOf(schema: Schema, indent = ''): string {
  if (schema.$ref) return schema.$ref.replace('#/components/schemas/', '');
  if (schema.const !== undefined) return literal(schema.const);
  if (schema.enum) return schema.enum.map(literal).join(' | ');
  if (schema.anyOf) return schema.anyOf.map((one) => typeOf(one, indent)).join(' | ');
  const types = schema.type === undefined ? [] : [schema.type].flat();
  if (types.length === 0) return 'unknown';
  return types.map((type) => typeOfOne(type, schema, indent)).join(' | ');
}

function typeOfOne(type: string, schema: Schema, indent: string): string {
  switch (type) {
    case 'string':
      return schema.format === 'binary' ? 'Uint8Array' : 'string';
    case 'integer':
    case 'number':
      return 'number';
    case 'boolean':
    case 'null':
      return type;
    case 'array': {
      const item = typeOf(schema.items ?? {}, indent);
      return item.includes(' | ') ? `(${item})[]` : `${item}[]`;
    }
    case 'object': {
      const { properties, required = [], additionalProperties } = schema;
      if (!properties) {
        const value =
          typeof additionalProperties === 'object'
            ? typeOf(additionalProperties, indent)
            : 'unknown';
        return `Record<string, ${value}>`;
      }
      const members = Object.entries(properties);
      return objectOf(
        members.map(([name, member]) => {
          return { name, schema: member, required: required.includes(name) };
        }),
        indent,
      );
    }
    default:
      throw new Error(`the type ${type} of a schema has no type in TypeScript here`);
  }
}

function objectOf(
  members: readonly { name: string; schema: Schema; required: boolean }[],
  indent: string,
): string {
  if (members.length === 0) return 'Record<never, never>';
  const inner = `${indent}  `;
  const lines = members.map(({ name, schema, required }) => {
    const shown = /^[A-Za-z_$][\w$]*$/.test(name) ? name : `'${name}'`;
    return `${comment(schema.description, inner)}${inner}${shown}${required ? '' : '?'}: ${typeOf(schema, inner)};\n`;
  });
  return `{\n${lines.join('')}${indent}}`;
}

function literal(value: unknown): string {
  return typeof value === 'string'
    ? `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
    : JSON.stringify(value);
}

function comment(text: string | undefined, indent = ''): string {
  return text ? `${indent}/** ${text.replaceAll('*/', '*\\/').replaceAll(/\s+/g, ' ')} */\n` : '';
}

if (import.meta.main) {
  const api = JSON.parse(await readFile(`${repository}docs/openapi.json`, 'utf8'));
  await writeFile(SDK_TYPES, writeSdkTypes(api as Description));
}
