/** What is queued, what a worker gets of it, and what an operator sees of it. */
import type { Row } from '../database/database.ts';

export interface NewDelivery {
  /** Whose work it is: the `kind` of a worker. */
  readonly kind: string;
  /** The claim whose mail it is; deleting it drops the delivery. */
  readonly domainId: number;
  /** What is treated as one receiver: an origin, a mail domain. Operators see it: no secrets. */
  readonly destination: string;
  /** The body that is kept until the delivery is pruned. */
  readonly bodyId: number;
  /** What the attempts need to know, written by the {@link PayloadFormat} of the kind. */
  readonly payload: string;
  /** UUID that the receiver knows it by; made when left out. */
  readonly publicId?: string;
  /** Milliseconds since 1970 before which it is not attempted; at once when left out. */
  readonly notBefore?: number;
  /** An attempt failed before it was queued: the next comes so many milliseconds later. */
  readonly tried?: { readonly error: DeliveryError; readonly retryMs: number };
  /**
   * Milliseconds since 1970. Where no attempt has ended by then, {@link WorkOptions.onLate} is done,
   * and the delivery goes on.
   */
  readonly lateAt?: number;
}

/** A delivery in the hands of a worker. */
export interface Job<Payload = unknown> extends JobFacts {
  readonly payload: Payload;
}

/** What is known of a delivery whatever its payload is. */
export interface JobFacts {
  readonly id: number;
  readonly publicId: string;
  readonly domainId: number;
  readonly destination: string;
  readonly bodyId: number;
  /**
   * Which attempt of the schedule this is, from 1. After a crash the same number comes again, and an
   * operator may have started the schedule anew.
   */
  readonly attempt: number;
  /** Whether no attempt of the delivery has ended yet. */
  readonly isFirst: boolean;
  /** Whether this is the last attempt of the schedule. */
  readonly isLast: boolean;
  /**
   * Whether an operator queued it again after it had ended: what follows an end has been done once
   * already.
   */
  readonly isReplay: boolean;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
}

/** What went wrong, as operators see it. */
export interface DeliveryError {
  /** The receiver's status: of HTTP, or an SMTP reply code. */
  readonly status?: number;
  /** For people; the queue keeps 500 bytes of it. */
  readonly text: string;
}

/** How an attempt went. */
export type Outcome =
  | { readonly result: 'delivered' }
  | {
      readonly result: 'temporary';
      readonly error: DeliveryError;
      /** Seconds that the receiver asked for; the next attempt comes no earlier. */
      readonly retryAfterSeconds?: number;
    }
  | { readonly result: 'permanent'; readonly error: DeliveryError }
  /**
   * It cannot be attempted, for a reason of ours that time does not mend: it waits until somebody
   * tries it again by hand.
   */
  | { readonly result: 'held'; readonly error: DeliveryError };

export type DeliveryStatus = Row<'deliveries'>['status'];

/** An attempt that ended, and what the delivery is now: still `queued`, `held`, or at its end. */
export interface Settled {
  readonly outcome: Outcome;
  readonly status: DeliveryStatus;
}

/** A delivery as operators see it. Instants are milliseconds since 1970. */
export interface Delivery {
  readonly id: number;
  readonly publicId: string;
  readonly kind: string;
  readonly destination: string;
  readonly status: DeliveryStatus;
  /** Attempts that ended, since it was queued or last replayed. */
  readonly attempts: number;
  /** Of the last attempt that failed, or why it is held; stays when a later attempt succeeds. */
  readonly lastError?: DeliveryError;
  /** Absent where it has ended or is held, and while an attempt is under way. */
  readonly nextAttemptAt?: number;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** When it was delivered or given up. */
  readonly finishedAt?: number;
}
