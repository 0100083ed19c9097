/** `postroom accounts`: who sends how much, and what of it waits. */
import { Command } from 'commander';
import { report, table } from './command.ts';
import { ACCOUNT, findAccountId } from './find-account.ts';
import {
  changeOne,
  connect,
  describeItem,
  type Item,
  type List,
  listCommand,
  onService,
} from './lists.ts';
import { quotaCommand } from './quota.ts';

interface Common extends Readonly<Record<string, unknown>> {
  readonly url?: string;
  readonly json?: true;
}

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
    .addCommand(resumeAccount());
}

interface ShownAccount extends Item {
  readonly days: readonly Span[];
  readonly hours: readonly Span[];
  readonly receivers: readonly { domain: string; recipients: number; bounced: number }[];
  readonly waiting_reasons: readonly {
    status: string;
    destination: string;
    last_error?: { status?: number; text: string };
    count: number;
    oldest_at: string;
  }[];
  readonly sign_ins: readonly { client: string; at: string }[];
}

interface Span {
  readonly at: string;
  readonly sent: number;
  readonly received: number;
  readonly bounced: number;
  readonly refused: number;
}

function showAccount(): Command {
  return onService(new Command('show'))
    .description('an account: what it sent and received, where to, and why its mail waits')
    .argument(ACCOUNT)
    .action(async (name: string, { url, json }: Common) => {
      const client = await connect(url);
      const id = await findAccountId(client, name);
      const account = await client.call<ShownAccount>('GET', `/v2/operator/accounts/${id}`);
      report(json, { ok: true, ...account }, describeAccount(account));
    });
}

function describeAccount(account: ShownAccount): string {
  const { days, hours, receivers, waiting_reasons: reasons, sign_ins: clients, ...facts } = account;
  const spans = (some: readonly Span[], name: string, end: number) =>
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
  return onService(new Command('suspend'))
    .description('suspends an account: logins are refused')
    .argument(ACCOUNT)
    .option('--drop-waiting', 'drops its mail that waits, without a bounce')
    .action(async (name: string, given: Common & { readonly dropWaiting?: true }) => {
      const id = Number(await findAccountId(await connect(given.url), name));
      const drops = given.dropWaiting === true;
      return changeOne('accounts/suspend', { id, ...(drops && { drop_waiting: true }) }, given);
    });
}

function resumeAccount(): Command {
  return onService(new Command('resume'))
    .description('ends a suspension')
    .argument(ACCOUNT)
    .action(async (name: string, given: Common) => {
      const id = Number(await findAccountId(await connect(given.url), name));
      return changeOne('accounts/resume', { id }, given);
    });
}
