/** `postroom rotate`: new values for the generated secrets, without a gap. */
import { stat } from 'node:fs/promises';
import { Argument, Command, Option } from 'commander';
import { pino } from 'pino';
import type { Database, SettingStore } from '../../platform/database/database.ts';
import { many } from '../../platform/errors/errors.ts';
import {
  type Config,
  dropOldValues,
  fileSecretStore,
  newestDigest,
  type RotatedSecret,
  readConfig,
  refuseMoved,
  rotateSecret,
  signWithLast,
} from '../config/config.ts';
import { CommandFailed, type CommandParts, helpText, report } from './command.ts';

interface Secret {
  readonly name: RotatedSecret;
  /** The name under which nodes report it. */
  readonly key: string;
  /** The setting that replaces it where it is set. */
  readonly setting?: (config: Config) => string | undefined;
  /** Whether others have it: products, a notifier. It signs nothing that a node has to know. */
  readonly isShared?: true;
}

const secrets: Readonly<Record<string, Secret>> = {
  'api-key': {
    name: 'apiKey',
    key: 'API_KEYS',
    setting: ({ credentials }) => credentials.apiKeys && 'API_KEYS',
    isShared: true,
  },
  'jwt-secret': {
    name: 'jwtSecret',
    key: 'JWT_SECRET',
    setting: ({ jwt }) => jwt.secret && 'JWT_SECRET',
  },
  'mailserver-webhook-secret': {
    name: 'mailserverWebhookSecret',
    key: 'MAILSERVER_WEBHOOK_SECRET',
    setting: ({ credentials }) =>
      credentials.mailserverWebhookSecret && 'MAILSERVER_WEBHOOK_SECRET',
    isShared: true,
  },
  'srs-secret': { name: 'srsSecret', key: 'srsSecret' },
  'link-secret': { name: 'linkSecret', key: 'linkSecret' },
};

const HELP = `
After a restart of the service the new value signs, and the old values still verify. When nobody uses the old values
any more, --drop-old removes them at the next restart.

On PostgreSQL, where several nodes may run, a value that signs is first only accepted: restart each node, run the
command with --sign, and restart each node again.

Each command is one write: an interrupted run has done everything or nothing, and can be repeated.`;

interface Given {
  readonly sign?: true;
  readonly dropOld?: true;
  readonly json?: true;
}

export function rotateCommand(parts: CommandParts): Command {
  return new Command('rotate')
    .description(
      'gives a generated secret a new value; the old value remains valid until it is dropped',
    )
    .addArgument(new Argument('<secret>', 'which one').choices(Object.keys(secrets)))
    .option('--sign', 'on PostgreSQL: lets the newest value sign, which all nodes accept by now')
    .addOption(
      // Other nodes sign with the old value until they are restarted.
      new Option('--drop-old', 'removes all values except the one that signs').conflicts('sign'),
    )
    .option('--json', 'prints the result as JSON')
    .addHelpText('after', helpText(HELP))
    .action((given: string, options: Given) => runRotate(parts, given, options));
}

async function runRotate(
  parts: CommandParts,
  given: string,
  { sign, dropOld, json }: Given,
): Promise<void> {
  const secret = secrets[given];
  if (!secret) throw new Error(`there is no secret ${given}`);
  const config = readConfig(process.env);
  const setting = secret.setting?.(config);
  if (setting !== undefined) {
    throw new CommandFailed(
      `${setting} is set and replaces the generated secret: write the new value there, before the old one, separated by a comma`,
    );
  }
  if (sign && secret.isShared) {
    throw new CommandFailed(`${given}: --sign is for values that only nodes know`, 2);
  }
  const { store, database, close } = await openStore(parts, config);
  try {
    if (database && (sign || dropOld)) {
      const newest = await newestDigest(store, secret.name);
      // Where old values are dropped, no node may sign with one of them any more.
      const hasIt = (values: readonly string[]) =>
        dropOld && !secret.isShared ? values[0] === newest : values.includes(newest);
      await refuseEarly(database, given, secret.key, hasIt);
    }
    const next = 'The change takes effect when the service is restarted (each node).';
    if (dropOld) {
      const dropped = await dropOldValues(store, secret.name);
      if (dropped === undefined) {
        throw new CommandFailed(
          `the newest ${given} does not sign yet: restart each node, run "postroom rotate ${given} --sign", restart each again, then drop the old`,
        );
      }
      report(
        json,
        { ok: true, secret: given, dropped },
        `${many(dropped, 'old value was', 'old values were')} removed. ${next}`,
      );
      return;
    }
    // One process has a SQLite file open: nobody else has to know the value before it signs.
    const isLast = config.database.urls !== undefined && !secret.isShared;
    if (sign) {
      if (isLast) await signWithLast(store, secret.name);
      report(json, { ok: true, secret: given }, `The newest ${given} signs. ${next}`);
      return;
    }
    const value = await rotateSecret(store, secret.name, isLast ? 'last' : 'first');
    // Callers need these; the others never leave the service.
    const said = secret.isShared ? `The new ${given} is ${value}` : `A new ${given} was generated`;
    const result = { ok: true, secret: given, ...(secret.isShared && { value }) };
    const then = isLast
      ? ` Then run "postroom rotate ${given} --sign", and restart each again.`
      : '';
    report(json, result, `${said}; the old one remains valid. ${next}${then}`);
  } finally {
    await close();
  }
}

/**
 * Refuses what a node has to know before: otherwise no node that ends could be started again beside it, until all are
 * stopped.
 */
async function refuseEarly(
  database: Database,
  given: string,
  key: string,
  hasIt: (values: readonly string[]) => boolean,
): Promise<void> {
  const { listSetting } = await import('../../platform/nodes/nodes.ts');
  const early = (await listSetting(database, key)).find(({ values }) => !hasIt(values));
  if (!early) return;
  throw new CommandFailed(
    `${early.node} has not been restarted since the last step of the ${given}: restart each node, then run this command again`,
  );
}

async function openStore(
  parts: CommandParts,
  config: Config,
): Promise<{ store: SettingStore; database?: Database; close(): Promise<void> }> {
  if (config.database.urls) {
    const { database, close } = await parts.openDatabase(config, pino({ level: 'silent' }));
    const { settingStore } = await import('../../platform/database/database.ts');
    return { store: settingStore(database, 'secrets'), database, close };
  }
  await refuseMoved(config.dataDir);
  await checkUser(config.dataDir);
  return { store: fileSecretStore(config.dataDir), async close() {} };
}

/** The file is written again: it must still belong to the user of the service. */
async function checkUser(dataDir: string): Promise<void> {
  const own = process.getuid?.();
  const owner = await stat(dataDir).catch(() => undefined);
  if (!owner || own === undefined || owner.uid === own) return;
  throw new CommandFailed(
    `DATA_DIR: ${dataDir} belongs to user ${owner.uid}, but this process runs as user ${own}: run the command as the user of the service`,
  );
}
