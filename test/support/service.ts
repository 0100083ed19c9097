/** The whole service on free ports, and what a product and its apps do with it. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createTransport, type SendMailOptions } from 'nodemailer';
import { type Logger, pino } from 'pino';
import type { MailUser } from '../../src/mailboxes/mailstore/mailstore.ts';
import type { Database, Engine } from '../../src/platform/database/database.ts';
import type { Service } from '../../src/run/compose/service.ts';
import type { SharedTiming } from '../../src/run/compose/shared.ts';
import { readConfig } from '../../src/run/config/config.ts';
import { atEnd } from './at-end.ts';
import { CERTIFICATE } from './certificate.ts';
import { freePort } from './free-port.ts';

export const API_KEY = 'key-of-the-test-suite';
export const JWT_SECRET = 'jwt-secret-of-the-test-suite-0123456789';
export const WEBHOOK_SECRET = 'hook-secret-of-the-test-suite';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests assert on whatever JSON came back
  readonly body: any;
}

/** An account made for a test, with what its app knows. */
export interface TestAccount extends MailUser {
  readonly id: number;
  readonly userId: string;
  readonly domain: string;
  readonly password: string;
  readonly token: string;
}

export type MailboxesSeen = ReadonlyMap<string, ReadonlyMap<number, readonly string[]>>;

/** What a product and its apps do with a service at an address. */
export interface TestClient {
  readonly url: string;
  readonly smtpPort: number;
  /** Address of ours that mail comes from, where it is not the usual one. */
  readonly localAddress?: string | undefined;
  /** Calls /v2 with the API key. */
  v2(method: string, path: string, body?: unknown): Promise<Answer>;
  /** Calls /mail with a mailbox token. */
  mail(token: string, method: string, path: string, body?: unknown): Promise<Answer>;
  /** Claims a domain, marks its records verified, and makes an account on it. */
  makeAccount(localPart?: string): Promise<TestAccount>;
  /** Makes one more account on an account's domain. */
  addAccount(beside: TestAccount, localPart: string): Promise<TestAccount>;
  /** Every mailbox of an account with the flags of its messages by UID, as the store itself has them. */
  look(account: TestAccount): Promise<MailboxesSeen>;
  /** Sends by SMTP as any MTA would. */
  send(message: SendMailOptions): Promise<void>;
}

export interface TestService extends Service, TestClient {
  readonly lmtpPort: number;
  /** It alone, or all that are behind the load balancer. */
  readonly nodes: readonly Service[];
  /** Its database, for other programs: a file or a postgres:// URL. */
  readonly databaseLocation: string;
}

/** Calls the API, and reads what came. */
export async function callJson(
  url: string,
  headers: Record<string, string>,
  method: string,
  body: unknown,
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  const json = response.headers.get('content-type')?.includes('json');
  return {
    status: response.status,
    headers: response.headers,
    body: json ? JSON.parse(text) : text,
  };
}

/** Which of `test/servers/` journeys run on, in place of the embedded store. */
const mailServerName = process.env.TEST_MAIL_SERVER;

/** How many nodes journeys run on, behind a load balancer. */
export const nodeCount = Number(process.env.TEST_NODES ?? '1');

interface MailServerAtHand {
  readonly environment: Record<string, string>;
  addAccount(address: string): Promise<void>;
  /** What another IMAP client sees. */
  look(address: string): Promise<MailboxesSeen>;
}

/** Starts the mail server that journeys run on; it is stopped after the service. */
async function startMailServer(name: string): Promise<MailServerAtHand> {
  const { connectAs, deliveryUrl, mailstoreUrl, servers } = await import(
    '../servers/imap-client.ts'
  );
  const server = await servers[name]?.();
  if (!server) throw new Error(`there is no mail server ${name}`);
  atEnd(() => server.stop());
  const look = async (address: string) => {
    const client = await connectAs(server, address);
    const seen = new Map<string, ReadonlyMap<number, readonly string[]>>();
    for (const { path, flags } of await client.list()) {
      if (flags.has('\\Noselect') || flags.has('\\NonExistent')) continue;
      const { exists } = await client.mailboxOpen(path, { readOnly: true });
      const messages = new Map<number, readonly string[]>();
      const rows = exists > 0 ? client.fetch('1:*', { uid: true, flags: true }) : [];
      for await (const { uid, flags } of rows) messages.set(uid, sortedFlags(flags ?? []));
      seen.set(path, messages);
    }
    await client.logout();
    return seen;
  };
  return {
    look,
    environment: { MAILSTORE_URL: mailstoreUrl(server), ...deliveryUrl(server) },
    async addAccount(address) {
      await server.addAccount(address);
      // Once it lets the account in, it lets everybody in who speaks for it.
      const client = await connectAs(server, address);
      // Courier keeps the UIDVALIDITY of a mailbox from its first SELECT on; till then it is the time.
      await client.mailboxOpen('INBOX');
      await client.logout();
    },
  };
}

/** `\\Recent` is of a session, not of the message. */
function sortedFlags(flags: Iterable<string>): string[] {
  return [...flags].filter((flag) => flag !== '\\Recent').sort();
}

async function makeFolder(): Promise<{ database: undefined; directory: string }> {
  const directory = await mkdtemp(join(tmpdir(), 'postroom-test-'));
  atEnd(() => rm(directory, { recursive: true, force: true }));
  return { database: undefined, directory };
}

/**
 * Starts the service on a database and folder of its own; it is stopped when all tests of the process have ended. It is
 * loaded here: tests of services that are processes of their own would load it for nothing.
 */
export async function startTestService(
  engine: Engine,
  environment: Record<string, string> = {},
  logger: Logger = pino({ level: 'silent' }),
  timing: SharedTiming = {},
): Promise<TestService> {
  const { startService } = await import('../../src/run/compose/service.ts');
  const { openTestDatabase } = await import('./databases.ts');
  const mailServer = mailServerName ? await startMailServer(mailServerName) : undefined;
  // A suite that does something to the server names it itself.
  const { database, directory, location } =
    environment.DATABASE_URL === undefined
      ? await openTestDatabase(nodeCount > 1 ? 'postgres' : engine)
      : { ...(await makeFolder()), location: environment.DATABASE_URL };
  const open = async (own: Record<string, string>, opened?: Database) => {
    const variables = { ...(await commonVariables(directory)), ...mailServer?.environment };
    // Each node listens on a port of its own.
    const isBeside = nodeCount > 1 && environment.IMAP_PORT !== undefined;
    const imap = isBeside ? { IMAP_PORT: String(await freePort()) } : {};
    const config = readConfig({ ...variables, ...environment, ...own, ...imap }, directory);
    const service = await startService(config, logger, {
      // Several nodes share this thread, and may keep each other from Redis for longer than production allows.
      timing: nodeCount > 1 ? { answerMs: 10_000, ...timing } : timing,
      ...(opened && { database: opened }),
    });
    // What is under way at its stop still needs the database.
    atEnd(() => service.stop());
    return service;
  };
  const one = nodeCount > 1 ? undefined : await open({}, database);
  const { nodes, ...service } = one ? { ...one, nodes: [one] } : await startNodes(open, location);
  const { http, smtp, lmtp } = service.addresses;
  const url = `http://127.0.0.1:${http.port}`;
  return {
    ...service,
    ...clientOf({ url, smtpPort: smtp?.port ?? 0 }, mailServer),
    lmtpPort: lmtp?.port ?? 0,
    nodes,
    databaseLocation: location,
  };
}

/** What every service of the tests is started with. */
export async function commonVariables(directory: string): Promise<Record<string, string>> {
  return {
    DATA_DIR: directory,
    PORT: '0',
    SMTP_PORT: String(await freePort()),
    LMTP_PORT: String(await freePort()),
    RATE_LIMIT_PER_MINUTE: '0',
    // Nothing listens there: no test asks the DNS of the machine.
    DNS_SERVERS: '127.0.0.1:9',
    API_KEYS: API_KEY,
    JWT_SECRET,
    MAILSERVER_WEBHOOK_SECRET: WEBHOOK_SECRET,
    ...CERTIFICATE,
  };
}

/**
 * Starts nodes that share a database, a bucket and a Redis, behind a load balancer that gives each request to the
 * next of them.
 *
 * @returns the first, with the addresses of the balancer
 */
async function startNodes(
  open: (own: Record<string, string>) => Promise<Service>,
  databaseUrl: string,
): Promise<Service & Pick<TestService, 'nodes'>> {
  const { startRedis } = await import('../servers/redis.ts');
  const { startBalancer } = await import('../servers/balancer.ts');
  const { makeBucket } = await import('../servers/s3.ts');
  const redis = await startRedis();
  atEnd(() => redis.stop());
  const shared = {
    DATABASE_URL: databaseUrl,
    DATABASE_POOL_SIZE: '5',
    // As with Redis: while one of them starts, the others of this thread may wait longer than production allows.
    DATABASE_TIMEOUT_SECONDS: '60',
    REDIS_URL: redis.url,
    S3_URL: await makeBucket(),
    TRUST_PROXY: '127.0.0.1',
    SMTP_PROXY_NETWORKS: '127.0.0.1',
  };
  const nodes = await Promise.all(Array.from({ length: nodeCount }, () => open(shared)));
  const [first] = nodes;
  if (!first) throw new Error('TEST_NODES: expected a number from 1');
  const ports = nodes.map(({ addresses }) => ({
    http: addresses.http.port,
    smtp: addresses.smtp?.port ?? 0,
  }));
  const balancer = await startBalancer(ports);
  atEnd(() => balancer.stop());
  const at = (port: number) => ({ host: '127.0.0.1', port });
  return {
    ...first,
    nodes,
    addresses: { ...first.addresses, http: at(balancer.http), smtp: at(balancer.smtp) },
    async stop() {
      await Promise.all(nodes.map((node) => node.stop()));
    },
  };
}

/** The calls of a client. @param mailServer that has the mailboxes, where it is not the service itself */
export function clientOf(
  place: Pick<TestClient, 'url' | 'smtpPort' | 'localAddress'>,
  mailServer?: MailServerAtHand,
): TestClient {
  const { url, smtpPort, localAddress } = place;
  let domains = 0;
  const v2: TestService['v2'] = (method, path, body) =>
    callJson(url + path, { 'x-api-key': API_KEY }, method, body);
  const mail: TestService['mail'] = (token, method, path, body) =>
    callJson(url + path, { authorization: `Bearer ${token}` }, method, body);

  async function createAccount(userId: string, domain: string, localPart: string) {
    const made = await v2('POST', '/v2/email-accounts/create', {
      user_id: userId,
      domain,
      local_part: localPart,
      display_name: 'Test',
      password: 'a good password',
    });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const { id, address } = made.body.account;
    await mailServer?.addAccount(address);
    const login = await mail('', 'POST', '/mail/token', { address, password: 'a good password' });
    const { token } = login.body;
    return { id, accountId: id, address, userId, domain, password: 'a good password', token };
  }

  return {
    ...place,
    v2,
    mail,
    async makeAccount(localPart = 'ann') {
      domains++;
      const userId = `user-${domains}`;
      const domain = `d${domains}.test`;
      const created = await v2('POST', '/v2/domain', { user_id: userId, domain });
      assert.equal(created.status, 201, JSON.stringify(created.body));
      for (const { id } of created.body.domain.dns) {
        const mark = { user_id: userId, id, status: 'verified' };
        const marked = await v2('POST', `/v2/domains/${domain}/dns/mark`, mark);
        assert.equal(marked.status, 200, JSON.stringify(marked.body));
      }
      return createAccount(userId, domain, localPart);
    },
    addAccount: (beside, localPart) => createAccount(beside.userId, beside.domain, localPart),
    async look({ address, token }) {
      if (mailServer) return mailServer.look(address);
      const seen = new Map<string, ReadonlyMap<number, readonly string[]>>();
      for (const { mailbox } of (await mail(token, 'GET', '/mail/mailboxes')).body.mailboxes) {
        const { body } = await mail(token, 'POST', '/mail/sync', { mailbox, fields: ['flags'] });
        const rows: { uid: number; flags: string[] }[] = body.changes.added;
        seen.set(mailbox, new Map(rows.map(({ uid, flags }) => [uid, sortedFlags(flags)])));
      }
      return seen;
    },
    async send(message) {
      const transport = createTransport({
        host: '127.0.0.1',
        port: smtpPort,
        secure: false,
        ignoreTLS: true,
        ...(localAddress !== undefined && { localAddress }),
      });
      try {
        await transport.sendMail(message);
      } finally {
        transport.close();
      }
    },
  };
}

/** An account to which messages with these subjects came. */
export async function makeAccountWith(
  service: TestClient,
  subjects: readonly string[],
): Promise<TestAccount> {
  const account = await service.makeAccount();
  for (const subject of subjects) {
    await service.send({ from: 'bob@example.test', to: account.address, subject, text: subject });
  }
  return account;
}
