/**
 * Starts and stops everything: opens the database, builds the parts, listens, and closes all in the order that loses
 * nothing.
 */
import { randomUUID } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import { carryOut } from '../../mail/delivery/delivery.ts';
import { carryOutSends } from '../../mail/sending/sending.ts';
import { carryOutEvents } from '../../mail/webhooks/webhooks.ts';
import { Bodies, openBodyStore, StoreUnavailable } from '../../mailboxes/bodies/bodies.ts';
import type { Changes } from '../../mailboxes/changes/changes.ts';
import type { Mailstore } from '../../mailboxes/mailstore/mailstore.ts';
import {
  type Database,
  type SettingStore,
  settingStore,
} from '../../platform/database/database.ts';
import { freeBytesAt } from '../../platform/files/files.ts';
import { changeLevel, type Log } from '../../platform/log/log.ts';
import { testNetworks } from '../../platform/net/net.ts';
import { joinNodes, NodeRefused, type Nodes } from '../../platform/nodes/nodes.ts';
import type { ImapListener } from '../../servers/imap/imap.ts';
import { createMetrics, serveMetrics } from '../../servers/metrics/metrics.ts';
import { type SmtpListener, startSmtp } from '../../servers/smtp/smtp.ts';
import { hasDomains } from '../../tenants/domains/domains.ts';
import {
  type BoundAddress,
  type BoundAddresses,
  type Config,
  ConfigError,
  databaseFile,
  ensureDataDir,
  fileSecretStore,
  loadSecrets,
  refuseUnfitCertificate,
  type Secrets,
  watchPaths,
} from '../config/config.ts';
import { checkBodies } from './check-bodies.ts';
import { explainPort } from './explain-port.ts';
import { followCertificate } from './follow-certificate.ts';
import { prepareImap, refuseUnfitExtensions } from './listen-imap.ts';
import { prepareSubmission } from './listen-submission.ts';
import { factsOf, signingKeysOf } from './node-facts.ts';
import { type DatabaseOpening, type OnStop, openDatabase, watchOutage } from './open-database.ts';
import { buildParts, type Parts } from './parts.ts';
import { openShared, type SharedTiming } from './shared.ts';
import { watchFreezes } from './watch-freezes.ts';

type OnLost = DatabaseOpening['onLost'];

export interface Service {
  readonly config: Config;
  readonly addresses: BoundAddresses;
  readonly secrets: Secrets;
  /** Whether no start before this one came so far as to listen. */
  readonly isFirst: boolean;
  /** The parts below the network, for tests that act where no client can yet. */
  readonly mailstore: Mailstore;
  readonly changes: Changes;
  /** Accepts no more work, finishes what is under way, closes the database. */
  stop(): Promise<void>;
}

/** Milliseconds for each listener to finish its work. */
const DRAIN_MS = 5_000;

/**
 * Starts everything.
 *
 * @param given.database an open one to use in place of the configured one; the caller closes it
 * @param given.timing replaces the times of production
 * @param given.hush as that of the log
 * @param given.onLost called with the reason why the data cannot be stored any more: only a new start helps
 * @throws ConfigError for what the operator can fix: a folder, a certificate, a port
 */
export async function startService(
  config: Config,
  logger: Logger,
  given: {
    readonly database?: Database;
    readonly timing?: SharedTiming;
    readonly hush?: Log['hush'];
    readonly onLost?: OnLost;
  } = {},
): Promise<Service> {
  const closers: (() => Promise<void> | void)[] = [];
  const stop = async () => {
    // Closed in reverse order; one that fails must not keep the others open.
    for (const close of closers.splice(0).reverse()) {
      await Promise.resolve(close()).catch((error: unknown) =>
        logger.error({ err: error }, 'a part of the service did not close'),
      );
    }
  };
  try {
    refuseUnfitExtensions(config);
    const onStop: OnStop = (close) => closers.push(close);
    for (const path of await ensureDataDir(config.dataDir)) {
      logger.warn(
        { path },
        'other users of this machine can read this file or folder, and its mode could not be changed: run chmod go-rwx on it as its owner',
      );
    }
    await refuseUnfitCertificate(config.tls);
    const onLost = given.onLost ?? (() => {});
    const metrics = createMetrics();
    const freezes = watchFreezes(logger);
    onStop(() => freezes.stop());
    const outage = watchOutage({ logger, freezes, hush: given.hush });
    const common = { config, logger, metrics, onLost, freezes, outage, timing: given.timing };
    const database = given.database ?? (await openDatabase(common, onStop));
    return { ...(await open({ ...common, database }, onStop)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

interface Opening extends DatabaseOpening {
  readonly database: Database;
  readonly timing?: SharedTiming | undefined;
}

async function open(
  { config, database, logger, metrics, onLost, timing }: Opening,
  onStop: OnStop,
): Promise<Omit<Service, 'stop'>> {
  const isNew = !(await hasDomains(database.read));
  const secrets = await loadSecrets(secretStore(config, database), isNew);
  const facts = factsOf(config, secrets);
  const nodes = await joinNodes({
    database,
    facts,
    log: logger,
    onRefused: onLost,
    onLogLevel: (level) => changeLevel(logger, level),
  }).catch(explainRefusal);
  onStop(() => nodes.leave());
  const shared = await openShared({ config, database, logger, nodes, timing });
  onStop(() => shared?.stop());
  const bodies = await openBodies({ config, database, logger, nodes });
  onStop(() => bodies.close());
  const { now } = nodes;
  const keys = signingKeysOf(config, secrets);
  const common = { config, secrets, keys, database, bodies, metrics, logger, nodes };
  const parts = buildParts({ ...common, now, shared });
  onStop(() => parts.imap?.close());
  await checkBodies(bodies, nodes, isNew).catch(explainStore(config));
  // Before any background work: a full disk fails all writes of one commit, and the start with them.
  const renamed = await parts.domains.adoptNames();
  if (renamed > 0)
    logger.info(
      { domains: renamed },
      'the DNS records of domains now name the new MAIL_HOSTNAME or SPF_INCLUDE',
    );
  await parts.events.prepare();
  onStop(await watchData(config, parts, onLost));
  parts.search?.start();
  onStop(() => parts.search?.stop());
  onStop(() => parts.verification.stop());
  nodes.lead('maintenance', (signal) => parts.maintenance.run(signal));
  nodes.lead('verification', (signal) => parts.verification.run(signal));
  onStop(() => nodes.stopLeading());
  onStop(() => parts.trace.flush());
  await parts.blocks.start();
  onStop(() => parts.blocks.stop());
  onStop(() => parts.namedKeys.stop());
  parts.traffic.start();
  onStop(() => parts.traffic.stop());
  onStop(() => parts.usage.flush());
  // Closed after the listeners: their work is finished first.
  onStop(() => parts.flow.closeSenderChecks());
  const addresses = await listen(config, parts, logger, onStop);
  parts.progress.httpPort = addresses.http.port;
  shared?.pollWith(async (afterGap) => {
    await parts.realtime.resync(afterGap);
    await parts.feed.look();
  });
  carryOut(parts.flow.attempts);
  if (config.sending.enabled) carryOutSends(parts.flow.sendAttempts);
  carryOutEvents(parts.flow.eventAttempts);
  nodes.lead('event_hooks', (signal) => parts.flow.eventQueuer.run(signal));
  onStop(async () => {
    await parts.queue.stop(DRAIN_MS);
    await parts.flow.close();
  });
  const isFirst = isNew && (await claimFirstStart(database));
  parts.progress.listening = true;
  onStop(() => drain(parts, config.drainSeconds));
  const { mailstore, changes } = parts;
  return { config, addresses, secrets, isFirst, mailstore, changes };
}

async function openBodies({
  config,
  database,
  logger,
  nodes: { now },
}: Pick<Opening, 'config' | 'database' | 'logger'> & {
  readonly nodes: Pick<Nodes, 'now'>;
}): Promise<Bodies> {
  const isHere = database.engine === 'sqlite';
  return new Bodies({
    database,
    store: await openBodyStore(config.bodies),
    databaseBytes: isHere ? () => freeBytesAt(config.dataDir) : undefined,
    keepHours: config.limits.bodyKeepHours,
    log: logger,
    now,
  });
}

/**
 * Notes that a start came so far as to listen. The one that made the secrets may have found a port taken after that, and
 * has not shown the API key.
 *
 * @returns whether this was the first one of all nodes
 */
async function claimFirstStart(database: Database): Promise<boolean> {
  const claim = randomUUID();
  return (await settingStore(database, 'first_start').create(claim)) === claim;
}

function explainRefusal(error: unknown): never {
  throw error instanceof NodeRefused ? new ConfigError([error.message]) : error;
}

/**
 * Lets a load balancer find other nodes: `/readyz` answers 503 from now on. In the first half of the time the balancer
 * notices it. In the second half WebSockets end one after the other, so that their apps reconnect to other nodes
 * spread over time. Every answer closes its connection, so that no request meets one that is being closed.
 */
async function drain({ progress, realtime, api }: Parts, seconds: number): Promise<void> {
  progress.listening = false;
  if (seconds === 0) return;
  api.server.prependListener('request', (_request, response) => {
    response.setHeader('connection', 'close');
  });
  await pause(seconds * 500);
  await realtime.drain(seconds * 500);
}

/** Several nodes on one PostgreSQL need the same secrets: there they are in the database. */
function secretStore({ dataDir }: Config, database: Database): SettingStore {
  if (database.engine === 'sqlite') return fileSecretStore(dataDir);
  return settingStore(database, 'secrets');
}

/** Stops accepting mail when DATA_DIR disappears: files written there would be lost. */
function watchData(config: Config, { bodies }: Parts, onLost: OnLost): Promise<() => void> {
  const { dataDir } = config;
  const paths = [dataDir];
  // On PostgreSQL it is the old one from before a move, which an operator may remove.
  if (!config.database.urls) paths.push(databaseFile(dataDir));
  if (!config.bodies.bucket) paths.push(config.bodies.folder);
  return watchPaths(paths, (path) => {
    const line = `DATA_DIR: ${path} was moved, removed or mounted over while Postroom was running: the process ends`;
    bodies.refuse(line);
    onLost(line);
  });
}

async function listen(
  config: Config,
  parts: Parts,
  logger: Logger,
  onPartStop: OnStop,
): Promise<BoundAddresses> {
  // All listeners drain at the same time: one after the other could take longer than a stop may.
  const listeners: (() => Promise<void> | void)[] = [];
  onPartStop(async () => {
    await Promise.all(listeners.map(async (close) => close()));
  });
  const onStop: OnStop = (close) => listeners.push(close);
  const http = await listenHttp(config, parts, onStop);
  const { dataDir, mailHostname: hostname } = config;
  const { metrics } = parts;
  const followed = await followCertificate({ ...config.tls, dataDir, hostname, metrics, logger });
  onStop(() => followed.stop());
  const { certificate: tls } = followed;
  const started: (SmtpListener | ImapListener)[] = [];
  const start = async (
    setting: string,
    { host, port }: BoundAddress,
    open: (port: number) => Promise<SmtpListener | ImapListener>,
  ): Promise<BoundAddress | undefined> => {
    if (port === 0) return undefined;
    const listener = await open(port).catch(explainPort(setting, host, port));
    onStop(() => listener.close(DRAIN_MS));
    started.push(listener);
    return listener.address;
  };
  const { smtp, lmtp, imap, submission } = config;
  const startMail = (protocol: 'smtp' | 'lmtp') => (port: number) =>
    startSmtp({ ...incomingMail(config, parts, protocol), port, tls, logger });
  const startImap = prepareImap(config, parts, tls, logger);
  const startSubmission = prepareSubmission(config, parts, tls, logger);
  const addresses = {
    http,
    smtp: await start('SMTP_PORT', smtp, startMail('smtp')),
    lmtp: await start('LMTP_PORT', lmtp, startMail('lmtp')),
    imaps: await start('IMAPS_PORT', { ...imap, port: imap.tlsPort }, (port) =>
      startImap({ port, isSecure: true }),
    ),
    imap: await start('IMAP_PORT', imap, (port) => startImap({ port, isSecure: false })),
    submissions: await start(
      'SUBMISSIONS_PORT',
      { ...submission, port: submission.tlsPort },
      (port) => startSubmission({ port, isSecure: true }),
    ),
    submission: await start('SUBMISSION_PORT', submission, (port) =>
      startSubmission({ port, isSecure: false }),
    ),
    metrics: await listenMetrics(config, parts, onStop),
  };
  followed.follow((certificate) => {
    for (const listener of started) listener.setTls(certificate);
  });
  return addresses;
}

/** What a listener for mail from outside is opened with, but for its port. */
function incomingMail(config: Config, parts: Parts, protocol: 'smtp' | 'lmtp') {
  const { smtp } = config;
  return {
    delivery: parts.flow.delivery,
    hostname: config.mailHostname,
    host: config[protocol].host,
    protocol,
    trace: parts.trace,
    // An LMTP client is one of the operator's own mail servers.
    findBlock: protocol === 'smtp' ? parts.blocks.judge.bind(parts.blocks) : undefined,
    traffic: parts.metrics.mailTraffic(protocol),
    maxMessageBytes: config.limits.maxMessageBytes,
    maxPerIp: smtp.maxPerIp,
    maxConnections: smtp.maxConnections,
    slots: parts.slots,
    isTrusted: testNetworks(smtp.trustedNetworks),
    isBalancer: testNetworks(protocol === 'smtp' ? smtp.proxyNetworks : []),
  };
}

async function listenMetrics(
  { metrics: { host, port } }: Config,
  { metrics }: Parts,
  onStop: OnStop,
): Promise<BoundAddress | undefined> {
  if (port === 0) return undefined;
  const listener = await serveMetrics(metrics, host, port).catch(
    explainPort('METRICS_PORT', host, port),
  );
  onStop(() => listener.close());
  return { host, port: listener.port };
}

async function listenHttp(
  { http: { host, port } }: Config,
  { api, realtime }: Parts,
  onStop: OnStop,
): Promise<BoundAddress> {
  api.server.on('upgrade', (request, socket, head) =>
    realtime.handleUpgrade(request, socket, head),
  );
  // Fastify listens twice for `localhost`, where it has two addresses: none of our limits would hold on its second server.
  await lookup(host, { order: 'ipv4first' })
    .then(({ address }) => api.listen({ host: address, port }))
    .catch(explainPort('PORT', host, port));
  onStop(async () => {
    // A download may take as long as its client likes.
    const cut = setTimeout(() => api.server.closeAllConnections(), DRAIN_MS);
    await Promise.all([realtime.close(), api.close()]);
    clearTimeout(cut);
  });
  const bound = api.server.address();
  if (bound === null || typeof bound === 'string') throw new Error('HTTP has no TCP address');
  return { host: bound.address, port: bound.port };
}

/** The operator has to fix a bucket that does not answer or refuses access, or a folder that cannot be read. */
function explainStore({ bodies: { bucket } }: Config) {
  const expected = bucket ? 'S3_URL: expected a bucket' : 'DATA_DIR: expected a folder of bodies';
  return (error: unknown): never => {
    if (!(error instanceof StoreUnavailable)) throw error;
    throw new ConfigError([`${expected} that Postroom can access, got "${error.message}"`]);
  };
}
