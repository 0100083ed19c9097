/**
 * A process that takes mail by SMTP and delivers it to a mail server, for a test that kills it:
 * `node lmtp-process.ts`, its settings in the environment. Says `listening <port>` once it listens.
 */

import { join } from 'node:path';
import { pino } from 'pino';
import { carryOut } from '../../src/mail/delivery/delivery.ts';
import { Queue } from '../../src/mail/queue/queue.ts';
import { Trace } from '../../src/mail/trace/trace.ts';
import { Bodies, BodyFolder } from '../../src/mailboxes/bodies/bodies.ts';
import { InProcessChanges } from '../../src/mailboxes/changes/changes.ts';
import { ServerDelivery } from '../../src/mailboxes/mail-server/mail-server.ts';
import { EmbeddedMailstore } from '../../src/mailboxes/mailstore/mailstore.ts';
import { openSqlite } from '../../src/platform/database/database.ts';
import { isLoopback } from '../../src/platform/net/net.ts';
import { buildMailFlow } from '../../src/run/compose/mail-flow.ts';
import {
  ensureDataDir,
  fileSecretStore,
  loadCertificate,
  loadSecrets,
  readConfig,
} from '../../src/run/config/config.ts';
import { createMetrics } from '../../src/servers/metrics/metrics.ts';
import { startSmtp } from '../../src/servers/smtp/smtp.ts';
import { Accounts } from '../../src/tenants/accounts/accounts.ts';
import { Domains } from '../../src/tenants/domains/domains.ts';
import { Events } from '../../src/tenants/events/events.ts';
import { Usage } from '../../src/tenants/usage/usage.ts';
import { activateDomain } from '../support/tenants.ts';
import { imapSide } from './look-through.ts';

const ACCOUNTS = ['ann', 'ben', 'cal'];
/** What was put off is due after a restart, but not before the server is done with it. */
const SETTLED_MS = 3_000;

const { IMAP_PORT, MASTER_USER = '', MASTER_PASSWORD = '' } = process.env;
const config = readConfig(process.env);
if (config.mailstore.kind !== 'imap' || !config.mailstore.deliverTo) throw new Error('no LMTP_URL');
const { deliverTo } = config.mailstore;
await ensureDataDir(config.dataDir);
const secrets = await loadSecrets(fileSecretStore(config.dataDir));
const logger = pino({ level: 'silent' });
const database = await openSqlite({ path: join(config.dataDir, 'postroom.sqlite') });
const bodies = new Bodies({ database, store: new BodyFolder(join(config.dataDir, 'bodies')) });
const changes = new InProcessChanges();
const { mailHostname, spfInclude } = config;
const domains = new Domains({ database, mailHostname, spfInclude });
const accounts = new Accounts({ database, domains, changes });
const queue = new Queue({ database, log: logger });
const metrics = createMetrics();
const mailServer = new ServerDelivery({
  lmtp: { server: deliverTo, hostname: mailHostname },
  log: logger,
  imap: {
    ...imapSide({
      host: '127.0.0.1',
      imapPort: Number(IMAP_PORT),
      loginAs: (address) => ({ user: `${address}*${MASTER_USER}`, pass: MASTER_PASSWORD }),
    }),
    changeOf: () => Promise.reject(new Error('nobody is told')),
  },
});

const isNew = !(await domains.findActive('acme.test'));
const mismatch = await bodies.checkStore(isNew);
if (mismatch) throw new Error(mismatch);
await bodies.files.sweep(new AbortController().signal);
if (isNew) {
  await activateDomain(domains, 'u', 'acme.test');
  for (const localPart of ACCOUNTS) {
    await accounts.create({ userId: 'u', domain: 'acme.test', localPart, password: 'a password' });
  }
}
await database.write((tx) =>
  tx
    .updateTable('deliveries')
    .set({ next_attempt_at: 0 })
    .where('status', '=', 'queued')
    .where('updated_at', '<', Date.now() - SETTLED_MS)
    .execute(),
);
const mailstore = new EmbeddedMailstore({ database, bodies, idSecret: 'secret' });
const { delivery, attempts } = buildMailFlow({
  config,
  keys: {
    tokens: [secrets.jwtSecret[0]],
    senders: [secrets.srsSecret[0]],
    links: [secrets.linkSecret[0]],
  },
  database,
  changes,
  domains,
  accounts,
  bodies,
  embedded: mailstore,
  mailstore,
  mailServer,
  queue,
  usage: new Usage({ database }),
  events: new Events(database),
  trace: new Trace({ database, keptDays: 30, node: 'test', log: logger, now: Date.now }),
  metrics,
  publicUrl: () => 'http://localhost',
  logger,
  now: Date.now,
});
carryOut(attempts);
const listener = await startSmtp({
  delivery,
  hostname: mailHostname,
  host: '127.0.0.1',
  port: 0,
  protocol: 'smtp',
  tls: await loadCertificate({
    ...config.tls,
    dataDir: config.dataDir,
    hostname: mailHostname,
  }),
  maxMessageBytes: config.limits.maxMessageBytes,
  maxPerIp: 100,
  maxConnections: 2_000,
  isTrusted: isLoopback,
  isBalancer: () => false,
  logger,
});
process.stdout.write(`listening ${listener.address.port}\n`);
