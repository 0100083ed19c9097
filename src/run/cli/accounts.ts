/** `postroom accounts`: who sends how much, and what of it waits. */
import { Command, InvalidArgumentError } from 'commander';
import { CommandFailed } from './command.ts';
import {
  changeOne,
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

const accountList: List = {
  name: 'list',
  description: 'accounts of all users',
  path: 'accounts',
  filters: {
    domain: 'of one domain',
    user_id: 'of one user',
    q: 'beginning of the address',
    sort: 'address, or such as -sent_24h (most first), -bounced_24h, -waiting, -quota_used, -last_login_at',
  },
  columns:
    'id address user_id status sent_24h bounced_24h received_24h waiting bytes quota_bytes last_login_at',
};

export function accountsCommand(): Command {
  return new Command('accounts')
    .description('accounts of all users')
    .addCommand(listCommand(accountList))
    .addCommand(showAccount())
    .addCommand(quotaCommand())
    .addCommand(suspendAccount())
    .addCommand(onAccount('resume', () => ({})).description('ends a suspension'));
}

function showAccount(): Command {
  return onService(new Command('show'))
    .description('an account: what it sent and received, where to, and why its mail waits')
    .argument(...ACCOUNT)
    .action(async (name: string, given: ServiceArguments) => {
      const id = await findAccountId(await connect(given.url), name);
      await showItem<Item>(`accounts/${id}`, given, describeAccount);
    });
}

/** An account, and of its hours and days those with mail. */
function describeAccount(account: Item): string {
  const withMail = (name: string) => {
    const spans = account[name];
    const hasMail = ({ at: _, ...counts }: Item) =>
      Object.values(counts).some((count) => count !== 0);
    return Array.isArray(spans) ? { [name]: spans.filter(hasMail) } : {};
  };
  return describeItem({ ...account, ...withMail('hours'), ...withMail('days') });
}

function suspendAccount(): Command {
  return onAccount('suspend', ({ dropWaiting }) => (dropWaiting ? { drop_waiting: true } : {}))
    .description('suspends an account: logins are refused')
    .option('--drop-waiting', 'drops its mail that waits, without a bounce');
}

/** A command that changes an account. @param bodyOf what the call says beside its id */
function onAccount(action: string, bodyOf: (given: ServiceArguments) => object): Command {
  return onService(new Command(action))
    .argument(...ACCOUNT)
    .action(async (name: string, given: ServiceArguments) => {
      const id = await findAccountId(await connect(given.url), name);
      return changeOne(`accounts/${action}`, { id, ...bodyOf(given) }, given);
    });
}

/** The argument of a command, and what it is. */
export const ACCOUNT = ['<account>', 'its id or its address'] as const;

/** The account of an id or an address; several users may have one where they claim the same domain. */
export async function findAccountId(client: ServiceClient, address: string): Promise<number> {
  if (/^\d+$/.test(address)) return Number(address);
  const query = new URLSearchParams({ q: address.toLowerCase(), limit: '200' });
  const path = `/v2/operator/accounts?${query}`;
  const { items } = await client.call<{
    readonly items: readonly { readonly id: number; readonly address: string }[];
  }>('GET', path);
  const named = items.filter((one) => one.address === address.toLowerCase());
  const [one, ...others] = named;
  if (!one) throw new CommandFailed(`there is no account ${address}`);
  if (others.length === 0) return one.id;
  const ids = named.map(({ id }) => id).join(', ');
  throw new CommandFailed(`Several accounts have this address: name one by its id (${ids})`);
}

const units: Readonly<Record<string, number>> = { '': 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };

/** `2GB` in bytes, as disks are sold; null for the default, 0 for no limit. */
function readSize(text: string): number | null {
  if (text === 'default') return null;
  if (text === 'none') return 0;
  const [, amount, unit = ''] = /^(\d+(?:\.\d+)?) ?([KMGT]?B)?$/i.exec(text) ?? [];
  const octets = Number(amount) * (units[unit.toUpperCase().replace(/^B$/, '')] ?? Number.NaN);
  if (!Number.isSafeInteger(Math.round(octets))) {
    throw new InvalidArgumentError('It is a size such as 500MB or 2GB, none, or default.');
  }
  return Math.round(octets);
}

function quotaCommand(): Command {
  return onService(new Command('quota'))
    .description('sets how much the mailboxes of an account may hold')
    .argument(...ACCOUNT)
    .argument('<size>', 'such as 500MB or 2GB; none: no limit; default: QUOTA_BYTES', readSize)
    .action(async (name: string, size: number | null, given: ServiceArguments) => {
      const id = await findAccountId(await connect(given.url), name);
      await changeOne('accounts/quota', { id, quota_bytes: size }, given);
    });
}
