import type { Database } from '../../../platform/database/database.ts';
import type { EpochMs } from '../../../platform/time/time.ts';
import type { MailUser } from '../../mailstore/mailstore.ts';
import type { AppenderOptions } from './append-message.ts';
import type { Log } from './failure.ts';
import type { ImapServer } from './log-in.ts';
import type { PoolOptions } from './pool.ts';

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
