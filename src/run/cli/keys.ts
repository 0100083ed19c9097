/** `postroom keys`: API keys with a name and a scope, by the operator's API. */
import { Command, Option } from 'commander';
import { report } from './command.ts';
import {
  change,
  connect,
  describeItem,
  givenOf,
  type Item,
  listCommand,
  onService,
  type ServiceArguments,
} from './lists.ts';

const filters = {
  scope: 'product: all of /v2 but /v2/operator; operator: all of /v2',
  user_id: 'the only user that a product key is for',
  organization_id: 'the only organization that a product key is for',
  expires_at: 'its end, such as 2027-01-31; without it, the key has none',
};

export function keysCommand(): Command {
  const list = listCommand({
    name: 'list',
    path: 'keys',
    filters: {},
    description: 'API keys that operators made, newest first',
    columns: 'id name status scope user_id organization_id read_only last_used_at expires_at',
  });
  const create = onService(new Command('create'))
    .description('makes an API key, and shows it once')
    .argument('<name>', 'for people: the audit log has it')
    .addOption(
      new Option('--scope <scope>', filters.scope)
        .choices(['product', 'operator'])
        .default('product'),
    )
    .option('--user-id <user-id>', filters.user_id)
    .option('--organization-id <organization-id>', filters.organization_id)
    .option('--read-only', 'it only reads')
    .option('--expires-at <time>', filters.expires_at)
    .action(createKey);
  return new Command('keys')
    .description('API keys with a name and a scope')
    .addCommand(list)
    .addCommand(create)
    .addCommand(change('revoke', 'keys/revoke', 'revokes an API key: it opens nothing any more'));
}

async function createKey(name: string, given: ServiceArguments): Promise<void> {
  const client = await connect(given.url);
  const body = {
    name,
    ...givenOf(filters, given),
    ...(given.readOnly === true && { read_only: true }),
  };
  const made = await client.call<{ key: Item; api_key: string }>('POST', '/v2/operator/keys', body);
  const shown = describeItem({ ...made.key, api_key: made.api_key });
  report(given.json, { ok: true, ...made }, `${shown}\nSave the key now: it is not shown again.`);
}
