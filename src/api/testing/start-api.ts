/**
 * A listening API on a database of its own, for tests that talk to it over sockets.
 */
import { join } from 'node:path';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type DestinationStream, pino } from 'pino';
import { type EngineName, openTestDatabase } from '../../../test/support/databases.ts';
import {
  type Accounts,
  createAccounts,
  createTokens,
  type Tokens,
} from '../../accounts/accounts.ts';
import { Bodies } from '../../bodies/bodies.ts';
import { InProcessChanges } from '../../changes/in-process.ts';
import type { Database } from '../../database/database.ts';
import { createDomains, type Domains } from '../../domains/domains.ts';
import { EmbeddedMailstore, type Mailstore } from '../../mailstore/mailstore.ts';
import { type Api, type ApiOptions, createApi } from '../api.ts';

export const apiKey = 'test-key-1';
export const secondApiKey = 'test-key-2';

/** The pages that the product serves. */
export const homeDirectory = fileURLToPath(new URL('../../../docs/home', import.meta.url));

export interface RunningApi {
  readonly app: Api;
  /** Without a slash at the end. */
  readonly url: string;
  readonly port: number;
  readonly database: Database;
  readonly domains: Domains;
  readonly accounts: Accounts;
  readonly tokens: Tokens;
  readonly mailstore: Mailstore;
  /** Everything that was logged, one parsed line each. */
  readonly logLines: Record<string, unknown>[];
}

/** Starts the API; it is closed when the test file ends. */
export async function startApi(
  engine: EngineName,
  options: Partial<ApiOptions> = {},
): Promise<RunningApi> {
  const { database, directory } = await openTestDatabase(engine);
  const domains = createDomains({
    database,
    mailHostname: 'mail.localhost',
    spfInclude: 'spf.mail.localhost',
  });
  const accounts = createAccounts({ database, domains, changes: new InProcessChanges() });
  const tokens = createTokens({
    database,
    domains,
    secret: 'a secret of thirty-two bytes, or more',
  });
  const bodies = new Bodies({ database, directory: join(directory, 'bodies') });
  const mailstore = new EmbeddedMailstore({ database, bodies });
  const logLines: Record<string, unknown>[] = [];
  const lines: DestinationStream = { write: (line) => logLines.push(JSON.parse(line)) };
  const app = createApi({
    domains,
    accounts,
    tokens,
    mailstore,
    logger: pino({ level: 'info' }, lines),
    apiKeys: [apiKey, secondApiKey],
    rateLimitPerMinute: 0,
    trustProxy: [],
    corsOrigins: [],
    maxBody: 262_144,
    docsDirectory: homeDirectory,
    ...options,
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  after(() => app.close());
  return {
    app,
    url: app.listeningOrigin,
    port: Number(new URL(app.listeningOrigin).port),
    database,
    domains,
    accounts,
    tokens,
    mailstore,
    logLines,
  };
}
