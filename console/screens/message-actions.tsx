/** What is done about the ends of a message: its sender is blocked, a recipient may be written to again. */
import { act, call, read } from '../api/client.ts';
import { asApiError } from '../api/load.ts';
import type { DomainItem } from '../api/types.ts';
import { ask, type Choice } from '../ui/dialogs.tsx';
import { say } from '../ui/messages.tsx';

/** Asks what is to be blocked: the address, its domain, or the client that brought the message. */
export function askToBlock(sender: string, client: string | undefined): void {
  const domain = sender.slice(sender.lastIndexOf('@') + 1);
  const choice = (value: string, label: string, hint: string): Choice => ({
    value,
    label,
    hint,
    action: `Block ${label}`,
  });
  ask({
    title: `Block ${sender}?`,
    action: 'Block',
    isDangerous: true,
    choices: [
      choice('address', sender, 'Mail from this address.'),
      choice('domain', domain, 'Mail from every address of this domain.'),
      ...(client ? [choice('network', client, 'All mail that this client brings.')] : []),
    ],
    text: () => (
      <p>
        Its mail is refused for good (550 5.7.1), on all nodes, from the next message on. What your
        own relays bring (SMTP_TRUSTED_NETWORKS) is not refused.
      </p>
    ),
    run: async (kind) => {
      const value = { address: sender, domain, network: client }[kind];
      await act('/blocks', { kind, value, note: 'Blocked from a message' });
      say(`${value} is blocked.`);
    },
  });
}

/** Lets the accounts of a domain write to an address again. */
export async function liftSuppression(
  domain: string,
  address: string,
  done: () => Promise<void>,
): Promise<void> {
  try {
    const path = encodeURIComponent(domain);
    const { user_id } = await read<DomainItem>(`/domains/${path}`);
    const body = { user_id, address };
    await call('POST', `/v2/domains/${path}/suppressions/delete`, { body });
    say(`${address} can be written to again.`);
    await done();
  } catch (error) {
    say(`Nothing was changed: ${asApiError(error).message}`, 'bad');
  }
}
