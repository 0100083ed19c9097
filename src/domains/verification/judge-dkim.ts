/** Whether the key that signs a domain's mail is published at its selector. */
import type { DnsAnswer } from '../../dns/dns.ts';
import { parseTagList, type TagList } from '../../message/message.ts';
import { listTexts, NO_RECORD, showText, unanswered, type Verdict } from './verdict.ts';

/** What a selector's name turned out to have. */
interface SelectorAnswers {
  /** `<selector>._domainkey.<domain>` */
  readonly name: string;
  readonly txt: DnsAnswer<'TXT'>;
  /** Where the name is an alias to, asked where it has no TXT record. */
  readonly alias?: string | undefined;
}

/**
 * The record must be the only one at its name and hold our key; everything else in it must let
 * verifiers use the key for our signatures (RFC 6376 section 3.6.1).
 *
 * @param expected the record that was asked for
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
  const problem = findProblem(parseTagList(expected), record, name);
  // An empty record is there, which nobody would see in empty text.
  const observed = record === '' ? '""' : showText(record);
  return problem === undefined
    ? { outcome: 'match', observed, detail: describeMatch(record) }
    : { outcome: 'mismatch', observed, detail: problem };
}

function findProblem(expected: TagList, record: string, name: string): string | undefined {
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

/** What forms of providers make of a record that is pasted into them as it stands in a zone file. */
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
    return `The DKIM record says k=${type} where the key is k=${wantedType}: replace it by the one that is asked for.`;
  }
  const wanted = withoutSpace(expected.tags.get('p') ?? '');
  if (isSameKey(key, wanted)) return undefined;
  if (wanted.startsWith(key)) {
    return `The DKIM key is cut off after ${key.length} of ${wanted.length} characters: enter the whole record, if need be in several strings of at most 255 characters.`;
  }
  return 'The DKIM record holds another key: replace it by the one that is asked for.';
}

/** Tags that keep verifiers from using the key for our mail (RFC 6376 section 3.6.1). */
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

function describeMatch(record: string): string {
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
