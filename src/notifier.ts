/** The process beside a mail server that reports its changes to Postroom. */

import { startNotifier } from './mailboxes/notifier/notifier.ts';
import { Refusal } from './platform/errors/errors.ts';
import { openLog } from './platform/log/log.ts';
import {
  ConfigError,
  dataDirError,
  exitCodeOf,
  readConfig,
  SettingRefused,
} from './run/config/config.ts';

function refuseStart(error: unknown): never {
  const lines =
    error instanceof ConfigError ? error.lines : [`the notifier cannot start: ${String(error)}`];
  for (const line of lines) process.stderr.write(`${line}\n`);
  process.exit(exitCodeOf(error));
}

// Its files show who gets mail: no other user of this machine may read them.
process.umask(0o077);
try {
  const { notifier, credentials, logLevel } = readConfig(process.env);
  // Postroom accepts a signature by any of them.
  const secret = credentials.mailserverWebhookSecret?.[0];
  if (secret === undefined) {
    const expected = 'the secret that POST /hooks/mailserver has';
    throw new SettingRefused([`MAILSERVER_WEBHOOK_SECRET: expected ${expected}, got nothing`]);
  }
  const log = openLog(logLevel);
  const { logger } = log;
  const { spool: directory, url } = notifier;
  const running = await startNotifier({ directory, url, secret, logger }).catch(
    (error: unknown) => {
      if (error instanceof Refusal) throw new ConfigError([`NOTIFIER_SPOOL: ${error.message}`]);
      const isOfFolder = error instanceof Error && 'code' in error;
      throw isOfFolder ? dataDirError(directory, error, 'NOTIFIER_SPOOL') : error;
    },
  );
  const stop = async () => {
    await running.stop();
    await log.close();
    process.exit(0);
  };
  process.once('SIGTERM', () => void stop());
  process.once('SIGINT', () => void stop());
  logger.info({ spool: directory, url }, 'notifier started');
} catch (error) {
  refuseStart(error);
}
