/** Domains, accounts and tokens for tests that begin below the API. */
import { pino } from 'pino';
import type { Database } from '../../src/platform/database/database.ts';
import { limitInMemory } from '../../src/platform/net/net.ts';
import { Accounts, Tokens, type TokensOptions } from '../../src/tenants/accounts/accounts.ts';
import { type Domain, Domains } from '../../src/tenants/domains/domains.ts';
import { shareDkimKey } from './domains/dkim-key.ts';

type DomainsOptions = ConstructorParameters<typeof Domains>[0];
type AccountsOptions = ConstructorParameters<typeof Accounts>[0];

/** @param options those that matter to the test */
export function openTenants(
  database: Database,
  options: Partial<DomainsOptions & AccountsOptions> = {},
): { domains: Domains; accounts: Accounts } {
  const names = { mailHostname: 'mx.test', spfInclude: 'spf.mx.test' };
  const domains = new Domains({ database, ...names, makeDkimKey: shareDkimKey, ...options });
  const accounts = new Accounts({ database, domains, changes: { publish: () => {} }, ...options });
  return { domains, accounts };
}

/** Claims a domain for a user, and marks all of its records as found. */
export async function activateDomain(
  domains: Domains,
  userId: string,
  name: string,
  organizationId?: string,
): Promise<Domain> {
  const { domain, dns } = await domains.create({ userId, domain: name, organizationId });
  for (const { id } of dns) await domains.markDnsRecord(userId, name, { id, status: 'verified' });
  return domain;
}

export function openTokens(database: Database, options: Partial<TokensOptions> = {}): Tokens {
  return new Tokens({
    database,
    openLimit: limitInMemory,
    log: pino({ level: 'silent' }),
    secret: ['a secret of thirty-two bytes, or more'],
    ...options,
  });
}
