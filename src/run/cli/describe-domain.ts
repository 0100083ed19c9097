/** Domains for people: the list, and of one domain its members, and of each DNS record what to publish and what was seen. */
import type { OperatedDomainDetails } from '../../servers/operator/operator.ts';
import { clean } from './command.ts';
import { describeItem, type Item, type List } from './lists.ts';

export const domainList: List = {
  name: 'list',
  description: 'domains of all users',
  path: 'domains',
  filters: {
    status: 'pending, active or suspended',
    can_send: 'true, or false: those that cannot send',
    records_failed: 'any, mx, spf, dmarc or dkim: those with this record failed',
    user_id: 'of one user',
    q: 'beginning of the name',
  },
  columns: [
    'domain',
    'user_id',
    'status',
    'suspended',
    'can_send',
    'records_failed',
    'forward_mode',
    'accounts',
    'messages',
    'bytes',
  ],
};

type ShownRecord = Omit<OperatedDomainDetails['dns'][number], 'id'>;

export interface ShownDomain extends Item {
  readonly domain: string;
  readonly dns: readonly ShownRecord[];
}

/** The records say what `dkim` and `checks` sum up. */
export function describeDomain({ dns, dkim: _, checks: __, ...domain }: ShownDomain): string {
  const shown = dns.map((record) => describeRecord(domain.domain, record));
  return [describeItem(domain), ...shown].join('\n\n');
}

function describeRecord(domain: string, record: ShownRecord): string {
  const { purpose, record_type, host, priority, expected_value, observed_value, detail } = record;
  const name = host === '@' ? domain : `${host}.${domain}`;
  const value = priority === undefined ? `"${expected_value}"` : `${priority} ${expected_value}`;
  const since = record.failing_since === undefined ? '' : `, since ${record.failing_since}`;
  const lines = [
    `${purpose.toUpperCase()}: ${stateOf(record)}${since}`,
    `  publish  ${name}  ${record_type}  ${value}`,
  ];
  if (observed_value !== undefined) lines.push(`  seen     ${observed_value}`);
  if (detail !== undefined) lines.push(`  ${detail}`);
  return lines.map((line) => clean(line)).join('\n');
}

/** A verified record that is gone is not called verified. */
function stateOf({ status, misses, key_state }: ShownRecord): string {
  if (key_state === 'old') return 'old key, which signs no more';
  const state = status === 'verified' && misses > 0 ? 'missing now' : status;
  return key_state === 'next' ? `${state} (next key)` : state;
}
