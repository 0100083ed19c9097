/**
 * Addresses of accounts: which parts before the `@` are allowed, how addresses are compared, and which account mail for one
 * is for.
 */
import { sql } from 'kysely';
import { PreparedQuery, type Queries, type Row } from '../../platform/database/database.ts';
import { invalidField } from '../../platform/errors/errors.ts';
import { parseAddress } from '../../protocols/message/message.ts';
import { type ActiveDomain, selectActive, toActive } from '../domains/domains.ts';

/** An address in the form of account lookups. */
export interface MailAddress {
  readonly localPart: string;
  readonly domain: string;
}

/** The address of an account, of its columns. */
export const address = sql<string>`local_part || '@' || domain_name`.as('address');

/** RFC 5321 section 4.5.3.1.1. */
const LOCAL_PART_MAX = 64;
/** RFC 5321 section 4.5.3.1.3: a path has 256 octets, angle brackets included. */
const ADDRESS_MAX = 254;

/** Dot-string of RFC 5321 section 4.1.2 in ASCII only: our addresses need no SMTPUTF8. */
const DOT_STRING = /^[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*$/;

/** Local parts that are reserved for rewritten senders of forwarded mail. */
const REWRITTEN = /^srs[01]/;

/**
 * Reads the local part of a new account.
 *
 * @returns it in lower case: RFC 5321 section 2.4 lets the host of a mailbox ignore case, and no person distinguishes
 *   `Ann@` and `ann@`
 * @throws Refusal invalid_request for `local_part`
 */
export function checkLocalPart(text: string, domain: string): string {
  if (text.length > LOCAL_PART_MAX || text === '') {
    throw invalidField('local_part', `must have 1 to ${LOCAL_PART_MAX} characters`);
  }
  if (text.includes('@')) {
    throw invalidField('local_part', 'must be what stands in front of the "@" alone');
  }
  if (!DOT_STRING.test(text)) {
    throw invalidField(
      'local_part',
      'must be letters, digits and the signs of RFC 5321, with single dots between them',
    );
  }
  if (text.includes('+')) {
    throw invalidField('local_part', 'must not hold "+": mail to name+tag is delivered to name');
  }
  const localPart = text.toLowerCase();
  if (REWRITTEN.test(localPart)) {
    throw invalidField('local_part', 'must not begin with SRS0 or SRS1, which forwarding uses');
  }
  if (`${localPart}@${domain}`.length > ADDRESS_MAX) {
    throw invalidField('local_part', `must not make the address longer than ${ADDRESS_MAX}`);
  }
  return localPart;
}

/** The local part under which mail for `text` is stored: lower case, without a `+tag`. */
export function mailLocalPart(text: string): string {
  const plus = text.indexOf('+');
  return (plus < 0 ? text : text.slice(0, plus)).toLowerCase();
}

/** Reads an address; undefined where the text is none. */
export function readAddress(text: string): MailAddress | undefined {
  const address = parseAddress(text);
  return address && { localPart: address.local.toLowerCase(), domain: address.domain };
}

/* Where mail for an address goes: one query for each recipient of a message, compiled once. */

/** An account that mail is for. */
export interface Recipient {
  readonly id: number;
  readonly address: string;
  readonly status: Row<'accounts'>['status'];
  readonly quotaBytes: number | null;
}

interface Found {
  readonly domain: ActiveDomain;
  readonly account: Recipient | undefined;
}

const recipient = new PreparedQuery(
  ({ name, localPart }: { name: string; localPart: string }, queries) =>
    selectActive(queries, name)
      .leftJoin('accounts', (join) =>
        join.onRef('accounts.domain_id', '=', 'domains.id').on('local_part', '=', localPart),
      )
      .select(['accounts.id as account_id', 'local_part', 'accounts.status', 'quota_bytes']),
);

/**
 * The active claim on a domain, and the account on it that receives mail for a local part, without regard to case and
 * `+tag`. Suspended accounts are found too.
 *
 * @param address as `parseAddress` reads it
 */
export async function findRecipient(
  queries: Queries,
  { local, domain: name }: { readonly local: string; readonly domain: string },
): Promise<Found | undefined> {
  const row = await recipient.first(queries, { name, localPart: mailLocalPart(local) });
  if (!row) return undefined;
  const { account_id: id, local_part, status, quota_bytes: quotaBytes } = row;
  const account =
    id === null || status === null
      ? undefined
      : { id, address: `${local_part}@${name}`, status, quotaBytes };
  return { domain: toActive(row), account };
}
