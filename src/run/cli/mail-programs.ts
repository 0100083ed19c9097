/** `postroom app-passwords` and `postroom imap-sessions`: how mail programs get in, and what they have open. */
import { Command } from 'commander';
import { ACCOUNT, findAccountId } from './accounts.ts';
import { report } from './command.ts';
import {
  changeOne,
  connect,
  describeItem,
  type Item,
  listCommand,
  listItems,
  onService,
  readId,
  type ServiceArguments,
} from './lists.ts';
import type { ServiceClient } from './service-client.ts';

export function appPasswordsCommand(): Command {
  return new Command('app-passwords')
    .description('passwords of the mail programs of an account')
    .addCommand(listAppPasswords())
    .addCommand(revokeAppPassword());
}

/** Where the app passwords of an account are, and the user that the API asks for. */
async function findAppPasswords(client: ServiceClient, name: string) {
  const id = await findAccountId(client, name);
  const { user_id } = await client.call<{ user_id: string }>('GET', `/v2/operator/accounts/${id}`);
  return { path: `/v2/email-accounts/${id}/app-passwords`, user_id };
}

function listAppPasswords(): Command {
  return onService(new Command('list'))
    .description('app passwords of an account, and when each was used')
    .argument(...ACCOUNT)
    .action(async (name: string, { url, json }: ServiceArguments) => {
      const client = await connect(url);
      const { path, user_id } = await findAppPasswords(client, name);
      const query = new URLSearchParams({ user_id });
      const { items } = await client.call<{ items: readonly Item[] }>('GET', `${path}?${query}`);
      report(
        json,
        { ok: true, items },
        listItems(items, 'id name created_at last_used_at last_used_by'),
      );
    });
}

function revokeAppPassword(): Command {
  return onService(new Command('revoke'))
    .description('revokes an app password: its sessions end, and it opens nothing any more')
    .argument(...ACCOUNT)
    .argument('<id>', 'that of the app password, as the list shows it', readId)
    .action(async (name: string, id: number, { url, json }: ServiceArguments) => {
      const client = await connect(url);
      const { path, user_id } = await findAppPasswords(client, name);
      const revoked = `${path}/${id}/delete`;
      const { deleted } = await client.call<{ deleted: Item }>('POST', revoked, { user_id });
      report(json, { ok: true, deleted }, describeItem(deleted));
    });
}

export function imapSessionsCommand(): Command {
  const list = listCommand({
    name: 'list',
    path: 'imap-sessions',
    description: 'open sessions of mail programs on all nodes, the newest login first',
    filters: { account_id: 'of one account' },
    columns: 'id address client program since mailbox last_command last_command_at bytes_out node',
  });
  const end = onService(new Command('end'))
    .description('ends a session at once; its program may log in again')
    .argument('<session-id>')
    .action((id: string, given: ServiceArguments) =>
      changeOne(`imap-sessions/${encodeURIComponent(id)}/end`, {}, given),
    );
  return new Command('imap-sessions')
    .description('what mail programs have open')
    .addCommand(list)
    .addCommand(end);
}
