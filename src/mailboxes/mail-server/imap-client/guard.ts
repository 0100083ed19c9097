/** What every call to the mail server has in common: whose address it is, and what its failures are to the caller. */
import type { Database } from '../../../platform/database/database.ts';
import { Refusal } from '../../../platform/errors/errors.ts';
import type { EpochMs } from '../../../platform/time/time.ts';
import type { MailUser } from '../../mailstore/mailstore.ts';
import type { AppenderOptions } from './append-message.ts';
import { isMissing } from './connection.ts';
import { ImapFailure, type Log } from './failure.ts';
import type { ImapServer } from './log-in.ts';
import type { PoolOptions } from './pool.ts';
import { dropShadow } from './shadow-rows.ts';

interface GuardOptions extends Pick<ImapOptions, 'isCurrent'> {
  readonly server: ImapServer;
  readonly database: Database;
  readonly log: Log;
}

export class Guard {
  readonly #options: GuardOptions;

  constructor(options: GuardOptions) {
    this.#options = options;
  }

  /** @throws Refusal account_inactive where the address is another account's by now */
  async requireCurrent(user: MailUser): Promise<void> {
    const { isCurrent } = this.#options;
    if (isCurrent && !(await isCurrent(user))) {
      throw new Refusal('account_inactive', 'the address belongs to another account now');
    }
  }

  /**
   * Runs a call, and turns failures of the server into refusals, which it logs.
   *
   * @param mailbox that the call is about
   * @param note what follows, for the log
   */
  async run<T>(
    user: MailUser,
    work: () => Promise<T>,
    mailbox?: string,
    note?: string,
  ): Promise<T> {
    await this.requireCurrent(user);
    try {
      return await work();
    } catch (error) {
      if (error instanceof ImapFailure) {
        if (!error.isBackoff) this.report(user, error, note);
        throw error.toRefusal();
      }
      if (isMissing(error) && mailbox !== undefined) {
        await dropShadow(this.#options.database, user, mailbox);
      }
      throw error;
    }
  }

  report(user: MailUser | undefined, { message, kind, details }: ImapFailure, note?: string): void {
    const { command, said } = details;
    const { host, port } = this.#options.server;
    this.#options.log.warn(
      { failure: kind, account: user?.address, host, port, command, said, note },
      message,
    );
  }
}

export interface ImapOptions
  extends Partial<Pick<PoolOptions, 'onLogin' | 'onAccessEnd' | 'idleMs'>> {
  readonly server: ImapServer;
  readonly database: Database;
  /** Where a client's message is kept until the server has it. */
  readonly bodies: AppenderOptions['bodies'];
  /**
   * Whether the account is the one that has its address now. The server knows only addresses. When a domain belongs to
   * another claim, accounts of the old claim must not read the mailboxes of the new one.
   */
  readonly isCurrent?: (user: MailUser) => Promise<boolean>;
  /** Some accounts that the server should accept: readiness tests whether it does. */
  readonly someAccounts?: () => Promise<readonly MailUser[]>;
  readonly log: Log;
  /** Milliseconds without an answer after which a command has failed. */
  readonly timeoutMs?: number;
  /** The most connections. */
  readonly connections?: number;
  readonly now?: () => EpochMs;
}
