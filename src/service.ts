/**
 * The composition root: builds every part from the configuration, passes each what it needs, and
 * takes them down in the order that loses nothing.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import { createAccounts, createTokens, findAccounts, type Tokens } from './accounts/accounts.ts';
import { type Api, createApi, mailserverEventRoutes } from './api/api.ts';
import { Bodies } from './bodies/bodies.ts';
import { type Changes, InProcessChanges } from './changes/changes.ts';
import {
  type BoundAddress,
  type BoundAddresses,
  type Config,
  ConfigError,
  ensureDataDir,
  fileSecretStore,
  loadCertificate,
  loadSecrets,
  type Secrets,
} from './config/config.ts';
import {
  type Database,
  lockDirectory,
  openPostgres,
  openSqlite,
  settingStore,
} from './database/database.ts';
import { createDelivery, type Delivery } from './delivery/delivery.ts';
import { createDomains } from './domains/domains.ts';
import { announceChanges, EmbeddedMailstore, type Mailstore } from './mailstore/mailstore.ts';
import { Maintenance } from './maintenance.ts';
import { createRealtime, type Realtime } from './realtime/realtime.ts';
import { type SmtpListener, startSmtp } from './smtp/smtp.ts';

export interface Service {
  readonly config: Config;
  readonly addresses: BoundAddresses;
  readonly secrets: Secrets;
  /** Whether the secrets were made by this start. */
  readonly created: boolean;
  /** The parts below the network, for tests that act where no client can yet. */
  readonly mailstore: Mailstore;
  readonly changes: Changes;
  /** Stops taking work, finishes what is under way, closes the database. */
  stop(): Promise<void>;
}

/** Time for each listener to finish what it has in hand, in milliseconds. */
const DRAIN_MS = 5_000;
/** JSON bodies of ours are small; the mail server's batches have a limit of their own. */
const MAX_JSON_BODY = 1024 * 1024;
/** How old a body file without a row must be where other nodes write into the same folder. */
const SHARED_SWEEP_GRACE_MS = 3_600_000;

const docsDirectory = fileURLToPath(new URL('../docs/home', import.meta.url));

/**
 * Starts everything.
 *
 * @param given an open database to use in place of the configured one; it stays the caller's
 * @throws ConfigError for what the operator can mend: a folder, a certificate, a port
 */
export async function startService(
  config: Config,
  logger: Logger,
  given?: Database,
): Promise<Service> {
  const closers: (() => Promise<void> | void)[] = [];
  const stop = async () => {
    // Last opened, first closed; one that fails must not keep the others open.
    for (const close of closers.splice(0).reverse()) {
      await Promise.resolve(close()).catch((error: unknown) =>
        logger.error({ err: error }, 'part did not close'),
      );
    }
  };
  try {
    const onStop: OnStop = (close) => closers.push(close);
    await ensureDataDir(config.dataDir);
    const database = given ?? (await openDatabase(config, logger, onStop));
    return { ...(await open(config, database, logger, onStop)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Registers what undoes a step; it is run at the stop, or when a later step fails. */
type OnStop = (close: () => Promise<void> | void) => unknown;

async function open(
  config: Config,
  database: Database,
  logger: Logger,
  onStop: OnStop,
): Promise<Omit<Service, 'stop'>> {
  const { secrets, created } = await loadSecrets(
    database.engine === 'sqlite'
      ? fileSecretStore(config.dataDir)
      : settingStore(database, 'secrets'),
  );
  const parts = buildParts(config, secrets, database, logger);
  await startMaintenance(parts, logger, onStop);
  const addresses = await listen(config, parts, logger, onStop);
  const { mailstore, changes } = parts;
  return { config, addresses, secrets, created, mailstore, changes };
}

async function openDatabase(config: Config, logger: Logger, onStop: OnStop): Promise<Database> {
  if (config.database.url !== undefined) {
    const database = await openPostgres({
      url: config.database.url,
      onIdleError: (error) => logger.warn({ err: error }, 'database connection lost'),
    }).catch(explainDatabase);
    onStop(() => database.close());
    return database;
  }
  const unlock = lockDirectory(config.dataDir);
  if (!unlock) {
    throw new ConfigError([
      `DATA_DIR: expected a folder that no other process uses, got "${config.dataDir}" (in use)`,
    ]);
  }
  onStop(unlock);
  const database = await openSqlite({ path: join(config.dataDir, 'postroom.sqlite') });
  onStop(() => database.close());
  return database;
}

interface Parts {
  readonly database: Database;
  readonly bodies: Bodies;
  readonly changes: Changes;
  readonly embedded: EmbeddedMailstore;
  readonly mailstore: Mailstore;
  readonly tokens: Tokens;
  readonly delivery: Delivery;
  readonly api: Api;
  readonly realtime: Realtime;
}

function buildParts(config: Config, secrets: Secrets, database: Database, logger: Logger): Parts {
  if (config.mailstore.kind !== 'embedded') {
    throw new ConfigError(['MAILSTORE_URL: expected embedded, got an IMAP server (not done yet)']);
  }
  const { mailHostname, spfInclude, jwt, credentials, http, limits } = config;
  const changes = new InProcessChanges();
  const domains = createDomains({ database, mailHostname, spfInclude });
  const accounts = createAccounts({ database, domains, changes });
  const tokens = createTokens({
    database,
    domains,
    secret: jwt.secret ?? secrets.jwtSecret,
    publicKeyPem: jwt.publicKey,
    jwksUrl: jwt.jwksUrl,
    issuer: jwt.issuer,
    audience: jwt.audience,
    accountClaim: jwt.accountClaim,
  });
  const bodies = new Bodies({ database, directory: join(config.dataDir, 'bodies') });
  const embedded = new EmbeddedMailstore({ database, bodies });
  const mailstore = announceChanges(embedded, (change) => changes.publish(change));
  const delivery = createDelivery({
    domains,
    accounts,
    mailstore,
    bodies,
    hostname: mailHostname,
    log: logger,
  });
  const api = createApi({
    logger,
    domains,
    accounts,
    tokens,
    mailstore,
    apiKeys: credentials.apiKeys ?? [secrets.apiKey],
    rateLimitPerMinute: limits.ratePerMinute,
    trustProxy: http.trustProxy,
    corsOrigins: http.corsOrigins,
    maxBody: MAX_JSON_BODY,
    docsDirectory,
    routes: [
      mailserverEventRoutes({
        secret: credentials.mailserverWebhookSecret ?? secrets.mailserverWebhookSecret,
        database,
        changes,
        findAccounts: (addresses) => findAccounts(database, addresses),
        logger,
      }),
    ],
    readiness: [
      async () =>
        (await database.read.selectFrom('counters').select('name').execute()) !== undefined,
    ],
  });
  const realtime = createRealtime({
    authenticate: (token) => tokens.authenticate(token),
    listMailboxes: (user) => mailstore.listMailboxes(user),
    changes,
    admit: (request) => api.admitUpgrade(request),
    logger,
  });
  return { database, bodies, changes, embedded, mailstore, tokens, delivery, api, realtime };
}

/** Clears what a crash left, then sweeps now and then. */
async function startMaintenance(
  { database, bodies, embedded }: Parts,
  logger: Logger,
  onStop: OnStop,
): Promise<void> {
  const graceMs = database.engine === 'sqlite' ? 0 : SHARED_SWEEP_GRACE_MS;
  const orphans = await bodies.sweepFiles(graceMs);
  if (orphans > 0) logger.info({ orphans }, 'body files without a message removed');
  const maintenance = new Maintenance({ bodies, mailstore: embedded, logger });
  maintenance.start();
  onStop(() => maintenance.stop());
}

async function listen(
  config: Config,
  parts: Parts,
  logger: Logger,
  onStop: OnStop,
): Promise<BoundAddresses> {
  const http = await listenHttp(config, parts, onStop);
  const { cert, key } = await loadCertificate({
    ...config.tls,
    dataDir: config.dataDir,
    hostname: config.mailHostname,
  });
  const start = async (setting: 'SMTP_PORT' | 'LMTP_PORT'): Promise<BoundAddress | undefined> => {
    const protocol = setting === 'SMTP_PORT' ? 'smtp' : 'lmtp';
    const { host, port } = config[protocol];
    if (port === 0) return undefined;
    const listener: SmtpListener = await startSmtp({
      delivery: parts.delivery,
      hostname: config.mailHostname,
      host,
      port,
      protocol,
      tls: { cert, key },
      maxMessageBytes: config.limits.maxMessageBytes,
      maxPerIp: config.limits.smtpMaxPerIp,
      logger,
    }).catch(explainPort(setting, host, port));
    onStop(() => listener.close(DRAIN_MS));
    const bound = listener.address();
    return { address: bound.host, port: bound.port };
  };
  return { http, smtp: await start('SMTP_PORT'), lmtp: await start('LMTP_PORT') };
}

async function listenHttp(
  { http: { host, port } }: Config,
  { api, realtime }: Parts,
  onStop: OnStop,
): Promise<BoundAddress> {
  api.server.on('upgrade', (request, socket, head) =>
    realtime.handleUpgrade(request, socket, head),
  );
  await api.listen({ host, port }).catch(explainPort('PORT', host, port));
  onStop(async () => {
    await realtime.close();
    // A download may go on for as long as its client likes.
    const cut = setTimeout(() => api.server.closeAllConnections(), DRAIN_MS);
    await api.close();
    clearTimeout(cut);
  });
  const bound = api.server.address();
  if (bound === null || typeof bound === 'string') throw new Error('HTTP has no TCP address');
  return { address: bound.address, port: bound.port };
}

/** A server that is not there, or does not let us in, is one line without the URL's password. */
function explainDatabase(error: unknown): never {
  const said = error instanceof Error ? error.message || error.name : String(error);
  throw new ConfigError([`DATABASE_URL: expected a database that lets us in, got "${said}"`], {
    cause: error,
  });
}

/** A port that cannot be had is the operator's to mend: one line instead of a stack. */
function explainPort(setting: string, host: string, port: number) {
  return (error: unknown): never => {
    const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
    if (code !== 'EADDRINUSE' && code !== 'EACCES' && code !== 'EADDRNOTAVAIL') throw error;
    throw new ConfigError(
      [
        `${setting}: expected a free port on an address of this machine, got ${host}:${port} (${code})`,
      ],
      { cause: error },
    );
  };
}
