/** `postroom domains`: the domains of all users. */
import { Command } from 'commander';
import { many } from '../../platform/errors/errors.ts';
import type { OperatedDomainDetails } from '../../servers/operator/operator.ts';
import { CommandFailed, clean, formatBytes, report } from './command.ts';
import {
  changeOne,
  confirm,
  connect,
  describeItem,
  type Item,
  type List,
  listCommand,
  onService,
  type ServiceArguments,
  showItem,
} from './lists.ts';
import type { ServiceClient } from './service-client.ts';

export function domainsCommand(): Command {
  const remove = onClaim('delete')
    .description('removes a domain, its accounts and their mail; counts are shown before')
    .option(
      '--confirm <domain>',
      'the name of the domain once more; without this option the terminal asks for it',
    )
    .option('--dry-run', 'only shows what would be removed')
    .action(deleteDomain);
  const suspend = onClaim('suspend')
    .description('suspends a domain: logins are refused, mail is deferred')
    .option('--reason <text>', 'for people')
    .action((domain: string, { reason, ...given }: ServiceArguments) =>
      changeOne(
        'domains/suspend',
        { domain, ...claimOf(given), ...(reason ? { reason } : {}) },
        given,
      ),
    );
  const resume = onClaim('resume')
    .description('ends a suspension')
    .action((domain: string, given: ServiceArguments) =>
      changeOne('domains/resume', { domain, ...claimOf(given) }, given),
    );
  return new Command('domains')
    .description('domains of all users')
    .addCommand(listCommand(domainList))
    .addCommand(
      onClaim('show')
        .description('one domain: its records, what DNS has of them, and what is wrong')
        .action(showDomain),
    )
    .addCommand(
      onClaim('verify')
        .description('asks DNS about its records now, and shows what came of it')
        .action(verifyDomain),
    )
    .addCommand(suspend)
    .addCommand(resume)
    .addCommand(
      onClaim('rotate-dkim')
        .description('makes a new DKIM key, which signs once its record is in DNS')
        .action(rotateDkim),
    )
    .addCommand(remove);
}

async function showDomain(domain: string, given: ServiceArguments): Promise<void> {
  await showItem(pathOf(domain, given), given, describeDomain);
}

/** Checks the records as the service does by itself, and shows the domain as it is then. */
async function verifyDomain(domain: string, given: ServiceArguments): Promise<void> {
  const client = await connect(given.url);
  const { user_id } = await readDomain(client, domain, given);
  await client.call('POST', `/v2/domains/${encodeURIComponent(domain)}/verify`, { user_id });
  await showDomain(domain, { ...given, userId: user_id });
}

/** A command on one claim of a domain. */
function onClaim(name: string): Command {
  return onService(new Command(name))
    .argument('<domain>')
    .option(
      '--user-id <user-id>',
      'the user whose claim is meant; default: the active claim, or the only one',
    );
}

function claimOf({ userId }: ServiceArguments): { user_id?: string } {
  return typeof userId === 'string' ? { user_id: userId } : {};
}

function pathOf(domain: string, given: ServiceArguments): string {
  return `domains/${encodeURIComponent(domain)}?${new URLSearchParams(claimOf(given))}`;
}

function readDomain(client: ServiceClient, domain: string, given: ServiceArguments) {
  return client.call<ShownDomain>('GET', `/v2/operator/${pathOf(domain, given)}`);
}

async function rotateDkim(domain: string, given: ServiceArguments): Promise<void> {
  const client = await connect(given.url);
  const { user_id } = await readDomain(client, domain, given);
  const { dns } = await client.call<Pick<OperatedDomainDetails, 'dns'>>(
    'POST',
    `/v2/domains/${encodeURIComponent(domain)}/dkim/rotate`,
    { user_id },
  );
  const record = dns.find(({ key_state }) => key_state === 'next');
  if (!record) throw new CommandFailed(`${domain}: the service answered without a next key`);
  const { host, expected_value: value } = record;
  report(
    given.json,
    { ok: true, domain, record },
    `Publish this record beside the one that is there. ${domain} is signed with the new key once DNS shows it:\n${host}.${domain}  TXT  "${value}"`,
  );
}

async function deleteDomain(domain: string, given: ServiceArguments): Promise<void> {
  const client = await connect(given.url);
  const path = '/v2/operator/domains/delete';
  const claim = { domain, ...claimOf(given) };
  type Counted = Pick<OperatedDomainDetails, 'would_remove'>;
  const { would_remove } = await client.call<Counted>('POST', path, claim);
  const { accounts, messages, bytes, deliveries } = would_remove;
  const counts = `${many(accounts, 'account')}, ${many(messages, 'message')} (${formatBytes(bytes)}) and ${many(deliveries, 'open delivery', 'open deliveries')}`;
  if (given.dryRun) {
    report(given.json, { ok: true, would_remove }, `${domain} has ${counts}. Nothing was removed.`);
    return;
  }
  if (given.confirm !== domain) {
    await confirm(
      `${domain} has ${counts}. All of it is removed for good.`,
      domain,
      `--confirm ${domain}`,
    );
  }
  const removed = await client.call<Item>('POST', path, { ...claim, confirm: domain });
  report(given.json, { ok: true, ...removed }, `${domain} is removed, with ${counts}.`);
}

export const domainList: List = {
  name: 'list',
  description: 'domains of all users',
  path: 'domains',
  filters: {
    status: 'pending, active or suspended',
    can_send: 'true, or false: those that cannot send',
    records_failed: 'any, mx, spf, dmarc or dkim: those with this record failed',
    user_id: 'of one user',
    q: 'beginning of the name',
  },
  columns:
    'domain user_id status suspended can_send records_failed forward_mode accounts messages bytes',
};

type ShownRecord = Omit<OperatedDomainDetails['dns'][number], 'id'>;

export interface ShownDomain extends Item {
  readonly domain: string;
  readonly dns: readonly ShownRecord[];
}

/** The records say what `dkim` and `checks` sum up. */
export function describeDomain({ dns, dkim: _, checks: __, ...domain }: ShownDomain): string {
  const shown = dns.map((record) => describeRecord(domain.domain, record));
  return [describeItem(domain), ...shown].join('\n\n');
}

function describeRecord(domain: string, record: ShownRecord): string {
  const { purpose, record_type, host, priority, expected_value, observed_value, detail } = record;
  const name = host === '@' ? domain : `${host}.${domain}`;
  const value = priority === undefined ? `"${expected_value}"` : `${priority} ${expected_value}`;
  const since = record.failing_since === undefined ? '' : `, since ${record.failing_since}`;
  const lines = [
    `${purpose.toUpperCase()}: ${stateOf(record)}${since}`,
    `  publish  ${name}  ${record_type}  ${value}`,
  ];
  if (observed_value !== undefined) lines.push(`  seen     ${observed_value}`);
  if (detail !== undefined) lines.push(`  ${detail}`);
  return lines.map((line) => clean(line)).join('\n');
}

/** A verified record that is gone is not called verified. */
function stateOf({ status, misses, key_state }: ShownRecord): string {
  if (key_state === 'old') return 'old key, which signs no more';
  const state = status === 'verified' && misses > 0 ? 'missing now' : status;
  return key_state === 'next' ? `${state} (next key)` : state;
}
