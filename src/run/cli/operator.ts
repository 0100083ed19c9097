/** Commands for a running service: the operator's API, for people and scripts. */
import { Command } from 'commander';
import type { Attention } from '../../servers/operator/operator.ts';
import { clean } from './command.ts';
import {
  change,
  changeOne,
  listCommand,
  onService,
  type ServiceArguments,
  showItem,
} from './lists.ts';

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
    columns: 'day user_id domain address messages_in bytes_in messages_out bytes_out stored_bytes',
  });
}

/** `postroom attention`: what needs somebody now; exit code 1 where something critical does. */
export function attentionCommand(): Command {
  return onService(new Command('attention'))
    .description('what needs somebody now, most urgent first')
    .action(async (given: ServiceArguments) => {
      const { items } = await showItem('attention', given, describeAttention);
      if (items.some(({ level }) => level === 'critical')) process.exitCode = 1;
    });
}

function describeAttention({ items, checks }: Attention): string {
  const lines = items.flatMap(({ level, text, since, advice }) => [
    // It has words of strangers: what a receiver answered.
    clean(`${level}: ${text}${since ? ` Since ${since}.` : ''}`),
    `  ${clean(advice)}`,
  ]);
  for (const { name, state } of checks) {
    if (state === 'unknown') lines.push(`unknown: ${clean(name)} could not be checked.`);
  }
  if (lines.length === 0) lines.push(`Nothing needs attention: ${checks.length} checks.`);
  return lines.join('\n');
}

export function auditCommand(): Command {
  return listCommand({
    name: 'audit',
    description: 'who did what with which key',
    path: 'audit',
    filters: { target: 'what it was done to, as the list names it' },
    columns: 'at actor action target counts node',
  });
}

export function blocksCommand(): Command {
  const add = onService(new Command('add'))
    .description('refuses the mail of a sender, on all nodes')
    .argument('<kind>', 'address, domain or network')
    .argument('<value>', 'such as spam@bad.example, bad.example or 192.0.2.0/24')
    .option('--note <text>', 'the reason, a note for operators')
    .action((kind: string, value: string, { note, ...given }: ServiceArguments) =>
      changeOne('blocks', { kind, value, note }, given),
    );
  return new Command('blocks')
    .description('senders whose mail is refused')
    .addCommand(
      listCommand({
        name: 'list',
        path: 'blocks',
        filters: {},
        description: 'blocked senders, newest first',
        columns: 'id kind value note created_at',
      }),
    )
    .addCommand(add)
    .addCommand(change('delete', 'blocks/delete', 'accepts the mail of a sender again'));
}

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
      since: 'a date (2026-01-31, midnight in UTC) or a time (2026-01-31T12:00:00Z)',
      until: 'the same; what came before it',
    },
    columns: 'at event sender recipient status detail node id',
  });
  return list.enablePositionalOptions().addCommand(showTrace());
}

/** `postroom trace show ID`: the time line of one message. */
function showTrace(): Command {
  return onService(new Command('show'))
    .description('all that happened to one message, oldest first')
    .argument('<id>')
    .action(async (id: string, given: ServiceArguments) => {
      await showItem(`trace/${encodeURIComponent(id)}`, given);
    });
}
