/** Judges the MX, DMARC and DKIM records of a domain, and describes what was found. */
import { isUtf8 } from 'node:buffer';
import { isIP } from 'node:net';
import type { DnsAnswer, MxRecord } from '../../../protocols/dns/dns.ts';
import { parseTagList, type TagList, trimSpace } from '../../../protocols/message/message.ts';

/**
 * Our host must be among the exchangers, and no other host preferred over it (RFC 5321 section 5.1). Another host of
 * the same preference passes with a warning: senders choose one of the two at random.
 *
 * @param ourHost lower case
 */
export function judgeMx(domain: string, ourHost: string, answer: DnsAnswer<'MX'>): Verdict {
  if (answer.kind === 'unanswered') return unanswered(domain, answer.reason);
  if (answer.kind === 'absent') {
    const detail =
      answer.reason === 'no_record'
        ? `${domain} has no MX record: add one that names ${ourHost}.`
        : `DNS knows no name ${domain}: see that it is registered and served, and add an MX record that names ${ourHost}.`;
    return { outcome: 'absent', observed: NO_RECORD, detail };
  }
  const records = [...answer.records].sort(byPreference);
  const observed = listed(records.map(show));
  const problem = mxProblem(domain, ourHost, records);
  if (problem !== undefined) return { outcome: 'mismatch', observed, detail: problem };
  return { outcome: 'match', observed, detail: mxMatch(domain, ourHost, records) };
}

const byPreference = (a: MxRecord, b: MxRecord) =>
  a.preference - b.preference || a.exchange.localeCompare(b.exchange);

const show = ({ preference, exchange }: MxRecord) => `${preference} ${exchange || '.'}`;

function mxProblem(
  domain: string,
  ourHost: string,
  records: readonly MxRecord[],
): string | undefined {
  // RFC 7505 section 3: the root as exchange says "no mail at all", and must stand alone.
  if (records.some(({ exchange }) => exchange === '')) {
    return `${domain} has a null MX record ("0 ."), which says that it takes no mail: replace it by one that names ${ourHost}.`;
  }
  const ours = records.find(({ exchange }) => exchange === ourHost);
  if (!ours) return describeForeign(domain, ourHost, records);
  const preferred = records.filter(({ preference }) => preference < ours.preference);
  if (preferred.length === 0) return undefined;
  const hosts = listed(preferred.map(({ exchange }) => exchange));
  return `Mail goes to ${hosts} first, since a lower number is preferred: remove that record, or give ${ourHost} a lower number.`;
}

function describeForeign(domain: string, ourHost: string, records: readonly MxRecord[]): string {
  // A zone file adds the zone's name to a name without a dot at its end (RFC 1035 section 5.1).
  if (records.some(({ exchange }) => exchange === `${ourHost}.${domain}`)) {
    return `The MX record names ${ourHost}.${domain}: put a dot at the end of ${ourHost}, so that ${domain} is not added to it.`;
  }
  // RFC 5321 section 5.1: the exchange is a name; mail for an address there is not delivered.
  if (records.some(({ exchange }) => isIP(exchange) !== 0)) {
    return `An MX record names a host, not an IP address: replace it by one that names ${ourHost}.`;
  }
  const hosts = listed(records.map(({ exchange }) => exchange));
  return `Mail goes to ${hosts}: replace the MX records by one that names ${ourHost}.`;
}

function mxMatch(domain: string, ourHost: string, records: readonly MxRecord[]): string {
  const ours = records.find(({ exchange }) => exchange === ourHost);
  const equals = records.filter(
    ({ exchange, preference }) => exchange !== ourHost && preference === ours?.preference,
  );
  if (equals.length === 0) return `Mail for ${domain} comes to ${ourHost}.`;
  const hosts = listed(equals.map(({ exchange }) => exchange));
  return `Mail for ${domain} comes to ${ourHost}, but part of it goes to ${hosts}, which has the same number: give it a higher one.`;
}

/* Whether a DMARC policy applies to a domain (RFC 7489 sections 6.3 and 6.6.3). */

/** The answer for one `_dmarc` name. */
export interface PolicyAnswer {
  /** The domain whose policy it is. */
  readonly domain: string;
  readonly txt: DnsAnswer<'TXT'>;
}

const POLICIES = ['none', 'quarantine', 'reject'];

/**
 * RFC 7489 section 6.6.3 step 2: records that do not begin with `v=DMARC1` are not DMARC records. The
 * version is upper case, white space around `=` is fine (section 6.4).
 */
const VERSION = /^v[ \t]*=[ \t]*DMARC1[ \t]*(?:;|$)/;

/** Whether the domain's own name has a policy: then that of its organization is not looked up. */
export function hasPolicy(txt: DnsAnswer<'TXT'>): boolean {
  return txt.kind === 'records' && txt.records.some(isPolicy);
}

const isPolicy = (record: string) => VERSION.test(record);

/**
 * @param own of the domain itself
 * @param organization of its organizational domain (RFC 7489 section 3.2), looked up where that is another name and the
 *   domain has no policy of its own
 */
export function judgeDmarc(own: PolicyAnswer, organization?: PolicyAnswer): Verdict {
  const ownVerdict = judgeName(own);
  if (ownVerdict) return ownVerdict;
  const inherited = organization && judgeName(organization);
  if (inherited) return inherited;
  const observed = own.txt.kind === 'records' ? listTexts(own.txt.records) : NO_RECORD;
  const detail =
    own.txt.kind === 'records'
      ? describeOther(own.txt.records, own.domain)
      : `There is no DMARC record at _dmarc.${own.domain}: add the one that is asked for.`;
  return { outcome: own.txt.kind === 'records' ? 'mismatch' : 'absent', observed, detail };
}

/** The verdict for one name; undefined where it has no policy at all. */
function judgeName({ domain, txt }: PolicyAnswer): Verdict | undefined {
  if (txt.kind === 'unanswered') return unanswered(`_dmarc.${domain}`, txt.reason);
  if (txt.kind === 'absent') return undefined;
  const policies = txt.records.filter(isPolicy);
  const [policy, ...others] = policies;
  if (policy === undefined) return undefined;
  if (others.length > 0) {
    // RFC 7489 section 6.6.3 step 5: with several records no policy applies.
    return {
      outcome: 'mismatch',
      observed: listTexts(policies),
      detail: `There are ${policies.length} DMARC records at _dmarc.${domain} where only one may be: keep one of them.`,
    };
  }
  const problem = dmarcProblem(policy);
  return problem === undefined
    ? { outcome: 'match', observed: showText(policy), detail: `${domain} has a DMARC policy.` }
    : { outcome: 'mismatch', observed: showText(policy), detail: problem };
}

/** Unreadable parts are skipped (RFC 7489 section 6.3), but a repeated tag is an error. */
function dmarcProblem(record: string): string | undefined {
  const { tags, repeated } = parseTagList(record);
  if (repeated !== undefined) {
    return `The DMARC record has the tag ${repeated}= twice: remove one of them.`;
  }
  const policy = tags.get('p')?.toLowerCase();
  if (policy === undefined) {
    return 'The DMARC record has no policy: add p=none, p=quarantine or p=reject to it.';
  }
  if (!POLICIES.includes(policy)) {
    return `The DMARC record has the policy p=${showText(policy).slice(0, 40)}: write none, quarantine or reject.`;
  }
  // RFC 7489 section 6.6.3 step 6: an invalid sp= makes the record invalid.
  const forSubdomains = tags.get('sp')?.toLowerCase();
  if (forSubdomains !== undefined && !POLICIES.includes(forSubdomains)) {
    return `The DMARC record has the subdomain policy sp=${showText(forSubdomains).slice(0, 40)}: write none, quarantine or reject, or remove sp=.`;
  }
  return undefined;
}

/** Other records at the name: mostly with a typing error in the first word. */
function describeOther(records: readonly string[], domain: string): string {
  const meant = records.find((record) => /dmarc/i.test(record));
  if (meant === undefined) {
    return `The TXT record at _dmarc.${domain} is no DMARC record: add the one that is asked for.`;
  }
  return trimSpace(meant).startsWith('"')
    ? 'The DMARC record holds quotation marks as part of its text: enter it without them.'
    : 'The DMARC record must begin with v=DMARC1 followed by a semicolon: replace it by the one that is asked for.';
}

/* Whether the key that signs a domain's mail is published at its selector. */

/** The answers for a selector's name. */
interface SelectorAnswers {
  /** `<selector>._domainkey.<domain>` */
  readonly name: string;
  readonly txt: DnsAnswer<'TXT'>;
  /** The target of an alias, where the name is an alias and has no TXT record. */
  readonly alias?: string | undefined;
}

/**
 * The record must be the only one at its name and hold our key; everything else in it must let
 * verifiers use the key for our signatures (RFC 6376 section 3.6.1).
 *
 * @param expected the record that we asked for
 */
export function judgeDkim(expected: string, { name, txt, alias }: SelectorAnswers): Verdict {
  if (txt.kind === 'unanswered') return unanswered(name, txt.reason);
  if (txt.kind === 'absent') {
    if (alias === undefined) {
      const detail = `There is no TXT record at ${name}: add the one with the DKIM key.`;
      return { outcome: 'absent', observed: NO_RECORD, detail };
    }
    const detail = `${name} is an alias (CNAME) of ${alias}, which has no TXT record: add the TXT record with the DKIM key in its place.`;
    return { outcome: 'absent', observed: `CNAME ${alias}`, detail };
  }
  const [record = '', ...others] = txt.records;
  if (others.length > 0) {
    // RFC 6376 section 3.6.2.2: with several records it is undefined which of them is used.
    return {
      outcome: 'mismatch',
      observed: listTexts(txt.records),
      detail: `There are ${txt.records.length} TXT records at ${name} where only one may be: keep the one with the DKIM key.`,
    };
  }
  const problem = dkimProblem(parseTagList(expected), record, name);
  // An empty record is shown as `""`, since empty text would not be seen.
  const observed = record === '' ? '""' : showText(record);
  return problem === undefined
    ? { outcome: 'match', observed, detail: dkimMatch(record) }
    : { outcome: 'mismatch', observed, detail: problem };
}

function dkimProblem(expected: TagList, record: string, name: string): string | undefined {
  const { tags, first, broken, repeated } = parseTagList(record);
  const pasted = describePasting(record);
  if (pasted !== undefined) return pasted;
  if (!tags.has('p')) {
    return `The TXT record at ${name} is no DKIM key: replace it by the one that is asked for.`;
  }
  if (broken !== undefined) {
    return `The DKIM record has a part that is no tag with a value (${broken}): replace it by the one that is asked for.`;
  }
  if (repeated !== undefined) {
    return `The DKIM record has the tag ${repeated}= twice: replace it by the one that is asked for.`;
  }
  // RFC 6376 section 3.6.1: v= is DKIM1 and comes first, where it is given at all.
  if (tags.has('v') && (first !== 'v' || tags.get('v') !== 'DKIM1')) {
    return 'The DKIM record must begin with v=DKIM1: replace it by the one that is asked for.';
  }
  return describeKey(expected, tags) ?? describeLimits(tags);
}

/** Common results of pasting a line of a zone file into the form of a DNS provider. */
function describePasting(record: string): string | undefined {
  if (record.includes('"')) {
    return 'The DKIM record holds quotation marks as part of its text: enter it without them.';
  }
  if (record.includes('\\;')) {
    return 'The DKIM record holds backslashes before its semicolons: enter it without them.';
  }
  return undefined;
}

function describeKey(expected: TagList, tags: TagList['tags']): string | undefined {
  const key = withoutSpace(tags.get('p') ?? '');
  if (key === '') {
    // RFC 6376 section 3.6.1: an empty p= revokes the key.
    return 'The DKIM key is revoked, since p= is empty: enter the record that is asked for.';
  }
  const wantedType = expected.tags.get('k') ?? 'rsa';
  const type = tags.get('k') ?? 'rsa';
  if (type !== wantedType) {
    return `The DKIM record says k=${type.slice(0, 40)} where the key is k=${wantedType}: replace it by the one that is asked for.`;
  }
  const wanted = withoutSpace(expected.tags.get('p') ?? '');
  if (isSameKey(key, wanted)) return undefined;
  if (wanted.startsWith(key)) {
    return `The DKIM key is cut off after ${key.length} of ${wanted.length} characters: enter the whole record, if need be in several strings of at most 255 characters.`;
  }
  return 'The DKIM record holds another key: replace it by the one that is asked for.';
}

/** Tags that prevent verifiers from using the key for our mail (RFC 6376 section 3.6.1). */
function describeLimits(tags: TagList['tags']): string | undefined {
  const hashes = tags.get('h');
  if (hashes !== undefined && !hasWord(hashes, 'sha256')) {
    return 'The DKIM record allows hashes other than sha256 alone: remove h= from it.';
  }
  const services = tags.get('s');
  if (services !== undefined && !hasWord(services, '*') && !hasWord(services, 'email')) {
    return 'The DKIM record is for other services than email: remove s= from it.';
  }
  return undefined;
}

function dkimMatch(record: string): string {
  const flags = parseTagList(record).tags.get('t');
  // RFC 6376 section 3.6.1: verifiers treat mail signed with such a key as not signed.
  return flags !== undefined && hasWord(flags, 'y')
    ? 'The DKIM key is published, but as a test that receivers pass over: remove t=y from it.'
    : 'The DKIM key is published.';
}

const hasWord = (list: string, word: string) =>
  list.split(':').some((one) => withoutSpace(one) === word);

const withoutSpace = (text: string) => text.replace(/[ \t\r\n]/g, '');

/** The same bytes, however they are padded (RFC 6376 section 3.2 `base64string`). */
function isSameKey(key: string, wanted: string): boolean {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(key)) return false;
  return Buffer.from(key, 'base64').equals(Buffer.from(wanted, 'base64'));
}

/* The result of a check of one DNS record, and how the observed value is shown. */

/**
 * - `match`: DNS has the expected value, by its meaning
 * - `mismatch`: DNS has another value
 * - `absent`: DNS has no such record
 * - `unknown`: DNS did not answer, so nothing is known and nothing changes
 */
export type Verdict =
  | {
      readonly outcome: 'match' | 'mismatch' | 'absent';
      /** The observed value; `no record` where there was none. */
      readonly observed: string;
      /** One sentence for the owner of the zone: what was found, and what to do about it. */
      readonly detail: string;
    }
  | { readonly outcome: 'unknown'; readonly detail: string };

export const NO_RECORD = 'no record';

/** The verdict of a lookup without an answer. */
export function unanswered(name: string, reason: string): Verdict {
  return {
    outcome: 'unknown',
    detail: `DNS could not be asked about ${name} (${reason}): nothing was changed, it is tried again.`,
  };
}

/** The most characters of `observed_value` and `detail`: room for a record of 4 KB, not for an answer of 64 KB. */
const SHOWN_MAX = 4_000;
/** The most records that are shown. */
const RECORDS_MAX = 5;

/** Control characters, those that nobody sees or that turn the direction of what follows, and line ends of Unicode. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** As in zone files (RFC 1035 section 5.1). */
const escapeBytes = (bytes: Uint8Array) =>
  [...bytes].map((byte) => `\\${String(byte).padStart(3, '0')}`).join('');

/** @param text one character for each byte */
export function showText(text: string): string {
  const bytes = Buffer.from(text, 'latin1');
  const encoding = isUtf8(bytes) ? 'utf8' : 'latin1';
  const printable = bytes
    .toString(encoding)
    .replace(UNPRINTABLE, (char) => escapeBytes(Buffer.from(char, encoding)));
  return limitText(printable);
}

/** Several items on one line; those that are left out are counted. */
function listed(texts: readonly string[]): string {
  const shown = texts.slice(0, RECORDS_MAX);
  const more = texts.length - shown.length;
  if (more > 0) shown.push(`${more} more`);
  const last = shown.pop() ?? '';
  return limitText(shown.length === 0 ? last : `${shown.join(', ')} and ${last}`);
}

/** Several TXT records, each in quotation marks, which show where one ends. */
export function listTexts(texts: readonly string[]): string {
  return listed(texts.map((text) => `"${showText(text)}"`));
}

/** Text as it is stored; what is left out is counted. */
export function limitText(text: string): string {
  if (text.length <= SHOWN_MAX) return text;
  // Half of a surrogate pair would not be valid text.
  const head = text.slice(0, SHOWN_MAX).replace(/[\ud800-\udbff]$/, '');
  return `${head}… (${text.length - head.length} more characters)`;
}
