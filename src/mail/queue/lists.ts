/** What operators read of the queue: groups, receivers and single deliveries. */
import type { Database } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { type GroupFilter, type GroupKey, type GroupPage, listGroups, listOpen } from './groups.ts';
import {
  type FailingLimits,
  type FailingReceiver,
  findFailingReceivers,
  findHeld,
} from './needs-attention.ts';
import type { OpenKey } from './open-keys.ts';
import { type QueueDepth, readDepths } from './operator-rows.ts';
import { type CountFilter, listReceivers, type QueueSummary, summarize } from './receivers.ts';
import {
  type KnownDelivery,
  readKnown,
  readUndelivered,
  type Undelivered,
  type UndeliveredRequest,
} from './undelivered.ts';

export class QueueLists {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Waiting and failed deliveries, by receiver and domain. */
  groups(filter: GroupFilter, page: GroupPage<GroupKey>): ReturnType<typeof listGroups> {
    return listGroups(this.#database.read, filter, page);
  }

  /** Receivers with what waits for them, or failed at them. */
  receivers(
    filter: CountFilter,
    page: Parameters<typeof listReceivers>[2],
  ): ReturnType<typeof listReceivers> {
    return listReceivers(this.#database, filter, page);
  }

  /** Receivers at which more waits after a failed attempt than was delivered lately. */
  failingReceivers(limits: FailingLimits): Promise<FailingReceiver[]> {
    return findFailingReceivers(this.#database, limits);
  }

  /** Deliveries that were held before a time and still are, and since when the first of them. */
  heldBefore(at: EpochMs): ReturnType<typeof findHeld> {
    return findHeld(this.#database, at);
  }

  /** What fits a filter, by reason, domain and sender. */
  summarize(filter: CountFilter): Promise<QueueSummary> {
    return summarize(this.#database, filter);
  }

  /** Single deliveries that were not delivered. */
  listOpen(
    filter: Parameters<typeof listOpen>[1],
    page: GroupPage<OpenKey>,
  ): ReturnType<typeof listOpen> {
    return listOpen(this.#database, filter, page);
  }

  /** Deliveries that were not delivered in one state, the newest first. */
  undelivered(request: UndeliveredRequest): Promise<Undelivered[]> {
    return readUndelivered(this.#database.read, request);
  }

  /** Deliveries of any state by their ids; those that were removed are left out. */
  findAll(ids: readonly number[]): Promise<KnownDelivery[]> {
    return readKnown(this.#database.read, ids);
  }

  /** Our id of a delivery's message, by the delivery's id or public id. */
  async findMailId(delivery: string): Promise<string | undefined> {
    const query = this.#database.read.selectFrom('deliveries').select('mail_id');
    const id = Number(delivery);
    const row = await (/^\d{1,15}$/.test(delivery)
      ? query.where('id', '=', id)
      : query.where('public_id', '=', delivery)
    ).executeTakeFirst();
    return row?.mail_id ?? undefined;
  }

  /** The body of a delivery by its public id, ended or not; undefined where there is none. */
  async findBody(publicId: string): Promise<number | undefined> {
    const row = await this.#database.read
      .selectFrom('deliveries')
      .select('body_id')
      .where('public_id', '=', publicId)
      .executeTakeFirst();
    return row?.body_id;
  }

  /** The queued deliveries of each kind, for metrics; a kind without any is left out. */
  depths(): Promise<QueueDepth[]> {
    return readDepths(this.#database.read);
  }
}
