/** `postroom messages`: one row for a message, and all about one. */
import { Command } from 'commander';
import { listCommand, onService, type ServiceArguments, showItem } from './lists.ts';

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
  const opposites = Object.keys(filters).map((name) => [
    `not_${name}`,
    `the opposite of --${name.replaceAll('_', '-')}`,
  ]);
  const list = listCommand({
    name: 'messages',
    description: 'messages with what became of them, newest first',
    path: 'messages',
    filters: {
      ...filters,
      account: 'address of an account: what it sent and got',
      since: 'a date (2026-01-31, midnight in UTC) or a time (2026-01-31T12:00:00Z)',
      until: 'the same; what came before it',
      ...Object.fromEntries(opposites),
    },
    columns: 'at status sender recipients next_attempt_at reason id',
  });
  return list.enablePositionalOptions().addCommand(showMessage());
}

function showMessage(): Command {
  return onService(new Command('show'))
    .description('one message: its recipients, what can be done, and all that happened to it')
    .argument('<id>', 'from Postroom: of the message, a delivery or a webhook')
    .action(async (id: string, given: ServiceArguments) => {
      await showItem(`messages/${encodeURIComponent(id)}`, given);
    });
}
