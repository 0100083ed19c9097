/** Calls operations of the API by their ids, with the types of its description. */
import { type OperationId, type Operations, ROUTES } from './api-types.ts';
import { type Page, Pages } from './pages.ts';
import {
  type ApiAnswer,
  type ApiRequest,
  type CallOptions,
  TIMEOUT_MS,
  type Transport,
  writeQuery,
} from './transport.ts';

type PartOf<Id extends OperationId, Part extends 'path' | 'query' | 'body'> =
  Record<never, never> extends Operations[Id][Part]
    ? { readonly [P in Part]?: Operations[Id][Part] }
    : Operations[Id][Part] extends undefined
      ? { readonly [P in Part]?: undefined }
      : { readonly [P in Part]: Operations[Id][Part] };

/** What an operation takes: members of its path, its query and its body. */
export type ParametersOf<Id extends OperationId> = PartOf<Id, 'path'> &
  PartOf<Id, 'query'> &
  PartOf<Id, 'body'>;

/** What an operation answers. */
export type AnswerOf<Id extends OperationId> = Operations[Id]['answer'];

/** The answer of a call as a promise; `withResponse` has its status and headers, too. */
export interface Call<T> extends Promise<T> {
  withResponse(): Promise<ApiAnswer<T>>;
}

/** Operations that answer a page of a list. */
export type ListId = {
  [Id in OperationId]: AnswerOf<Id> extends { items: unknown[] } ? Id : never;
}[OperationId];

/** An item of a list. */
export type ItemOf<Id extends ListId> =
  AnswerOf<Id> extends { items: (infer Item)[] } ? Item : never;

/** To do it again does no harm: the answer is the same, or says that it is done. */
const REPEATABLE: ReadonlySet<string> = new Set<OperationId>([
  'verifyDomain',
  'issueToken',
  'suspendDomain',
  'resumeDomain',
  'suspendAnyAccount',
  'resumeAnyAccount',
  'setQuota',
  'addBlock',
  'deleteBlock',
  'revokeKey',
]);

/** Calls operations of the API by their ids. */
export class OperationClient {
  readonly #transport: Transport;
  readonly #defaults: CallOptions;

  /** @param defaults of calls that say nothing else */
  constructor(transport: Transport, defaults: CallOptions) {
    this.#transport = transport;
    this.#defaults = defaults;
  }

  /**
   * Calls an operation by its id in the API's description: those of operators, and all others.
   *
   * @throws ApiError where the server refused
   * @throws ConnectionError where no answer came
   */
  call<Id extends OperationId>(
    id: Id,
    parameters: ParametersOf<Id>,
    options: CallOptions = {},
  ): Call<AnswerOf<Id>> {
    const sent = this.#transport.send<AnswerOf<Id>>(requestOf(id, parameters), {
      ...this.#defaults,
      ...options,
    });
    const data = sent.then((answer) => answer.data);
    const withResponse = () => {
      // An error of it is told there alone.
      data.catch(() => undefined);
      return sent;
    };
    return Object.assign(data, { withResponse });
  }

  /**
   * Calls an operation once, for an answer that is read as it comes.
   *
   * @throws ApiError where the server refused
   * @throws ConnectionError where no answer came
   */
  async open<Id extends OperationId>(
    id: Id,
    parameters: ParametersOf<Id>,
    options: CallOptions = {},
  ): Promise<Response> {
    const request = { ...requestOf(id, parameters), read: (response: Response) => response };
    // It has to begin in time; how fast it is read is up to the caller.
    const { timeoutMs = TIMEOUT_MS } = options;
    const once = { ...options, timeoutMs, maxRetries: 0 };
    const { data } = await this.#transport.send<Response>(request, once);
    return data;
  }

  /** A list by its id in the API's description: iterate all of it, or await one page. */
  list<Id extends ListId>(
    id: Id,
    parameters: ParametersOf<Id>,
    options: CallOptions = {},
  ): Pages<ItemOf<Id>, AnswerOf<Id> & Page<ItemOf<Id>>> {
    type ListPage = AnswerOf<Id> & Page<ItemOf<Id>>;
    const { query } = (parameters ?? {}) as LooseParameters;
    const read = (next: object) => {
      const asked = { ...parameters, query: { ...query, ...next } } as ParametersOf<Id>;
      // TypeScript does not see that a list's answer is a page of its items.
      return this.call(id, asked, options) as PromiseLike<unknown> as PromiseLike<ListPage>;
    };
    return new Pages<ItemOf<Id>, ListPage>(read, nextQuery);
  }
}

function requestOf<Id extends OperationId>(id: Id, parameters: ParametersOf<Id>): ApiRequest {
  // Plain JavaScript may name any.
  const route: string | undefined = ROUTES[id];
  if (route === undefined) throw new TypeError(`there is no operation ${id}`);
  const [method = '', template = '', key] = route.split(' ');
  // Each parameter is checked by its own type; what is left is a bag of them.
  const { path = {}, query = {}, body } = (parameters ?? {}) as LooseParameters;
  return {
    method,
    path: `${fillPath(template, path)}${writeQuery(query)}`,
    body,
    takesKey: key === 'key',
    repeatable: method === 'GET' || method === 'PUT' || REPEATABLE.has(id),
  };
}

interface LooseParameters {
  readonly path?: Readonly<Record<string, unknown>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
}

/**
 * What asks for the page after one: the cursor of operators' lists, or the id of the last item. Lists without ids
 * are gone through by their offset. Undefined on the last page.
 */
function nextQuery(page: object): Readonly<Record<string, unknown>> | undefined {
  const { items = [], limit = 0, offset, cursor } = page as LoosePage;
  if (cursor !== undefined) return { cursor };
  if (offset === undefined || items.length < limit || items.length === 0) return undefined;
  const id = items.at(-1)?.id;
  return id === undefined ? { offset: offset + items.length } : { after: id, offset: undefined };
}

interface LoosePage {
  readonly items?: readonly { readonly id?: number | string }[];
  readonly limit?: number;
  readonly offset?: number;
  readonly cursor?: string;
}

function fillPath(template: string, path: Readonly<Record<string, unknown>>): string {
  return template.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = path[name];
    // `..` and an empty name would lead to another path of the server.
    if (value === undefined || value === '' || value === '.' || value === '..') {
      throw new TypeError(`${name} must be given and not be "${value ?? ''}"`);
    }
    return encodeURIComponent(String(value));
  });
}
