/** `postroom accounts quota`: how much the mailboxes of an account may hold. */
import { Command, InvalidArgumentError } from 'commander';
import { formatBytes, report } from './command.ts';
import { ACCOUNT, findAccountId } from './find-account.ts';
import { connect, onService, type ServiceArguments } from './lists.ts';

const units: Readonly<Record<string, number>> = { '': 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };

/** `2GB` in bytes, as disks are sold; null for the default, 0 for no limit. */
function readSize(text: string): number | null {
  if (text === 'default') return null;
  if (text === 'none') return 0;
  const [, amount, unit = ''] = /^(\d+(?:\.\d+)?) ?([KMGT]?B)?$/i.exec(text) ?? [];
  const octets = Number(amount) * (units[unit.toUpperCase().replace(/^B$/, '')] ?? Number.NaN);
  if (!Number.isSafeInteger(Math.round(octets))) {
    throw new InvalidArgumentError('It is a size such as 500MB or 2GB, none, or default.');
  }
  return Math.round(octets);
}

interface Answer {
  readonly address: string;
  readonly quota_bytes?: number;
}

export function quotaCommand(): Command {
  return onService(new Command('quota'))
    .description('sets how much the mailboxes of an account may hold')
    .argument(ACCOUNT)
    .argument('<size>', 'such as 500MB or 2GB; none: no limit; default: QUOTA_BYTES', readSize)
    .action(async (name: string, size: number | null, { url, json }: ServiceArguments) => {
      const client = await connect(url);
      const id = await findAccountId(client, name);
      const body = { id, quota_bytes: size };
      const set = await client.call<Answer>('POST', '/v2/operator/accounts/quota', body);
      report(json, { ok: true, ...set }, describe(set));
    });
}

function describe({ address, quota_bytes: quota }: Answer): string {
  if (quota === undefined) return `${address} has the default quota, QUOTA_BYTES.`;
  return quota === 0 ? `${address} has no quota.` : `${address} may hold ${formatBytes(quota)}.`;
}
