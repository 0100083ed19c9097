/** What belongs to one user of a product: domains, accounts, deliveries, suppressions. */
import type { DomainDetails, OperationId, Operations } from './api-types.ts';
import { isPassing } from './errors.ts';
import { type EventOptions, type EventType, followEvents, type UserEvent } from './events.ts';
import type { AnswerOf, Call, ItemOf, ListId, OperationClient } from './operations.ts';
import type { Page, Pages } from './pages.ts';
import { type CallOptions, pause } from './transport.ts';

/** The members of a body, without the user's id. */
type BodyOf<Id extends OperationId> = Omit<NonNullable<Operations[Id]['body']>, 'user_id'>;
type QueryOf<Id extends OperationId> = Omit<Operations[Id]['query'], 'user_id'>;
type Answer<Id extends OperationId> = Call<AnswerOf<Id>>;
type ListOf<Id extends ListId> = Pages<ItemOf<Id>, AnswerOf<Id> & Page<ItemOf<Id>>>;

/** All that belongs to one user of your product. */
export class UserScope {
  readonly userId: string;
  readonly domains: Domains;
  readonly accounts: Accounts;
  readonly deliveries: Deliveries;
  readonly suppressions: Suppressions;
  readonly eventHook: EventHookOfUser;
  readonly #postroom: OperationClient;

  constructor(postroom: OperationClient, userId: string) {
    this.userId = userId;
    this.domains = new Domains(postroom, userId);
    this.accounts = new Accounts(postroom, userId);
    this.deliveries = new Deliveries(postroom, userId);
    this.suppressions = new Suppressions(postroom, userId);
    this.eventHook = new EventHookOfUser(postroom, userId);
    this.#postroom = postroom;
  }

  /**
   * What happens to the user, in order, each event once: iterate it without end. It connects again by itself, and goes on
   * after the last event.
   *
   * @throws ApiError where the server refuses; `cursor_expired` where events may be missing, with `oldest` to go on from
   */
  events<Type extends EventType = EventType>(
    options: EventOptions<Type> = {},
  ): AsyncGenerator<UserEvent<Type>, void, undefined> {
    return followEvents(this.#postroom, { user_id: this.userId }, options);
  }
}

class Group {
  protected readonly postroom: OperationClient;
  /** Goes with each call. */
  protected readonly user: { readonly user_id: string };

  constructor(postroom: OperationClient, userId: string) {
    this.postroom = postroom;
    this.user = { user_id: userId };
  }
}

/** How long a wait takes, and who hears of it. */
export interface WaitOptions extends CallOptions {
  /** Of the whole wait; an hour when left out. */
  readonly timeoutMs?: number | undefined;
  /** Called with what each check found. */
  readonly onCheck?: ((domain: DomainDetails) => void) | undefined;
}

/** DNS is asked again after 5, 10, 20 and then every 30 seconds. */
const FIRST_CHECK_MS = 5000;
const CHECK_MS = 30_000;
const HOUR_MS = 3_600_000;

/** The domains of a user, with their DNS records and routes. */
export class Domains extends Group {
  /** Claims a domain. What to publish in DNS is in the answer. */
  create(body: BodyOf<'createDomain'>, options?: CallOptions): Answer<'createDomain'> {
    return this.postroom.call('createDomain', { body: { ...body, ...this.user } }, options);
  }

  list(query: QueryOf<'listDomains'> = {}, options?: CallOptions): ListOf<'listDomains'> {
    return this.postroom.list('listDomains', { query: { ...query, ...this.user } }, options);
  }

  get(domain: string, options?: CallOptions): Call<DomainDetails> {
    return this.postroom.call('getDomain', { path: { domain }, query: this.user }, options);
  }

  /** Asks DNS now. */
  verify(domain: string, options?: CallOptions): Call<DomainDetails> {
    return this.postroom.call('verifyDomain', { path: { domain }, body: this.user }, options);
  }

  /**
   * Waits until the records are published and the domain is active. Servers that are away meanwhile do not end it.
   *
   * @throws Error at the end of the time, with what the last check found
   */
  async waitUntilActive(domain: string, options: WaitOptions = {}): Promise<DomainDetails> {
    const { timeoutMs = HOUR_MS, onCheck, ...callOptions } = options;
    const end = performance.now() + timeoutMs;
    let found: DomainDetails | undefined;
    for (let wait = FIRST_CHECK_MS; ; wait = Math.min(2 * wait, CHECK_MS)) {
      try {
        found = await this.verify(domain, callOptions);
        onCheck?.(found);
        if (found.domain.status === 'active') return found;
      } catch (error) {
        if (!isPassing(error)) throw error;
      }
      if (performance.now() + wait > end) throw new Error(describeMissing(domain, found));
      await pause(wait, callOptions.signal);
    }
  }

  setRoute(domain: string, body: BodyOf<'setRoute'>, options?: CallOptions): Answer<'setRoute'> {
    const parameters = { path: { domain }, body: { ...body, ...this.user } };
    return this.postroom.call('setRoute', parameters, options);
  }

  rotateDkim(domain: string, options?: CallOptions): Answer<'rotateDkim'> {
    return this.postroom.call('rotateDkim', { path: { domain }, body: this.user }, options);
  }

  /** Removes the domain with its accounts and their mail. */
  delete(domain: string, options?: CallOptions): Answer<'deleteDomain'> {
    return this.postroom.call('deleteDomain', { body: { domain, ...this.user } }, options);
  }
}

function describeMissing(domain: string, found: DomainDetails | undefined): string {
  if (!found) return `${domain} is not active: the server did not answer`;
  const missing = found.dns
    .filter(({ status }) => status !== 'verified' && status !== 'disabled')
    .map(
      ({ record_type, host, detail }) => `${record_type} ${host}: ${detail ?? 'not checked yet'}`,
    );
  return [`${domain} is not active:`, ...missing].join('\n');
}

/** The mailbox accounts of a user. */
export class Accounts extends Group {
  /** Makes an account. Its password is in the answer, and nowhere else. */
  create(body: BodyOf<'createAccount'>, options?: CallOptions): Answer<'createAccount'> {
    return this.postroom.call('createAccount', { body: { ...body, ...this.user } }, options);
  }

  list(query: QueryOf<'listAccounts'> = {}, options?: CallOptions): ListOf<'listAccounts'> {
    return this.postroom.list('listAccounts', { query: { ...query, ...this.user } }, options);
  }

  get(id: number, options?: CallOptions): Answer<'getAccount'> {
    return this.postroom.call('getAccount', { path: { id }, query: this.user }, options);
  }

  update(
    id: number,
    body: BodyOf<'updateAccount'>,
    options?: CallOptions,
  ): Answer<'updateAccount'> {
    const parameters = { path: { id }, body: { ...body, ...this.user } };
    return this.postroom.call('updateAccount', parameters, options);
  }

  resetPassword(
    id: number,
    body: BodyOf<'resetPassword'> = {},
    options?: CallOptions,
  ): Answer<'resetPassword'> {
    const parameters = { path: { id }, body: { ...body, ...this.user } };
    return this.postroom.call('resetPassword', parameters, options);
  }

  /** A token for the account's app: hand it to the browser or phone in place of a password. */
  token(id: number, options?: CallOptions): Answer<'issueToken'> {
    return this.postroom.call('issueToken', { path: { id }, body: this.user }, options);
  }

  /** Removes the account with its mail. */
  delete(id: number, options?: CallOptions): Answer<'deleteAccount'> {
    return this.postroom.call('deleteAccount', { body: { id, ...this.user } }, options);
  }
}

/** What is on its way from a domain to places outside, and what became of it. */
export class Deliveries extends Group {
  list(
    domain: string,
    query: QueryOf<'listDeliveries'> = {},
    options?: CallOptions,
  ): ListOf<'listDeliveries'> {
    const parameters = { path: { domain }, query: { ...query, ...this.user } };
    return this.postroom.list('listDeliveries', parameters, options);
  }

  retry(domain: string, id: number, options?: CallOptions): Answer<'retryDelivery'> {
    const parameters = { path: { domain, id }, body: this.user };
    return this.postroom.call('retryDelivery', parameters, options);
  }
}

/** The addresses that bounced, to which a domain writes no more. */
export class Suppressions extends Group {
  list(
    domain: string,
    query: QueryOf<'listSuppressions'> = {},
    options?: CallOptions,
  ): ListOf<'listSuppressions'> {
    const parameters = { path: { domain }, query: { ...query, ...this.user } };
    return this.postroom.list('listSuppressions', parameters, options);
  }

  /** Allows mail to an address again. */
  delete(
    domain: string,
    body: BodyOf<'deleteSuppression'>,
    options?: CallOptions,
  ): Answer<'deleteSuppression'> {
    const parameters = { path: { domain }, body: { ...body, ...this.user } };
    return this.postroom.call('deleteSuppression', parameters, options);
  }
}

/** The URL to which the user's events are posted. */
export class EventHookOfUser extends Group {
  get(options?: CallOptions): Answer<'getEventHook'> {
    return this.postroom.call('getEventHook', { query: this.user }, options);
  }

  /** Its secret is in the answer; it stays where none is given. */
  set(body: BodyOf<'setEventHook'>, options?: CallOptions): Answer<'setEventHook'> {
    return this.postroom.call('setEventHook', { body: { ...body, ...this.user } }, options);
  }

  delete(options?: CallOptions): Answer<'deleteEventHook'> {
    return this.postroom.call('deleteEventHook', { body: this.user }, options);
  }
}
