/** Commands for a running service: the operator's API, for people and scripts. */
import { Command } from 'commander';
import { type Step, untilDone } from '../../platform/time/time.ts';
import { clean, openProgress, report } from './command.ts';
import {
  addFilters,
  change,
  changeOne,
  confirm,
  connect,
  describeItem,
  givenOf,
  type Item,
  listCommand,
  onService,
} from './lists.ts';
import { quotaCommand } from './quota.ts';

interface Common extends Readonly<Record<string, unknown>> {
  readonly url?: string;
  readonly json?: true;
}

export function usageCommand(): Command {
  return listCommand({
    name: 'usage',
    description: 'messages and bytes received, sent and stored, by UTC day',
    path: 'usage',
    filters: {
      from: 'first day, such as 2026-01-31',
      to: 'last day',
      by: 'domain, account or user',
    },
    columns: [
      'day',
      'user_id',
      'domain',
      'address',
      'messages_in',
      'bytes_in',
      'messages_out',
      'bytes_out',
      'stored_bytes',
    ],
  });
}

interface Attention {
  readonly items: readonly {
    readonly level: string;
    readonly text: string;
    readonly since?: string;
  }[];
  readonly checks: readonly { readonly name: string; readonly state: string }[];
}

/** `postroom attention`: what needs somebody now; exit code 1 where something critical does. */
export function attentionCommand(): Command {
  return onService(new Command('attention'))
    .description('what needs somebody now, most urgent first')
    .action(async ({ url, json }: Common) => {
      const client = await connect(url);
      const found = await client.call<Attention>('GET', '/v2/operator/attention');
      const lines = found.items.map(
        ({ level, text, since }) => `${level}: ${text}${since ? ` Since ${since}.` : ''}`,
      );
      for (const { name, state } of found.checks) {
        if (state === 'unknown') lines.push(`unknown: ${name} could not be checked.`);
      }
      if (lines.length === 0) lines.push(`Nothing needs attention: ${found.checks.length} checks.`);
      // They have words of strangers: what a receiver answered.
      report(json, { ok: true, ...found }, lines.map((line) => clean(line)).join('\n'));
      if (found.items.some(({ level }) => level === 'critical')) process.exitCode = 1;
    });
}

export function auditCommand(): Command {
  return listCommand({
    name: 'audit',
    description: 'who did what with which key',
    path: 'audit',
    filters: {},
    columns: ['at', 'actor', 'action', 'target', 'counts', 'node'],
  });
}

export function accountsCommand(): Command {
  return new Command('accounts')
    .description('accounts of all users')
    .addCommand(
      listCommand({
        name: 'list',
        description: 'accounts of all users',
        path: 'accounts',
        filters: { domain: 'of one domain', user_id: 'of one user', q: 'beginning of the address' },
        columns: [
          'id',
          'address',
          'user_id',
          'status',
          'messages',
          'bytes',
          'quota_bytes',
          'last_login_at',
        ],
      }),
    )
    .addCommand(quotaCommand())
    .addCommand(suspendAccount())
    .addCommand(change('resume', 'accounts/resume', 'id', 'ends a suspension'));
}

function suspendAccount(): Command {
  return onService(new Command('suspend'))
    .description('suspends an account: logins are refused')
    .argument('<account-id>')
    .option('--drop-waiting', 'drops its mail that waits, without a bounce')
    .action((id: string, given: Common) => {
      const drops = given.dropWaiting === true;
      const body = { id: Number(id), ...(drops && { drop_waiting: true }) };
      return changeOne('accounts/suspend', body, given);
    });
}

const queueFilters = {
  destination: 'a receiver, as the list names it',
  domain: 'of one domain',
  kind: 'webhook, forward, bounce, send, mailbox or copy',
  status: 'queued, held or failed',
};
const deliveryFilters = { ...queueFilters, account: 'of one account, by its address' };

export function queueCommand(): Command {
  const columns = [
    'destination',
    'domain',
    'kind',
    'counts.queued',
    'counts.held',
    'counts.failed',
    'overdue_seconds',
    'last_error',
  ];
  const command = new Command('queue')
    .description('deliveries that wait, and why')
    .addCommand(
      listCommand({
        name: 'list',
        path: 'queue',
        filters: queueFilters,
        columns,
        description: 'waiting deliveries by receiver and domain',
      }),
    )
    .addCommand(
      listCommand({
        name: 'deliveries',
        path: 'queue/deliveries',
        filters: deliveryFilters,
        description: 'single deliveries',
        columns: [
          'id',
          'status',
          'kind',
          'destination',
          'domain',
          'recipient',
          'attempts',
          'next_attempt_at',
          'last_error',
        ],
      }),
    );
  const actions = {
    retry: 'tries deliveries again now',
    hold: 'keeps deliveries back until they are released',
    release: 'releases held deliveries',
    drop: 'ends deliveries without a bounce',
  };
  for (const [action, description] of Object.entries(actions)) {
    addFilters(onService(command.command(action).description(description)), deliveryFilters)
      .option('--ids <ids...>', 'single deliveries, by number')
      .option('--older-than <seconds>', 'only deliveries that have waited at least this long')
      .option('--dry-run', 'only shows how many deliveries match')
      .option('--yes', 'drops without asking')
      .action((given: Common) => actOnQueue(action, given));
  }
  return command;
}

async function actOnQueue(action: string, given: Common): Promise<void> {
  const client = await connect(given.url);
  const { ids, olderThan, dryRun, yes, json } = given;
  const body = {
    ...givenOf(deliveryFilters, given),
    ...(Array.isArray(ids) && { ids: ids.map(Number) }),
    ...(typeof olderThan === 'string' && { older_than: Number(olderThan) }),
  };
  const path = `/v2/operator/queue/${action}`;
  if (dryRun || (action === 'drop' && !yes)) {
    const counted = await client.call<Step>('POST', path, { ...body, dry_run: true });
    const { matched, more } = counted;
    // A count that takes longer than one call cannot be continued: another call would start again.
    const deliveries = `${more ? 'More than ' : ''}${matched} deliveries`;
    if (dryRun) {
      report(json, { ok: true, ...counted }, `${deliveries} match. Nothing was done.`);
      return;
    }
    await confirm(`${deliveries} would be dropped.`, String(matched), '--yes');
  }
  const show = openProgress();
  const { matched, changed } = await untilDone(
    () => client.call<Step>('POST', path, body),
    (soFar) => show(`${action}: ${soFar} deliveries`),
  );
  show();
  report(json, { ok: true, matched, changed }, `${action}: ${changed} of ${matched} deliveries.`);
}

export function blocksCommand(): Command {
  const add = onService(new Command('add'))
    .description('refuses the mail of a sender, on all nodes')
    .argument('<kind>', 'address, domain or network')
    .argument('<value>', 'such as spam@bad.example, bad.example or 192.0.2.0/24')
    .option('--note <text>', 'the reason, a note for operators')
    .action(async (kind: string, value: string, { url, json, note }: Common) => {
      const client = await connect(url);
      const body = { kind, value, ...(typeof note === 'string' && { note }) };
      const added = await client.call<Item>('POST', '/v2/operator/blocks', body);
      report(json, { ok: true, ...added }, describeItem(added));
    });
  return new Command('blocks')
    .description('senders whose mail is refused')
    .addCommand(
      listCommand({
        name: 'list',
        path: 'blocks',
        filters: {},
        description: 'blocked senders, newest first',
        columns: ['id', 'kind', 'value', 'note', 'created_at'],
      }),
    )
    .addCommand(add)
    .addCommand(change('delete', 'blocks/delete', 'id', 'accepts the mail of a sender again'));
}

const traceColumns = ['at', 'event', 'sender', 'recipient', 'status', 'detail', 'node', 'id'];

export function traceCommand(): Command {
  const list = listCommand({
    name: 'trace',
    description: 'what happened to messages, newest first',
    path: 'trace',
    filters: {
      recipient: 'an address',
      sender: 'an address',
      message_id: 'the Message-ID of its header',
      id: 'an id from Postroom: of the message, a delivery or a webhook',
      since: 'ISO 8601',
      until: 'ISO 8601',
    },
    columns: traceColumns,
  });
  return list.enablePositionalOptions().addCommand(showTrace());
}

/** `postroom trace show ID`: the time line of one message. */
function showTrace(): Command {
  return onService(new Command('show'))
    .description('all that happened to one message, oldest first')
    .argument('<id>')
    .action(async (id: string, { url, json }: Common) => {
      const client = await connect(url);
      const path = `/v2/operator/trace/${encodeURIComponent(id)}`;
      const answer = await client.call<{ items: Item[] }>('GET', path);
      report(json, { ok: true, ...answer }, answer.items.map(describeItem).join('\n\n'));
    });
}
