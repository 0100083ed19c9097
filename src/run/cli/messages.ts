/** `postroom messages`: one row for a message, and all about one. */
import { Command } from 'commander';
import type { MessageDetails } from '../../servers/operator/operator.ts';
import { clean, report } from './command.ts';
import { connect, listCommand, onService, type ServiceArguments } from './lists.ts';

const filters = {
  recipient: 'an address',
  sender: 'an address; empty for bounces',
  address: 'an address, of the sender or a recipient',
  domain: "the sender's domain of what accounts send, else the recipient's",
  message_id: 'the Message-ID of its header',
  status:
    'delivered, waiting, deferred, held, bounced, failed, refused, deferred_by_us, dropped, cancelled, scheduled or ' +
    'partly; several with commas',
  direction: 'in or out',
  client: 'address of the client that brought it',
  node: 'the host that took it',
  subject: 'part of the subject (TRACE_SUBJECTS)',
  reason: 'part of the newest answer',
};

export function messagesCommand(): Command {
  const opposites = Object.keys(filters).map((name) => [`not_${name}`, `the opposite of ${name}`]);
  const list = listCommand({
    name: 'messages',
    description: 'messages with what became of them, newest first',
    path: 'messages',
    filters: {
      ...filters,
      account: 'address of an account: what it sent and got',
      since: 'ISO 8601',
      until: 'ISO 8601',
      ...Object.fromEntries(opposites),
    },
    columns: ['at', 'status', 'sender', 'recipients', 'next_attempt_at', 'reason', 'id'],
  });
  return list.enablePositionalOptions().addCommand(showMessage());
}

function showMessage(): Command {
  return onService(new Command('show'))
    .description('one message: its recipients, what can be done, and all that happened to it')
    .argument('<id>', 'from Postroom: of the message, a delivery or a webhook')
    .action(async (id: string, { url, json }: ServiceArguments) => {
      const client = await connect(url);
      const path = `/v2/operator/messages/${encodeURIComponent(id)}`;
      const shown = await client.call<MessageDetails>('GET', path);
      report(json, { ok: true, ...shown }, describe(shown));
    });
}

function describe(shown: MessageDetails): string {
  const { sender, recipients, deliveries, events } = shown;
  const facts: [string, string | undefined][] = [
    ['id', shown.id],
    ['status', statusOf(shown)],
    ['from', sender === '' ? 'a bounce' : sender],
    ['subject', shown.subject],
    ['Message-ID', shown.message_id],
    ['came', [shown.at, shown.client, shown.node].filter(Boolean).join(', ')],
  ];
  const lines = facts.flatMap(([name, value]) =>
    value === undefined ? [] : `${name.padEnd(10)}  ${clean(value)}`,
  );
  for (const { address, status, reason, explanation, delivery_ids: ids } of recipients) {
    lines.push(
      '',
      `${clean(address ?? 'no recipient')}: ${status}${reason ? `, ${clean(reason)}` : ''}`,
    );
    if (explanation) lines.push(`  ${explanation}`);
    for (const one of deliveries) if (ids.includes(one.id)) lines.push(`  ${ofDelivery(one)}`);
  }
  lines.push('');
  for (const { at, event, recipient, status, detail } of events) {
    const said = [recipient, status, detail].filter(Boolean).join('  ');
    lines.push(`${at}  ${event.padEnd(15)}  ${clean(said)}`);
  }
  return lines.join('\n');
}

function statusOf({ status, counts }: Pick<MessageDetails, 'status' | 'counts'>): string {
  if (status !== 'partly') return status;
  const parts = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
  return `partly: ${parts.join(', ')}`;
}

function ofDelivery(delivery: MessageDetails['deliveries'][number]): string {
  const { id, kind, destination, status, attempts, actions } = delivery;
  const { next_attempt_at: next, last_attempt_at: last } = delivery;
  return [
    `delivery ${id}, ${kind} to ${clean(destination)}, ${status}`,
    `${attempts} attempts`,
    next && `next ${next}`,
    last && last !== next && `given up about ${last}`,
    actions.length > 0 && `can be done: postroom queue ${actions.join('|')} --ids ${id}`,
  ]
    .filter(Boolean)
    .join('; ');
}
