/** Whether a domain's SPF record lets our servers send (RFC 7208). */
import type { DnsAnswer } from '../../dns/dns.ts';
import { listTexts, NO_RECORD, showText, unanswered, type Verdict } from './verdict.ts';

/** RFC 7208 section 4.6.4. */
export const LOOKUPS_MAX = 10;
export const VOID_LOOKUPS_MAX = 2;

/** What the evaluation of a domain's one record for our servers came to. */
export type SpfEvaluation =
  /** Each of our servers passes, whether by our include or by other terms. */
  | { readonly kind: 'allowed' }
  /** One of our servers does not; its address is undefined where none is known. */
  | { readonly kind: 'refused'; readonly address: string | undefined }
  | { readonly kind: 'too_many_lookups' | 'too_many_void_lookups' }
  /** Any other permanent error; `text` says which. */
  | { readonly kind: 'broken'; readonly text: string }
  | { readonly kind: 'unanswered'; readonly name: string; readonly reason: string };

/** RFC 7208 section 4.5: the version, then a space or the end. */
const VERSION = /^v=spf1(?: |$)/i;

/** The records of a domain that are of SPF. */
export function spfRecordsOf(txt: DnsAnswer<'TXT'>): string[] {
  return txt.kind === 'records' ? txt.records.filter((record) => VERSION.test(record)) : [];
}

/**
 * @param include name that the record that was asked for includes
 * @param evaluation of the one SPF record; undefined where there is none, or more than one
 */
export function judgeSpf(
  domain: string,
  include: string,
  txt: DnsAnswer<'TXT'>,
  evaluation: SpfEvaluation | undefined,
): Verdict {
  if (txt.kind === 'unanswered') return unanswered(domain, txt.reason);
  const records = spfRecordsOf(txt);
  const [record = ''] = records;
  if (records.length > 1) {
    // RFC 7208 section 4.5: more than one is a permanent error.
    return {
      outcome: 'mismatch',
      observed: listTexts(records),
      detail: `${domain} has ${records.length} SPF records where only one may be: join them into one that has include:${include}.`,
    };
  }
  if (evaluation === undefined) return judgeMissing(domain, include, txt);
  const observed = showText(record);
  switch (evaluation.kind) {
    case 'allowed':
      return { outcome: 'match', observed, detail: 'The SPF record lets our servers send.' };
    case 'unanswered':
      return unanswered(evaluation.name, evaluation.reason);
    default:
      return { outcome: 'mismatch', observed, detail: describeRefusal(include, evaluation) };
  }
}

function describeRefusal(
  include: string,
  evaluation: Exclude<SpfEvaluation, { kind: 'allowed' | 'unanswered' }>,
): string {
  switch (evaluation.kind) {
    case 'too_many_lookups':
      return `The SPF record needs more than ${LOOKUPS_MAX} DNS lookups, so that receivers pass over it: remove includes that are not used, or put include:${include} first.`;
    case 'too_many_void_lookups':
      return `The SPF record asks for more than ${VOID_LOOKUPS_MAX} names that do not exist, so that receivers pass over it: remove what is not used.`;
    case 'broken':
      return `The SPF record has an error (${showText(evaluation.text).slice(0, 200)}): mend it, so that receivers do not pass over it.`;
    case 'refused':
      return evaluation.address === undefined
        ? `The SPF record does not let our servers send: add include:${include} before the term that ends with "all".`
        : `The SPF record does not let our server ${evaluation.address} send: add include:${include} before the term that ends with "all".`;
  }
}

/** No record of SPF: mostly none at all, or a slip in its first word. */
function judgeMissing(domain: string, include: string, txt: DnsAnswer<'TXT'>): Verdict {
  const meant =
    txt.kind === 'records' ? txt.records.filter((record) => /v\s?=\s?spf1/i.test(record)) : [];
  const [first = ''] = meant;
  if (meant.length === 0) {
    return {
      outcome: 'absent',
      observed: NO_RECORD,
      detail: `${domain} has no SPF record: add a TXT record v=spf1 include:${include} ~all.`,
    };
  }
  return {
    outcome: 'mismatch',
    observed: listTexts(meant),
    detail: first.trimStart().startsWith('"')
      ? 'The SPF record holds quotation marks as part of its text: enter it without them.'
      : 'The SPF record must begin with v=spf1 followed by a space: mend its beginning.',
  };
}
