/**
 * The durable queue: what has to reach a destination outside, and is tried until it did or the
 * schedule is at its end. It knows no protocol; a kind of delivery brings the function that attempts.
 *
 * A delivery is a row of `deliveries`, written in the transaction of whoever accepts the message
 * ({@link Queue.enqueue}), and its payload a row of `delivery_payloads` (`payload.ts`). It is `queued`
 * until it is `delivered` or `failed`; ended rows are kept for operators until {@link Queue.prune}. One
 * that cannot be attempted, such as one whose payload this program cannot read, is `held`: it is
 * logged, its error says why, and nothing is done with it until somebody tries it again by hand. A row
 * keeps the body it refers to (`body_id`) from being swept.
 *
 * Crashes: a delivery is made at least once.
 * - Before the commit of `enqueue` nothing was accepted; after it the row is there.
 * - `wake` after the commit is only for speed: a start looks at every row.
 * - A worker leases rows before it attempts them. One that dies with leases, at whatever point of an
 *   attempt, leaves rows that nobody touches until the lease ends; then they are attempted again
 *   under the same public id, with the same payload. On SQLite there is one process: its start ends
 *   every lease at once.
 * - The receiver has it, but the worker dies before that is written: it gets it once more. Receivers
 *   know the repeat by its public id.
 * - The end of a delivery and what follows from it (storing it, bouncing it) are one transaction, by
 *   {@link WorkOptions.onOutcome}: it is done once, or the delivery has not ended.
 *
 * Clock: rows say by the clock when they are due; what waits in memory is counted by the monotonic
 * clock. Where the clock went back, rows that were written before keep the length of their wait: a
 * worker looks every 6 s, and at its start for what an earlier run wrote.
 *
 * Fairness: see `destinations.ts`.
 */
export { type Clock, systemClock } from './clock.ts';
export type {
  Delivery,
  DeliveryError,
  DeliveryStatus,
  Job,
  NewDelivery,
  Outcome,
  Settled,
} from './delivery.ts';
export { Queue, type QueueDepth, type QueueOptions } from './delivery-queue.ts';
export type { ListRequest } from './operator-rows.ts';
export { type PayloadFormat, payloadFormat, UnreadablePayload } from './payload.ts';
export type { Attempted, AttemptReport, QueueLog, WorkOptions } from './work-options.ts';
