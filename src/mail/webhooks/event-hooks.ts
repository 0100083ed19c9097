/**
 * Event hooks: a user has one URL to which what `GET /v2/events` tells of him is posted. Stores nothing itself: the hook is
 * a row of `tenants/events`, and each event that is posted a delivery of the queue (`queue-events.ts`).
 *
 * Its deliveries belong to no domain, since they tell of the end of domains, too. In their place stands the hook.
 */
import { randomBytes } from 'node:crypto';
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { Database, InTransaction } from '../../platform/database/database.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { type Actor, recordAudit } from '../../tenants/audit/audit.ts';
import {
  checkUserId,
  checkWebhookSecret,
  checkWebhookUrl,
  type Owner,
  PREVIOUS_SIGNS_MS,
} from '../../tenants/domains/domains.ts';
import {
  type EventHook,
  type Events,
  type EventType,
  eventTypes,
  findHook,
  removeHook,
  saveHook,
} from '../../tenants/events/events.ts';
import {
  type DeliveryError,
  type Queue,
  redirectDeliveries,
  withdrawDeliveries,
} from '../queue/queue.ts';
import { webhookDestination } from './send-webhook.ts';

/** The kind of its deliveries. */
export const EVENT = 'event';

/** Deliveries that wait for one hook; the events after them wait in their table. */
export const QUEUED_MAX = 1_000;

/** Claims are numbered from 1; no database has so many. */
const BEHIND_ALL_DOMAINS = 2 ** 52;

/** What stands in the place of a domain in the deliveries of a hook. */
export function partyOf({ id, userId }: Pick<EventHook, 'id' | 'userId'>) {
  return { userId, domainId: BEHIND_ALL_DOMAINS + id };
}

/** The secrets that sign now, the newest first. */
export function secretsOf({ secret, previous }: EventHook, now: EpochMs): string[] {
  return previous && now < previous.until ? [secret, previous.secret] : [secret];
}

export interface HookState extends EventHook {
  /** Signs as well for a while, after a change. */
  readonly secretPrevious: string | undefined;
  /** Events that were not taken yet, in the queue and behind it; {@link QUEUED_MAX} stands for as many or more. */
  readonly waiting: number;
  /** Why the oldest of those in the queue was not posted yet. */
  readonly lastError: DeliveryError | undefined;
}

export interface HookSettings {
  readonly url: string;
  /** All where left out. */
  readonly types?: readonly string[] | undefined;
  /** The one that is there stays, or one is made, where left out. */
  readonly secret?: string | undefined;
}

export interface EventHooksOptions {
  readonly database: Database;
  readonly queue: Queue;
  readonly bodies: Pick<Bodies, 'release'>;
  readonly events: Pick<Events, 'now' | 'count'>;
  /** Called after the commit: the events of this user are posted from now on. */
  readonly onSet: (hook: EventHook) => void;
  readonly now: () => EpochMs;
}

export class EventHooks {
  readonly #options: EventHooksOptions;

  constructor(options: EventHooksOptions) {
    this.#options = options;
  }

  /** @throws Refusal event_hook_not_found, key_restricted */
  async find(owner: Owner): Promise<HookState> {
    const hook = await findHook(this.#options.database.read, ofWholeUser(owner));
    if (!hook) throw notFound(owner);
    return this.#withState(hook);
  }

  /**
   * Sets the hook of a user. A new one is told what happens from now on. Another URL also gets what waits. After another
   * secret both sign for 24 hours.
   *
   * @param by who is named in the audit log
   * @throws Refusal invalid_request (`url`, `types`, `secret`), key_restricted
   */
  async set(owner: Owner, settings: HookSettings, by: Actor): Promise<HookState> {
    const { userId } = ofWholeUser(owner);
    checkUserId(userId);
    const url = checkWebhookUrl(settings.url, 'url');
    const types = readTypes(settings.types);
    const given = settings.secret ? checkWebhookSecret(settings.secret, 'secret') : undefined;
    const { database, queue, events, now, onSet } = this.#options;
    const cursor = await events.now();
    const secret = given ?? `whsec_${randomBytes(32).toString('base64')}`;
    const secrets = { secret, keepsSecret: given === undefined };
    const { hook, moved } = await database.write(async (tx) => {
      const at = now();
      const times = { createdAt: at, previousUntil: at + PREVIOUS_SIGNS_MS };
      const hook = await saveHook(tx, { userId, url, types, cursor, ...secrets, ...times });
      const to = { destination: webhookDestination(url), url };
      await redirectDeliveries(tx, partyOf(hook).domainId, to);
      await recordAudit(tx, by, { action: 'event_hook.set', target: userId, at });
      return { hook, moved: { kind: EVENT, ...partyOf(hook), ...to } };
    });
    queue.wake([moved]);
    onSet(hook);
    return this.#withState(hook);
  }

  /**
   * Removes the hook of a user, and what waits for it.
   *
   * @param within runs in the transaction
   * @returns its URL
   * @throws Refusal event_hook_not_found, key_restricted
   */
  async remove(owner: Owner, by: Actor, within?: InTransaction<string>): Promise<string> {
    const { database, bodies, now } = this.#options;
    const { userId } = ofWholeUser(owner);
    return database.write(async (tx) => {
      const hook = await findHook(tx, { userId });
      if (!hook || !(await removeHook(tx, hook.id))) throw notFound(owner);
      await bodies.release(tx, await withdrawDeliveries(tx, partyOf(hook).domainId));
      await recordAudit(tx, by, { action: 'event_hook.delete', target: userId, at: now() });
      await within?.(tx, hook.url);
      return hook.url;
    });
  }

  async #withState(hook: EventHook): Promise<HookState> {
    const { queue, events, now } = this.#options;
    const { userId, types, cursor } = hook;
    const [, secretPrevious] = secretsOf(hook, now());
    const queued = { domainId: partyOf(hook).domainId, status: 'queued' } as const;
    const [oldest] = await queue.list({ ...queued, limit: 1, offset: 0 });
    // Behind a full queue they wait in their table, where those of some types may be few among a million. Before the queue is
    // counted: one that has just been emptied is not the end.
    const isFull = (await queue.count(queued, QUEUED_MAX)) >= QUEUED_MAX;
    const scope = { userId, organizationId: undefined, types };
    const behind = isFull ? 0 : await events.count(scope, cursor, QUEUED_MAX);
    return {
      ...hook,
      secretPrevious,
      waiting: Math.min(QUEUED_MAX, behind + (await queue.count(queued, QUEUED_MAX))),
      lastError: oldest?.lastError,
    };
  }
}

/** A hook tells of all organizations of its user. @throws Refusal key_restricted */
function ofWholeUser({ userId, organizationId }: Owner): { readonly userId: string } {
  if (organizationId === undefined) return { userId };
  const detail = 'an event hook tells of the whole user: the API key is bound to an organization';
  throw new Refusal('key_restricted', detail);
}

function readTypes(named: readonly string[] | undefined): readonly EventType[] | undefined {
  if (named === undefined) return undefined;
  const known = eventTypes.filter((type) => named.includes(type));
  if (known.length > 0 && known.length === new Set(named).size) return known;
  throw invalidField('types', `must be some of ${eventTypes.join(', ')}`);
}

function notFound({ userId }: Owner): Refusal {
  return new Refusal('event_hook_not_found', `${userId} has no event hook`);
}
