/**
 * What a caller of /v2 may do, in one place for all routes. A key is refused before the body is read where its scope
 * does not have the route, and after that where the call names another user or organization. What is left the routes ask
 * for by {@link ownerOf}: the owner is not their own choice.
 */
import type { FastifyRequest, RouteOptions } from 'fastify';
import { Refusal } from '../../platform/errors/errors.ts';
import { enterTurn } from '../../platform/net/net.ts';
import type { Owner } from '../../tenants/domains/domains.ts';
import { isRead, partiesOf } from './authenticate.ts';
import type { Api } from './route-tools.ts';

/** Where the routes are that see the data of all users. */
const OPERATOR = '/v2/operator/';

/** Guards all routes of a group below /v2, those that are added later as well; its hooks run after those of the login. */
export function enforceScopes(scope: Api): void {
  scope.addHook('onRoute', findOwnerField);
  scope.addHook('onRequest', async (request) => judgeScope(request));
  scope.addHook('preHandler', async (request) => {
    request.owner = judgeOwner(request);
    if (!request.owner) return;
    // The product's own key serves all users: whom a call is for is known now.
    const waits = enterTurn(partiesOf(request.owner));
    if (waits) await waits;
  });
}

/** Whether a request that passed before may still do what it does: its key may have another scope by now. */
export function judgeAgain(request: FastifyRequest): void {
  judgeScope(request);
  judgeOwner(request);
}

/** Every route has to say whose things it is about: one that does not would be open to keys of any user. */
function findOwnerField(route: RouteOptions): void {
  if (route.url.startsWith(OPERATOR)) return;
  const { body, querystring } = route.schema ?? {};
  if (!requiresUser(body) && !requiresUser(querystring)) {
    throw new Error(
      `${route.method} ${route.url} does not require a user_id: any key would open it`,
    );
  }
  route.config = { ...route.config, ownerIn: requiresUser(body) ? 'body' : 'query' };
}

function requiresUser(schema: unknown): boolean {
  const required: unknown = schema instanceof Object && Reflect.get(schema, 'required');
  return Array.isArray(required) && required.includes('user_id');
}

/** By the route alone, before the body is read. */
function judgeScope(request: FastifyRequest): void {
  const { scope, isReadOnly } = callerOf(request);
  const { url = '', config } = request.routeOptions;
  if (scope !== 'operator' && url.startsWith(OPERATOR)) {
    throw new Refusal('key_restricted', 'the API key does not open the routes of operators');
  }
  if (isReadOnly && !isRead(request) && !config.isForReadOnly) {
    throw new Refusal('key_restricted', 'the API key only reads');
  }
}

/** By what the call names. */
function judgeOwner(request: FastifyRequest): Owner | undefined {
  const { ownerIn } = request.routeOptions.config;
  if (!ownerIn) return undefined;
  const caller = callerOf(request);
  const { user_id: userId, organization_id: given } = fieldsOf(request[ownerIn]);
  // The schema requires it.
  if (typeof userId !== 'string') throw new Error(`a route passed a call without user_id`);
  if (caller.userId !== undefined && userId !== caller.userId) throw restricted('user_id');
  const { organizationId } = caller;
  if (organizationId !== undefined && given !== undefined && given !== organizationId) {
    throw restricted('organization_id');
  }
  return { userId, organizationId };
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' ? { ...value } : {};
}

function restricted(field: string): Refusal {
  const message = 'must be the one that the API key is bound to';
  return new Refusal('key_restricted', `${field} ${message}`, { errors: [{ field, message }] });
}

function callerOf({ caller }: FastifyRequest) {
  if (!caller) throw new Error('a route below /v2 was called without a login');
  return caller;
}
