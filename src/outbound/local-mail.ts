/** What stays here of mail that accounts send: to recipients hosted here, and reports on it. */
import type { Queries } from '../database/database.ts';
import type { Refusal } from '../errors/errors.ts';
import type { ParsedMessage } from '../message/message.ts';

/** A message for recipients of one domain that is hosted here. */
export interface LocalMail {
  /** What its Received field has as id: no other message has it. */
  readonly id: string;
  /** Envelope sender. */
  readonly from: string;
  readonly recipients: readonly string[];
  /** When it was accepted, milliseconds since 1970. */
  readonly acceptedAt: number;
  /** Octets. */
  readonly size: number;
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
   * @param about id of the message that it tells of, whose time line names it
   * @returns what is to be done once the transaction is committed
   */
  report(
    tx: Queries,
    user: { readonly accountId: number; readonly address: string },
    source: Buffer,
    about: string,
  ): Promise<() => void>;
}

/** A report from outside on messages that accounts sent (RFC 3464). */
export interface LocalReport {
  /** Notes what it says of messages of these accounts, in the transaction that stores the report. */
  apply(tx: Queries, accountIds: readonly number[]): Promise<void>;
}

export interface ReportReader {
  /**
   * Reads a message from the null sender.
   *
   * @param open reads a range of its source
   * @returns undefined where it is no report
   */
  read(
    parsed: ParsedMessage,
    open: (range: { readonly start: number; readonly end: number }) => AsyncIterable<Uint8Array>,
  ): Promise<LocalReport | undefined>;
}
