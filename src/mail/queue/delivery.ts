/** Deliveries as they are queued, as a worker gets them, and as operators see them; and their payloads. */

import { Buffer } from 'node:buffer';
import { type Static, type TObject, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import type { Row } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';

export interface NewDelivery {
  /** The `kind` of the worker that attempts it. */
  readonly kind: string;
  /** The claim that the mail belongs to; deleting it drops the delivery. */
  readonly domainId: number;
  /** The user whose claim it is, or empty: his share of the slots (`lanes.ts`). */
  readonly userId: string;
  /** The account whose mail it is, where it is not the domain's: its share of the slots (`lanes.ts`). */
  readonly accountId?: number;
  /** What counts as one receiver: an origin, a mail domain. Operators see it: no secrets. */
  readonly destination: string;
  /** The body that is kept until the delivery is pruned. */
  readonly bodyId: number;
  /** The data for the attempts, written by the {@link PayloadFormat} of the kind. */
  readonly payload: string;
  /** The UUID of the delivery for its receiver; a new one by default. */
  readonly publicId?: string;
  /** It is not attempted before this time; by default at once. */
  readonly notBefore?: EpochMs;
  /** Set where an attempt failed before it was queued: the next one comes so many milliseconds later. */
  readonly tried?: { readonly error: DeliveryError; readonly retryMs: number };
  /**
   * Set where it was made before it is queued, and how long that took: the transaction that queues it makes it
   * `delivered`. It is kept for operators, who may retry it.
   */
  readonly deliveredMs?: number | undefined;
  /** If no attempt has ended by then, {@link WorkOptions.onLate} runs, and the delivery continues. */
  readonly lateAt?: EpochMs;
  /** The Message-ID and Subject of its message, for operators. */
  readonly about?: { readonly messageId?: string; readonly subject: string };
  /** The id in the answer to the client that brought the message. */
  readonly mailId?: string | undefined;
  /** The recipients, for operators. */
  readonly recipients?: readonly string[];
  /** From whom the message is, for operators: its reverse-path, `''` for the null sender. */
  readonly mailFrom?: string;
  /** Where it is posted, in full, for operators. */
  readonly url?: string;
}

/** The most characters of a Message-ID, a subject or recipients that are kept for operators. */
export const ABOUT_MAX = 255;

/** Recipients as operators see them. */
export function nameRecipients(recipients: readonly string[]): string {
  return recipients.join(', ').slice(0, ABOUT_MAX).toWellFormed();
}

/** A mailbox in which a message was stored as well. */
export interface StoredLocation {
  readonly address: string;
  readonly mailbox: string;
  readonly uid: number;
}

/** A delivery that a worker holds. */
export interface Job<Payload = unknown> extends JobFacts {
  readonly payload: Payload;
}

/** All that is known of a delivery, except its payload. */
export interface JobFacts {
  readonly id: number;
  readonly publicId: string;
  readonly domainId: number;
  /** The user whose claim it is; empty in deliveries that do not name him, from before 0.4.0. */
  readonly userId: string;
  readonly destination: string;
  readonly bodyId: number;
  /** The id in the answer to the client that brought the message; absent in deliveries from before 0.3.0. */
  readonly mailId?: string;
  /** The recipients, for operators: addresses, separated by a comma and cut. */
  readonly recipient?: string;
  /**
   * Number of the attempt in the schedule, from 1. After a crash the same number comes again, and an operator may
   * have restarted the schedule.
   */
  readonly attempt: number;
  /** Whether no attempt of the delivery has ended yet. */
  readonly isFirst: boolean;
  /** Whether this is the last attempt of the schedule. */
  readonly isLast: boolean;
  /**
   * Whether an operator queued it again after it had ended: what follows an end was already done once.
   */
  readonly isReplay: boolean;
  readonly createdAt: EpochMs;
}

const deliveryError = Type.Object({
  /** The receiver's status: of HTTP, or an SMTP reply code. */
  status: Type.Optional(Type.Integer()),
  /** For people; the queue keeps 500 bytes of it. */
  text: Type.String(),
});
/** What went wrong, as operators see it. */
export type DeliveryError = Readonly<Static<typeof deliveryError>>;
const storedError = Compile(deliveryError);

export type AttemptOutcome =
  | { readonly result: 'delivered' }
  | {
      readonly result: 'temporary';
      readonly error: DeliveryError;
      /** Seconds that the receiver asked for; the next attempt comes no earlier. */
      readonly retryAfterSeconds?: number;
    }
  | { readonly result: 'permanent'; readonly error: DeliveryError }
  /**
   * It cannot be attempted, for a reason on our side that time does not remove. It waits until an operator retries
   * it.
   */
  | { readonly result: 'held'; readonly error: DeliveryError };

export type DeliveryStatus = Row<'deliveries'>['status'];

/** The result of an attempt, and the new state of the delivery: still `queued`, `held`, or ended. */
export interface Settled {
  readonly outcome: AttemptOutcome;
  readonly status: DeliveryStatus;
}

/** A delivery as operators see it. */
export interface Delivery {
  readonly id: number;
  readonly publicId: string;
  readonly kind: string;
  readonly destination: string;
  readonly status: DeliveryStatus;
  /** Attempts that ended, since it was queued or last replayed. */
  readonly attempts: number;
  /** Of the last failed attempt, or why it is held; stays when a later attempt succeeds. */
  readonly lastError?: DeliveryError;
  /** Absent where it has ended or is held, and while an attempt is under way. */
  readonly nextAttemptAt?: EpochMs;
  readonly createdAt: EpochMs;
  readonly updatedAt: EpochMs;
  /** When it was delivered or given up. */
  readonly finishedAt?: EpochMs;
  /** Of the message, cut where they are long. */
  readonly messageId?: string;
  readonly subject?: string;
  /** Where the message was stored as well; absent until it is. */
  readonly stored?: readonly StoredLocation[];
  /** The id in the answer to the client that brought the message, and the recipients. */
  readonly mailId?: string;
  readonly recipient?: string;
  /** Who keeps it `held`; absent where it cannot be attempted. */
  readonly heldBy?: 'operator' | 'suspension';
  /** Absent where it is not known; `''` for the null sender. */
  readonly mailFrom?: string;
  readonly url?: string;
}

/** Bytes of an error's text that are kept. */
const TEXT_MAX = 500;

/** JSON of an error as it is stored: its text cut to 500 bytes, never within a character. */
export function errorToJson({ status, text }: DeliveryError): string {
  const cut = cutText(text.toWellFormed());
  return JSON.stringify(status === undefined ? { text: cut } : { status, text: cut });
}

/** The most characters of a reason. */
const REASON_MAX = 120;

/**
 * An error in words that many deliveries share, so that they can be counted by it: without the addresses, the ids of
 * messages and the waiting times that servers write into their replies. What turns the order of letters is no part of
 * it either: the console shows none of it, and looks for reasons as it shows them.
 */
export function reasonOf({ status, text }: DeliveryError): string {
  return [status, text.slice(0, TEXT_MAX)]
    .filter((part) => part !== undefined)
    .join(' ')
    .replaceAll(/[\s\p{Cc}\u202a-\u202e\u2066-\u2069]+/gu, ' ')
    .replaceAll(/[^\s<>@,;:'"()]{1,64}@[^\s<>@,;:'"()]+/g, '…')
    .replaceAll(/\b(?=[\w-]*\d)(?=[\w-]*[a-z])[\w-]{10,}\b/gi, '…')
    .replaceAll(/\b\d+(?=\s?(?:ms|s|secs?|seconds?|min|minutes?|hours?)\b)/gi, '…')
    .slice(0, REASON_MAX)
    .trim()
    .toWellFormed();
}

/** The columns that say why an attempt failed. */
export const writeError = (error: DeliveryError) => ({
  last_error: errorToJson(error),
  reason: reasonOf(error),
});

/** An error; for a stored one that cannot be read, a text that says so, so that the list still works. */
export function errorFromJson(json: string): DeliveryError {
  try {
    const error: unknown = JSON.parse(json);
    if (storedError.Check(error)) return error;
  } catch {
    // Not JSON.
  }
  return { text: 'the error that is stored cannot be read' };
}

/** An error in one line, for people. */
export function describeError({ status, text }: DeliveryError): string {
  return status === undefined ? text : `${status} ${text}`;
}

function cutText(text: string): string {
  const bytes = Buffer.from(text.slice(0, TEXT_MAX));
  if (bytes.length <= TEXT_MAX) return bytes.toString().replace(/\ufffd$/, '');
  // A cut character decodes to one U+FFFD for all its bytes.
  return bytes
    .subarray(0, TEXT_MAX)
    .toString()
    .replace(/\ufffd+$/, '');
}

/*
 * The stored form of a payload: JSON with its version as `v`. It is checked whenever it is read: another version of
 * the program may have written it.
 *
 * The version stays the same as long as a program that knows only the old form can read the new one: a new optional
 * member is no problem, since unknown members are ignored. Otherwise one release learns to read the new version, and
 * the next one writes it.
 */

/** A payload that this program cannot read; the message says why. */
export class UnreadablePayload extends Error {
  override readonly name = 'UnreadablePayload';
}

/** Writes and reads the payloads of one kind of delivery. */
export interface PayloadFormat<Payload> {
  write(payload: Payload): string;
  /** @throws UnreadablePayload */
  read(json: string): Payload;
}

/** @param schema of the payload, without `v` */
export function payloadFormat<Schema extends TObject>(
  version: number,
  schema: Schema,
): PayloadFormat<Static<Schema>> {
  const validator = Compile(schema);
  return {
    write: (payload) => JSON.stringify({ v: version, ...payload }),
    read(json) {
      const value = parse(json);
      const found = versionOf(value);
      if (found !== version) {
        throw new UnreadablePayload(
          `the payload is of version ${JSON.stringify(found)}, this program reads version ${version}`,
        );
      }
      if (validator.Check(value)) return value;
      const [, [error]] = validator.Errors(value);
      throw new UnreadablePayload(
        `the payload is not valid: ${error?.instancePath || 'it'} ${error?.message}`,
      );
    },
  };
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    throw new UnreadablePayload('the payload is not JSON', { cause: error });
  }
}

function versionOf(value: unknown): unknown {
  return typeof value === 'object' && value !== null && 'v' in value ? value.v : undefined;
}
