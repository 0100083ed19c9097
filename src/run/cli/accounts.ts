/** `postroom accounts`: who sends how much, and what of it waits. */
import { Command } from 'commander';
import type { AccountDetails } from '../../servers/operator/operator.ts';
import { report, table } from './command.ts';
import { ACCOUNT, findAccountId } from './find-account.ts';
import {
  changeOne,
  connect,
  describeItem,
  type List,
  listCommand,
  onService,
  type ServiceArguments,
} from './lists.ts';
import { quotaCommand } from './quota.ts';

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
  columns: [
    'id',
    'address',
    'user_id',
    'status',
    'sent_24h',
    'bounced_24h',
    'received_24h',
    'waiting',
    'bytes',
    'quota_bytes',
    'last_login_at',
  ],
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
    .argument(ACCOUNT)
    .action(async (name: string, { url, json }: ServiceArguments) => {
      const client = await connect(url);
      const id = await findAccountId(client, name);
      const account = await client.call<AccountDetails>('GET', `/v2/operator/accounts/${id}`);
      report(json, { ok: true, ...account }, describeAccount(account));
    });
}

function describeAccount(account: AccountDetails): string {
  const { days, hours, receivers, waiting_reasons: reasons, sign_ins: clients, ...facts } = account;
  const spans = (some: AccountDetails['hours'], name: string, end: number) =>
    table(
      [name, 'sent', 'received', 'bounced', 'refused'],
      some.map((one) => [one.at.slice(0, end), one.sent, one.received, one.bounced, one.refused]),
    );
  const parts = [describeItem(facts), spans(days, 'day', 10)];
  const busy = hours.filter((one) => one.sent + one.received + one.bounced + one.refused > 0);
  if (busy.length > 0) parts.push(spans(busy, 'hour', 16));
  if (receivers.length > 0) {
    const rows = receivers.map(({ domain, recipients, bounced }) => [domain, recipients, bounced]);
    parts.push(table(['writes to', 'recipients', 'bounced'], rows));
  }
  if (reasons.length > 0) {
    const rows = reasons.map((one) => [
      one.count,
      one.status,
      one.destination,
      one.oldest_at,
      [one.last_error?.status, one.last_error?.text].filter(Boolean).join(' '),
    ]);
    parts.push(table(['waiting', 'status', 'for', 'oldest', 'last error'], rows));
  }
  if (clients.length > 0) {
    parts.push(
      table(
        ['signed in from', 'at'],
        clients.map(({ client, at }) => [client, at]),
      ),
    );
  }
  return parts.join('\n\n');
}

function suspendAccount(): Command {
  return onAccount('suspend', ({ dropWaiting }) => (dropWaiting ? { drop_waiting: true } : {}))
    .description('suspends an account: logins are refused')
    .option('--drop-waiting', 'drops its mail that waits, without a bounce');
}

/** A command that changes an account. @param bodyOf what the call says beside its id */
function onAccount(action: string, bodyOf: (given: ServiceArguments) => object): Command {
  return onService(new Command(action))
    .argument(ACCOUNT)
    .action(async (name: string, given: ServiceArguments) => {
      const id = await findAccountId(await connect(given.url), name);
      return changeOne(`accounts/${action}`, { id, ...bodyOf(given) }, given);
    });
}
