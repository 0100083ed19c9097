/** Whether the client may send for the domain that it gives as the sender's (RFC 7208). */
import { toDnsName } from '../../../protocols/message/message.ts';
import {
  LookupError,
  type LookupType,
  type MessageLookups,
  textRecords,
  type Weight,
} from './lookups.ts';
import type { SpfResult, SpfVerdict } from './verdicts.ts';

/** The parts of the SMTP dialogue that SPF looks at. */
export interface SendingClient {
  /** Reverse-path without angle brackets, `''` for the null sender. */
  readonly from: string;
  readonly heloName: string;
  readonly remoteAddress: string;
}

/** Limits in octets of an SPF record and of one term, and of the number of terms: far above those of honest records. */
const MAX_RECORD = 16 * 1024;
const MAX_TERMS = 500;
const MAX_TERM = 512;
/** A record with a syntax error: evaluation ends in permerror. */
const UNREADABLE = 'v=spf1 too-large';

const results = new Set<string>([
  'none',
  'neutral',
  'pass',
  'fail',
  'softfail',
  'temperror',
  'permerror',
]);

function isResult(text: string): text is SpfResult {
  return results.has(text);
}

/**
 * The domain whose record is evaluated: of MAIL FROM, or of HELO for the null sender, whose identity is
 * `postmaster@` that domain (RFC 7208 section 2.4). `''` where it is not a domain, such as an address literal.
 */
export function spfDomain({ from, heloName }: SendingClient): string {
  const domain = from === '' ? heloName : from.slice(from.lastIndexOf('@') + 1);
  return toDnsName(domain.trim()) ?? '';
}

/** Records of one lookup in mailauth's form, which has the strings of a record apart. */
async function resolve(
  lookups: MessageLookups,
  name: string,
  type: LookupType,
  weight: Weight,
): Promise<string[] | string[][]> {
  const answer = await lookups.ask(name, type, weight);
  if (answer.kind !== 'records') throw new LookupError(answer);
  if (type === 'TXT') return textRecords(answer).map((text) => [boundTerms(text)]);
  const records = answer.records.map((record) =>
    typeof record === 'string'
      ? record
      : { priority: record.preference, exchange: record.exchange },
  );
  // The types of mailauth leave out the form of MX that it accepts: the objects of Node's own resolver.
  return records as string[];
}

/** Each term takes time; checking the syntax of one takes time that grows with the square of its length. */
function boundTerms(record: string): string {
  if (!/^v=spf1(?: |$)/i.test(record)) return record;
  if (record.length > MAX_RECORD) return UNREADABLE;
  const terms = record.split(' ');
  const isBounded = terms.length <= MAX_TERMS && terms.every(({ length }) => length <= MAX_TERM);
  return isBounded ? record : UNREADABLE;
}

const lookupTypes = new Set<string>(['A', 'AAAA', 'MX', 'PTR', 'TXT']);

function isLookupType(type: string): type is LookupType {
  return lookupTypes.has(type);
}

export interface SpfInquiry {
  readonly client: SendingClient;
  readonly lookups: MessageLookups;
  /** Our own name. */
  readonly hostname: string;
  readonly weight: Weight;
  /** DNS cannot be asked now. */
  readonly dnsIsDown: boolean;
}

/**
 * Evaluates SPF. The limits of RFC 7208 section 4.6.4 hold: ten terms that ask DNS, two of them without
 * an answer.
 */
export async function evaluateSpf(inquiry: SpfInquiry): Promise<SpfVerdict> {
  const { client, lookups, hostname, weight, dnsIsDown } = inquiry;
  const domain = spfDomain(client);
  // RFC 7208 section 4.3.
  if (!domain.includes('.')) return { result: 'none', domain };
  if (dnsIsDown) return { result: 'temperror', domain };
  const resolver = (name: string, type: string) => {
    if (!isLookupType(type)) throw new Error(`SPF asks for a record of type ${type}`);
    return resolve(lookups, name, type, weight);
  };
  // Loaded at first use, since it would take each start a tenth of a second.
  const { spf } = await import('mailauth/lib/spf/index.js');
  const at = client.from.lastIndexOf('@');
  const { status } = await spf({
    // The domain that is evaluated is the one that is compared with the author's.
    sender: client.from === '' ? '' : `${client.from.slice(0, at)}@${domain}`,
    helo: client.from === '' ? domain : client.heloName,
    ip: client.remoteAddress,
    mta: hostname,
    resolver,
    strict: true,
  });
  return { result: isResult(status.result) ? status.result : 'permerror', domain };
}
