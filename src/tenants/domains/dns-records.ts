/** The records that the zone of a claim must have, its DKIM key included, and what is known of them. */
import { generateKeyPair, randomInt } from 'node:crypto';
import { promisify } from 'node:util';
import type { NewRow, Queries, Row } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { Turns } from '../../platform/net/net.ts';
import { DAY_MS, type EpochMs } from '../../platform/time/time.ts';
import { checkText } from './domain-names.ts';
import type { Owner } from './owner.ts';

export type DnsRecordStatus = Row<'dns_records'>['status'];

/** What the last look for a record found: it, something else or nothing, or no answer of DNS. */
export type LastCheck = NonNullable<Row<'dns_records'>['last_check']>;

/** Failing answers in a row before a record of an active claim fails. */
export const MISSES_MAX = 3;

/** Room for a DKIM key of 4096 bits or a long SPF record, several times over. */
const OBSERVED_MAX = 4096;

export interface DnsRecord {
  readonly id: number;
  readonly purpose: 'mx' | 'spf' | 'dmarc' | 'dkim';
  readonly recordType: 'MX' | 'TXT';
  /** Relative to the domain, `@` for the domain itself. */
  readonly host: string;
  readonly expectedValue: string;
  /** MX preference (RFC 5321 section 5.1); absent for TXT. */
  readonly priority?: number;
  readonly status: DnsRecordStatus;
  readonly observedValue?: string;
  /** One sentence with the result of the last check, for the owner of the zone. */
  readonly detail?: string;
  readonly lastCheckedAt?: number;
  /** Absent before the first look, and where the record was set by hand after it. */
  readonly lastCheck?: LastCheck;
  /** Answers in a row without the expected record. */
  readonly misses: number;
  /** When the first of them came, or when it was set to `failed` by hand. */
  readonly failingSince?: EpochMs;
  /** Whether the status was set by hand, so that automatic checks leave it alone. */
  readonly marked: boolean;
  /** Of a DKIM record during a rotation: its key signs once it is verified (next), or no longer (old). */
  readonly keyState?: 'next' | 'old';
  /** When the record of an old key may be removed from DNS. */
  readonly removableAt?: number;
}

/**
 * How long the record of a former DKIM key has to stay in DNS: longer than mail is retried (5 days), since receivers
 * look up the key when they get the mail.
 */
export const KEEP_OLD_KEY_MS = 7 * DAY_MS;

/** A status that is set by hand. */
export interface DnsMark {
  readonly id: number;
  readonly status: DnsRecordStatus;
  readonly observedValue?: string;
}

/** Ids in one statement: both engines limit the number of parameters. */
const IDS_AT_A_TIME = 500;

/** The MX preference that we ask for. */
export const MX_PRIORITY = 10;

interface Expected {
  readonly mailHostname: string;
  readonly spfInclude: string;
  readonly dkim: { readonly selector: string; readonly txtValue: string };
}

/** RFC 7208 section 5.2; softfail, because the domain may also send through hosts that we do not know. */
function spfValue(spfInclude: string): string {
  return `v=spf1 include:${spfInclude} ~all`;
}

/** Where the key of a selector is published, relative to the domain (RFC 6376 section 3.6.2.1). */
export function dkimHost(selector: string): string {
  return `${selector}._domainkey`;
}

/** The records that a new claim starts with. */
export function seedRecords(domainId: number, expected: Expected): NewRow<'dns_records'>[] {
  const { mailHostname, spfInclude, dkim } = expected;
  const common = { domain_id: domainId, status: 'pending', marked: 0 } as const;
  const mx = { ...common, record_type: 'MX', priority: MX_PRIORITY } as const;
  const txt = { ...common, record_type: 'TXT', priority: null } as const;
  return [
    { ...mx, purpose: 'mx', host: '@', expected_value: mailHostname },
    { ...txt, purpose: 'spf', host: '@', expected_value: spfValue(spfInclude) },
    { ...txt, purpose: 'dmarc', host: '_dmarc', expected_value: 'v=DMARC1; p=none' },
    { ...txt, purpose: 'dkim', host: dkimHost(dkim.selector), expected_value: dkim.txtValue },
  ];
}

/**
 * Updates the records of existing claims to our current names. A record that was not marked by hand is `pending` until
 * its next check, which is due at once; the result of a running check is ignored, since it asked for the old names.
 *
 * @returns how many claims had other names
 */
export async function renameExpected(
  tx: Queries,
  { mailHostname, spfInclude }: Omit<Expected, 'dkim'>,
  now: number,
): Promise<number> {
  const values = { mx: mailHostname, spf: spfValue(spfInclude) } as const;
  const purposes = ['mx', 'spf'] as const;
  let ids: number[] = [];
  for (const purpose of purposes) {
    const rows = await tx
      .selectFrom('dns_records')
      .select('domain_id')
      .where('purpose', '=', purpose)
      .where('expected_value', '!=', values[purpose])
      .execute();
    ids.push(...rows.map(({ domain_id }) => domain_id));
  }
  ids = [...new Set(ids)].sort((a, b) => a - b);
  // The claims first: every transaction locks them first.
  for (let at = 0; at < ids.length; at += IDS_AT_A_TIME) {
    await tx
      .updateTable('domains')
      .set({ next_check_at: now })
      .where('id', 'in', ids.slice(at, at + IDS_AT_A_TIME))
      .execute();
  }
  for (const purpose of purposes) {
    const expected_value = values[purpose];
    const unchecked = {
      status: 'pending',
      detail: null,
      misses: 0,
      failing_since: null,
      last_check: null,
    } as const;
    for (const marked of [0, 1]) {
      await tx
        .updateTable('dns_records')
        .set(marked === 1 ? { expected_value } : { expected_value, ...unchecked })
        .where('purpose', '=', purpose)
        .where('expected_value', '!=', expected_value)
        .where('marked', '=', marked)
        .execute();
    }
  }
  return ids.length;
}

function toRecord(row: Row<'dns_records'>): DnsRecord {
  // The record of an old key is not looked for any more.
  const isOld = row.key_state === 'old';
  const removableAt = isOld ? (row.key_since ?? 0) + KEEP_OLD_KEY_MS : undefined;
  const detail = [
    describeKeyState(row.key_state, removableAt),
    isOld ? null : describeMiss(row),
    isOld ? null : row.detail,
  ]
    .filter((sentence) => sentence !== null)
    .join(' ');
  return {
    id: row.id,
    purpose: row.purpose,
    recordType: row.record_type,
    host: row.host,
    expectedValue: row.expected_value,
    ...(row.priority === null ? {} : { priority: row.priority }),
    status: row.status,
    ...(row.observed_value === null ? {} : { observedValue: row.observed_value }),
    ...(detail !== '' && { detail }),
    ...(row.last_checked_at === null ? {} : { lastCheckedAt: row.last_checked_at }),
    ...(!isOld && row.last_check !== null && { lastCheck: row.last_check }),
    misses: isOld ? 0 : row.misses,
    ...(!isOld && row.failing_since !== null && { failingSince: row.failing_since }),
    marked: row.marked === 1,
    ...(row.key_state !== null && { keyState: row.key_state }),
    ...(removableAt !== undefined && { removableAt }),
  };
}

/** That a verified record was not there: nobody is to read "verified" beside "there is no such record". */
function describeMiss({ status, last_check, misses }: Row<'dns_records'>): string | null {
  if (status !== 'verified' || last_check !== 'missed') return null;
  return `Missing now, and failed after ${MISSES_MAX} looks in a row without it (${misses} so far).`;
}

function describeKeyState(
  state: DnsRecord['keyState'] | null,
  removableAt: number | undefined,
): string | null {
  if (state === 'next') return 'The next DKIM key: it signs as soon as this record is seen in DNS.';
  if (removableAt === undefined) return null;
  const day = new Date(removableAt).toISOString().slice(0, 10);
  return `A former DKIM key, which signs no more: this record may be removed from DNS after ${day}.`;
}

/** The records of one claim, in the order they were seeded. */
export async function readRecords(queries: Queries, domainId: number): Promise<DnsRecord[]> {
  const rows = await queries
    .selectFrom('dns_records')
    .selectAll()
    .where('domain_id', '=', domainId)
    .orderBy('id')
    .execute();
  return rows.map(toRecord);
}

/** Checks a mark's fields. @throws Refusal invalid_request */
export function checkMark(mark: DnsMark): void {
  if (mark.observedValue !== undefined) {
    checkText('observed_value', mark.observedValue, OBSERVED_MAX);
  }
}

const MARKED_DETAIL = 'Set by hand: it is not checked until it is marked pending.';

/**
 * Sets a record by hand; `pending` returns it to the automatic check, which is due at once.
 *
 * @throws Refusal dns_record_not_found where the claim has no such record
 */
export async function writeMark(
  tx: Queries,
  domainId: number,
  mark: DnsMark,
  now: number,
): Promise<void> {
  const givenBack = mark.status === 'pending';
  const updated = Number.isSafeInteger(mark.id)
    ? await tx
        .updateTable('dns_records')
        .set(({ fn, val }) => ({
          status: mark.status,
          marked: givenBack ? 0 : 1,
          detail: givenBack ? null : MARKED_DETAIL,
          misses: 0,
          last_check: null,
          failing_since: mark.status === 'failed' ? fn.coalesce('failing_since', val(now)) : null,
          ...(mark.observedValue === undefined ? {} : { observed_value: mark.observedValue }),
        }))
        .where('id', '=', mark.id)
        .where('domain_id', '=', domainId)
        .executeTakeFirst()
    : undefined;
  if (Number(updated?.numUpdatedRows ?? 0) === 0) {
    throw new Refusal('dns_record_not_found', `the domain has no DNS record ${mark.id}`);
  }
  if (givenBack) await checkNow(tx, domainId, now);
}

/** Lets DNS be asked about the records of a claim as soon as possible. */
export async function checkNow(tx: Queries, domainId: number, now: number): Promise<void> {
  await tx
    .updateTable('domains')
    .set({ next_check_at: now })
    .where('id', '=', domainId)
    .where('next_check_at', '>', now)
    .execute();
}

const ZONE_TTL = 3600;
/** A character string on the wire has one octet for its length (RFC 1035 section 3.3). */
const STRING_MAX = 255;

/**
 * Writes the records that a domain needs as lines of a zone file (RFC 1035 section 5.1), to be pasted. Names are
 * absolute, so that the lines fit into the zone of the domain and into that of a parent domain, whatever its $ORIGIN.
 */
export function writeZone(domain: string, records: readonly DnsRecord[]): string {
  const lines = records.map((record) => {
    const owner = record.host === '@' ? `${domain}.` : `${record.host}.${domain}.`;
    return `${owner}\t${ZONE_TTL}\tIN\t${record.recordType}\t${writeData(record)}`;
  });
  return `${[`; What ${domain} needs for its mail`, ...lines].join('\n')}\n`;
}

function writeData({ recordType, priority, expectedValue }: DnsRecord): string {
  if (recordType === 'MX') return `${priority ?? 0} ${expectedValue}.`;
  const bytes = Buffer.from(expectedValue, 'utf8');
  const strings: string[] = [];
  for (let start = 0; start < bytes.length; start += STRING_MAX) {
    strings.push(quote(bytes.subarray(start, start + STRING_MAX)));
  }
  return strings.join(' ') || '""';
}

/** One quoted character string, with all but plain ASCII as `\DDD` (RFC 1035 section 5.1). */
function quote(bytes: Buffer): string {
  const text = [...bytes].map((byte) => {
    const char = String.fromCharCode(byte);
    if (char === '"' || char === '\\') return `\\${char}`;
    return byte >= 0x20 && byte < 0x7f ? char : `\\${String(byte).padStart(3, '0')}`;
  });
  return `"${text.join('')}"`;
}

/* The key pair that signs a claim's mail. Published in DNS, it proves who controls the zone. */

const generate = promisify(generateKeyPair);

/** RFC 8301 section 3.2: signers use at least 1024 bits and should use at least 2048. */
const MODULUS_BITS = 2048;

const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';
const SELECTOR_RANDOM = 10;

export interface DkimKey {
  /** The name below `_domainkey` (RFC 6376 section 3.1); each claim has its own. */
  readonly selector: string;
  /** PKCS #8 PEM. */
  readonly privateKey: string;
}

export interface NewDkimKey extends DkimKey {
  /** The value of the TXT record at the selector (RFC 6376 section 3.6.1). */
  readonly txtValue: string;
}

const line = new Turns(1);
const { signal: never } = new AbortController();

/**
 * Makes a key pair and a unique selector (50 random bits).
 *
 * One pair at a time: each takes a tenth of a second of one of the four threads that file access and password hashes
 * need as well. Users go one after the other, and so do organizations: whoever claims a hundred domains at once does not let others
 * wait for all of them.
 */
export function generateDkimKey({ userId, organizationId }: Owner): Promise<NewDkimKey> {
  const organization =
    organizationId === undefined ? [] : [{ name: `organization ${organizationId}`, most: 1 }];
  return line.run([{ name: `user ${userId}`, most: 1 }, ...organization], makeKey, never);
}

async function makeKey(): Promise<NewDkimKey> {
  const { publicKey, privateKey } = await generate('rsa', {
    modulusLength: MODULUS_BITS,
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const random = Array.from({ length: SELECTOR_RANDOM }, () => BASE32[randomInt(BASE32.length)]);
  return {
    selector: `pr${random.join('')}`,
    privateKey,
    txtValue: `v=DKIM1; k=rsa; p=${publicKey.toString('base64')}`,
  };
}
