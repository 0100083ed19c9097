/** How commands name an account. */
import { CommandFailed } from './command.ts';
import type { ServiceClient } from './service-client.ts';

/** The argument of a command. */
export const ACCOUNT = '<account-id or address>';

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
  if (!one) throw new CommandFailed(`There is no account ${address}`);
  if (others.length === 0) return one.id;
  const ids = named.map(({ id }) => id).join(', ');
  throw new CommandFailed(`Several accounts have this address: name one by its id (${ids})`);
}
