/**
 * The OpenAPI 3.1 description, built from the schemas that the routes are checked with.
 */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import swagger from '@fastify/swagger';
import type { FastifySchema, RouteOptions } from 'fastify';
import { Type } from 'typebox';
import { answerOf, answers, type ErrorCode } from '../../platform/errors/errors.ts';
import { ERRORS_PAGE } from '../../platform/net/net.ts';
import { webhooks } from './describe-events.ts';
import { matchesEtag } from './mail-attachment.ts';
import { type Api, CONSOLE_COOKIE, credentials, LOGIN_COOKIE, SAME_SHAPE } from './route-tools.ts';
import { OneOf, Text } from './schemas.ts';
import { version } from './version.ts';

const introduction = `Managed mail hosting over one HTTP API: put domains and mailboxes online,
keep apps in sync with them, and get changes at once.

Every failure has the same body (\`Problem\`), with a stable \`code\`; it is sent as
\`application/problem+json\` if the request accepts that. Types are not converted: 42 is
not "42". null counts as absent. Unknown members and parameters are ignored; one that differs from
a known name in case, \`_\` or \`-\` alone is refused with "did you mean". Every answer has the request's id in \`x-request-id\` and the
rest of the rate limit in \`x-ratelimit-*\`.`;

const tags = [
  { name: 'Domains', description: 'Claim a domain, prove it by DNS, route its mail.' },
  { name: 'Email accounts', description: 'Mailboxes on active domains, and their passwords.' },
  { name: 'Events', description: 'What happened to a user, in order, for his backend.' },
  { name: 'Mail', description: "A mailbox's changes, messages and attachments." },
  { name: 'Webhooks', description: 'Links in webhooks, for their receivers.' },
  { name: 'Mail server', description: 'Signed change events from the mail server.' },
  { name: 'Operator', description: 'For operators: the data of all users.' },
  { name: 'Service', description: 'Whether the service is alive and ready.' },
  { name: 'Documentation', description: 'These pages.' },
];

/** The section of the routes below a path, and what opens them; a route whose schema says otherwise keeps that. */
const sections = [
  { path: '/v2/domain', tags: ['Domains'], security: credentials.apiKey },
  { path: '/v2/email-accounts', tags: ['Email accounts'], security: credentials.apiKey },
  { path: '/v2/event', tags: ['Events'], security: credentials.apiKey },
  { path: '/v2/operator/', tags: ['Operator'], security: credentials.operator },
  { path: '/mail/', tags: ['Mail'], security: credentials.bearer },
  { path: '/ws', tags: ['Mail'], security: credentials.bearer },
  { path: '/webhooks/', tags: ['Webhooks'], security: credentials.none },
  { path: '/hooks/', tags: ['Mail server'], security: credentials.signature },
];

function describeSection(route: RouteOptions): void {
  if (!route.schema?.operationId) return;
  const { path, ...common } = sections.find((one) => route.url.startsWith(one.path)) ?? {};
  route.schema = { ...common, ...route.schema };
}

const securitySchemes = {
  apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
  bearer: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description:
      "A mailbox's token: from `POST /mail/token`, `POST /v2/email-accounts/{id}/token`, or signed by the operator's own identity service.",
  },
  signature: {
    type: 'apiKey',
    in: 'header',
    name: 'x-mailserver-signature',
    description: 'Hex HMAC-SHA256 over the raw request body.',
  },
  console: {
    type: 'apiKey',
    in: 'cookie',
    name: CONSOLE_COOKIE,
    description:
      'Set by `POST /v2/operator/console/session`; by HTTPS its name begins with `__Host-`. It opens all of /v2. ' +
      'Every method but GET also needs the header `x-csrf-token`.',
  },
  cookie: {
    type: 'apiKey',
    in: 'cookie',
    name: LOGIN_COOKIE,
    description:
      'Set by `POST /mail/token` with `remember: true`; by HTTPS its name begins with `__Host-`.',
  },
} as const;

/** The body of every error answer. */
const ProblemBody = Type.Object(
  {
    type: Text(
      'Where the code is explained, below the address of the server.',
      `${ERRORS_PAGE}#invalid_request`,
    ),
    title: Type.String({ description: 'The same for every occurrence of the code.' }),
    status: Type.Integer({ description: 'The status of the answer.' }),
    detail: Type.String({ description: 'What was wrong this time.' }),
    code: OneOf(Object.keys(answers), 'Stable, for programs.'),
    errors: Type.Optional(
      Type.Array(Type.Object({ field: Type.String(), message: Type.String() }), {
        description: 'The fields that are wrong, by their names in the request.',
      }),
    ),
    oldest: Type.Optional(
      Type.String({ description: 'Of `cursor_expired`: the cursor from which reading can go on.' }),
    ),
    request_id: Type.String({ description: 'As in `x-request-id`, to find it in the log.' }),
  },
  {
    $id: 'Problem',
    description: 'What went wrong (RFC 9457), with a stable code.',
    examples: [
      {
        type: `${ERRORS_PAGE}#invalid_request`,
        title: answers.invalid_request.title,
        status: 400,
        detail: 'user_id is required',
        code: 'invalid_request',
        errors: [{ field: 'user_id', message: 'is required' }],
        request_id: '0b0c9e3e-6d0e-4c84-9d5b-5a3f6f4f2f0a',
      },
    ],
  },
);

/** Collects the routes that are registered after it. */
export function describeApi(app: Api): void {
  app.addSchema(ProblemBody);
  app.addHook('onRoute', describeSection);
  app.register(swagger, {
    hideUntagged: true,
    convertConstToEnum: false,
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Postroom', version, description: introduction },
      servers: [{ url: '/', description: 'This server' }],
      tags,
      components: { securitySchemes },
    },
    refResolver: {
      buildLocalReference: (schema, _base, _fragment, i) => String(schema.$id ?? `def-${i}`),
    },
    transformObject: (described) =>
      'openapiObject' in described ? finish(described.openapiObject) : described.swaggerObject,
    transform: ({ schema, url, route }) => ({
      url,
      schema: withRefusals(schema, route),
    }),
  });
}

/** Adds the answers that every route of its kind may give to those of the route. */
function withRefusals(schema: FastifySchema, { method, config }: RouteOptions): FastifySchema {
  if (!schema?.tags) return schema;
  const own: readonly ErrorCode[] = config?.refusals ?? [];
  const isMailbox = schema.security?.some(({ bearer }) => bearer);
  const codes = new Set<ErrorCode>(isMailbox ? ['account_inactive', ...own] : own);
  if (schema.body || schema.querystring || schema.params) codes.add('invalid_request');
  if (schema.body) codes.add('body_too_large').add('unsupported_media_type');
  if (schema.security?.length) codes.add('unauthorized');
  if (schema.security?.some(({ apiKey }) => apiKey)) codes.add('key_restricted');
  // With the console's cookie, what changes something also needs its token (`authenticate.ts`).
  if (schema.security?.some(({ console }) => console) && method !== 'GET')
    codes.add('csrf_token_invalid');
  codes.add('rate_limited').add('internal').add('unavailable');
  // The database's disk may be full, whatever is written.
  if (method !== 'GET' && !config?.onlyReads) codes.add('storage_full');
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of codes) {
    const { http } = answerOf(code);
    byStatus.set(http, [...(byStatus.get(http) ?? []), code]);
  }
  const refusals = [...byStatus]
    .sort(([a], [b]) => a - b)
    .map(([status, group]) => [
      status,
      {
        description: group.map((code) => `\`${code}\`: ${answers[code].title}.`).join(' '),
        content: { 'application/json': { schema: problemOf(group) } },
      },
    ]);
  const response = schema.response as Record<string, object> | undefined;
  const successes = Object.entries(response ?? {}).map(([status, success]) => [
    status,
    // Without this, every one of them is a "Default Response".
    { 'x-response-description': STATUS_CODES[status], ...success },
  ]);
  return { ...schema, response: Object.fromEntries([...successes, ...refusals]) };
}

/** The body of an error answer with one of these codes: each is a shape of its own, named after the code. */
function problemOf(codes: readonly ErrorCode[]): object {
  const [first, ...others] = codes.map((code) => {
    const properties = { code: { type: 'string', enum: [code] } };
    const narrowed = { type: 'object', required: ['code'], properties };
    const words = code.split('_').map((word) => word.charAt(0).toUpperCase() + word.slice(1));
    return { title: `${words.join('')}Problem`, allOf: [{ $ref: 'Problem#' }, narrowed] };
  });
  return first && others.length > 0 ? { anyOf: [first, ...others] } : { ...first };
}

interface NamedOperation {
  readonly operationId?: string;
  readonly requestBody?: { readonly content?: Content };
  readonly responses?: Readonly<Record<string, { readonly content?: Content }>>;
}

type Content = Record<string, { schema?: { type?: unknown; title?: string; properties?: object } }>;

/**
 * Names the bodies and the answers that have no name of their own after their operations: generators make a type of
 * each name. `CreateDomainRequest` and the like are what they name by themselves.
 */
function nameShapes(paths: object = {}): void {
  const operations = Object.values(paths).flatMap((methods) => Object.values(Object(methods)));
  for (const operation of operations as NamedOperation[]) {
    const { operationId = '', requestBody, responses } = operation;
    const name = operationId.charAt(0).toUpperCase() + operationId.slice(1);
    nameShape(requestBody?.content, `${name}Body`);
    describeStreams(requestBody?.content);
    for (const [status, answer] of Object.entries(responses ?? {})) {
      if (Number(status) < 400) nameShape(answer.content, `${name}Answer`);
    }
  }
}

/**
 * Bodies that a route reads by itself: their schemas let everything pass, since what is checked is a stream. Others see
 * what is sent.
 */
function describeStreams(content: Content | undefined): void {
  for (const [type, { schema }] of Object.entries(content ?? {})) {
    if (!schema || 'type' in schema) continue;
    Object.assign(schema, { type: 'string' }, type === 'message/rfc822' && { format: 'binary' });
  }
}

function nameShape(content: Content | undefined, title: string): void {
  const schema = content?.['application/json']?.schema;
  if (schema?.type === 'object' && schema.properties) schema.title ??= title;
}

/**
 * Adds the webhooks, and moves each shape with a title to the components, where readers and generators find it by
 * name.
 *
 * @throws Error where two shapes have one title
 */
function finish<T extends { components?: object; paths?: object }>(description: T): T {
  const schemas: Record<string, Record<string, unknown>> = {};
  const hoist = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(hoist);
    if (typeof value !== 'object' || value === null) return value;
    const members = Object.entries(value).map(([key, member]) => [key, hoist(member)] as const);
    const { title, ...shape } = Object.fromEntries(members);
    if (shape[SAME_SHAPE]) return referTo(String(shape[SAME_SHAPE]));
    const isShape = shape.type === 'object' || shape.allOf !== undefined;
    if (typeof title !== 'string' || !isShape) return Object.fromEntries(members);
    // The example of a whole answer is beside its shape, not in it.
    const { examples, ...known } = schemas[title] ?? shape;
    const { examples: _own, ...same } = shape;
    if (!isDeepStrictEqual(known, same)) {
      throw new Error(`two shapes in the API description have the title ${title}`);
    }
    schemas[title] = examples ? { ...shape, examples } : shape;
    return referTo(title);
  };
  // A copy: the members are those of the routes, whose validators may not be made yet.
  const { components, ...rest } = structuredClone(description);
  nameShapes(rest.paths);
  // The document is rebuilt member by member, so it keeps its type.
  const walked = hoist(rest) as T;
  const told = hoist(webhooks);
  const own = components && 'schemas' in components ? components.schemas : {};
  return {
    ...walked,
    webhooks: told,
    components: { ...components, schemas: { ...Object(own), ...schemas } },
  };
}

function referTo(name: string): object {
  return { $ref: `#/components/schemas/${name}` };
}

/** The description in the form of `docs/openapi.json`; the server has to be ready. */
export function writeDescription(app: Api): string {
  return `${JSON.stringify(app.swagger(), null, 2)}\n`;
}

const anything = { type: 'object', additionalProperties: true };

/** Serves the description at `/docs/openapi.json`; it is written at the first request. */
export function descriptionRoute(app: Api): void {
  let written: { readonly text: Buffer; readonly etag: string } | undefined;
  const write = () => {
    // Not a string, which would be encoded and counted anew for each answer.
    const text = Buffer.from(writeDescription(app));
    const etag = `"${createHash('sha256').update(text).digest('base64url').slice(0, 27)}"`;
    return { text, etag };
  };
  app.get('/docs/openapi.json', {
    schema: {
      tags: ['Documentation'],
      summary: 'This description',
      operationId: 'openapi',
      security: credentials.none,
      response: {
        200: {
          description: 'OpenAPI 3.1',
          content: { 'application/json': { schema: anything } },
        },
        304: Type.Null({ description: 'The client has it already.' }),
      },
    },
    handler: (request, reply) => {
      written ??= write();
      const { text, etag } = written;
      reply.header('etag', etag).header('cache-control', 'public, no-cache');
      // RFC 9110 section 13.1.2: a client that has it needs no body.
      if (matchesEtag(request.headers['if-none-match'], etag)) return reply.code(304).send(null);
      return reply.type('application/json; charset=utf-8').send(text);
    },
  });
}
