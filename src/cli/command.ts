/** What every command has to do with. */
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import type { Database } from '../database/database.ts';

/** What the composition root gives to the commands. */
export interface CommandParts {
  /**
   * Opens the database as the service does.
   *
   * @throws ConfigError, also where a service has it in use that nothing may run beside
   */
  openDatabase(
    config: Config,
    logger: Logger,
  ): Promise<{ readonly database: Database; close(): Promise<void> }>;
}

/** A command that could not do what it was asked; the message is one line for the operator. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed';
}
