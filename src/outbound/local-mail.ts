/** What mail to recipients that are hosted here needs, which goes out to nobody. */
import type { Queries } from '../database/database.ts';
import type { Refusal } from '../errors/errors.ts';

/** A message for recipients of one domain that is hosted here. */
export interface LocalMail {
  /** What its Received field has as id: no other message has it. */
  readonly id: string;
  /** Envelope sender. */
  readonly from: string;
  readonly recipients: readonly string[];
  /** When it was accepted, milliseconds since 1970. */
  readonly acceptedAt: number;
  /** Reads the message from its start. */
  readonly open: () => AsyncIterable<Uint8Array>;
}

/** A message that is on the disk and not yet delivered. */
export interface PreparedLocal {
  /** Recipients who do not get it. */
  readonly refused: ReadonlyMap<string, Refusal>;
  /**
   * Brings it to all the others.
   *
   * @returns what is to be done once the transaction is committed
   */
  commit(tx: Queries): Promise<() => void>;
}

/** What brings mail to recipients hosted here, in the caller's transaction. */
export interface LocalMailDelivery {
  /** Finds where the message goes for each recipient, and puts it on the disk. */
  prepare(mail: LocalMail): Promise<PreparedLocal>;
  /**
   * Puts a message of ours into an account's INBOX, whatever the route of its domain.
   *
   * @returns what is to be done once the transaction is committed
   */
  report(
    tx: Queries,
    user: { readonly accountId: number; readonly address: string },
    source: Buffer,
  ): Promise<() => void>;
}
