/** Whether a domain's SPF record lets our servers send (RFC 7208), and the addresses of our servers. */

import type { EpochMs } from '../../../platform/time/time.ts';
import type { DnsAnswer, DnsLookup } from '../../../protocols/dns/dns.ts';
import {
  evaluateSpf as evaluateRecord,
  type SpfEvaluated,
  type SpfType,
} from '../../../protocols/spf/spf.ts';
import { listTexts, NO_RECORD, showText, unanswered, type Verdict } from './judge-records.ts';

/** RFC 7208 section 4.6.4. */
const LOOKUPS_MAX = 10;
const VOID_LOOKUPS_MAX = 2;

/** The result of evaluating a domain's one record for our servers. */
export type SpfEvaluation =
  /** Each of our servers passes, whether by our include or by other terms. */
  | { readonly kind: 'allowed' }
  /** One of our servers does not pass; its address is undefined where none is known. */
  | { readonly kind: 'refused'; readonly address: string | undefined }
  | { readonly kind: 'too_many_lookups' | 'too_many_void_lookups' }
  /** Any other permanent error; `text` says which. */
  | { readonly kind: 'broken'; readonly text: string }
  | { readonly kind: 'unanswered'; readonly name: string; readonly reason: string };

/** RFC 7208 section 4.5: the version, then a space or the end. */
const VERSION = /^v=spf1(?: |$)/i;

/** The SPF records of a domain. */
export function spfRecordsOf(txt: DnsAnswer<'TXT'>): string[] {
  return txt.kind === 'records' ? txt.records.filter((record) => VERSION.test(record)) : [];
}

/**
 * @param include name that our record includes
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

/** No SPF record: mostly none at all, or a typing error in its first word. */
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

/* Evaluates a domain's SPF record for our servers. */

/** What is known about our servers. */
export interface OurServers {
  /** Our host: the name that our servers use in HELO. */
  readonly hostname: string;
  /** Every A and AAAA address of it; empty where DNS has none, or did not answer. */
  readonly addresses: readonly string[];
  /** Why DNS did not answer for the addresses; undefined where it did. */
  readonly unanswered?: string | undefined;
}

/**
 * An address that no host has (RFC 7600), to evaluate records where our addresses are not known: then it passes only by
 * our include.
 */
const NO_ADDRESS = '192.0.0.8';

interface Evaluation extends SpfEvaluated {
  /** Whether the include with the assumed record was evaluated. */
  readonly reached: boolean;
  /** The lookup that made it a temporary error. */
  readonly failed: { readonly name: string; readonly reason: string } | undefined;
}

/**
 * Evaluates the record of `domain` for each of our addresses.
 *
 * Our own include is assumed to be correct: the operator has to fix it, not the owner of the zone. The rest of the
 * record is evaluated as receivers do, so an include that is never reached, or is reached with a qualifier other than
 * `+`, does not count.
 *
 * @param include the name that the record has to include
 */
export async function evaluateSpf(
  dns: DnsLookup,
  domain: string,
  include: string,
  ours: OurServers,
): Promise<SpfEvaluation> {
  const addresses = ours.addresses.length > 0 ? ours.addresses : [NO_ADDRESS];
  for (const address of addresses) {
    const evaluation = await evaluate(dns, domain, address, ours.hostname, {
      name: include,
      record: 'v=spf1 +all',
    });
    const { failed } = evaluation;
    if (evaluation.result === 'temperror') {
      return {
        kind: 'unanswered',
        name: failed?.name ?? domain,
        reason: failed?.reason ?? 'error',
      };
    }
    if (evaluation.result === 'permerror') return toError(evaluation);
    const real = address !== NO_ADDRESS;
    if (evaluation.result !== 'pass' || !(real || evaluation.reached)) {
      return !real && ours.unanswered !== undefined
        ? { kind: 'unanswered', name: ours.hostname, reason: ours.unanswered }
        : { kind: 'refused', address: real ? address : undefined };
    }
    // Receivers also make the lookups inside our include (RFC 7208 section 4.6.4).
    const within = evaluation.reached ? await costOf(dns, include, address, ours.hostname) : 0;
    if (evaluation.lookups + within > LOOKUPS_MAX) return { kind: 'too_many_lookups' };
  }
  return { kind: 'allowed' };
}

function toError(evaluation: Evaluation): SpfEvaluation {
  if (evaluation.lookups > LOOKUPS_MAX) return { kind: 'too_many_lookups' };
  if (evaluation.voidLookups > VOID_LOOKUPS_MAX) return { kind: 'too_many_void_lookups' };
  const { comment } = evaluation;
  const text = comment.slice(comment.indexOf(TEXT_AFTER) + TEXT_AFTER.length);
  return { kind: 'broken', text: text.replace(/^\S+: /, '') };
}

/**
 * The lookups that our include needs for an address, without that of the include itself; 0 where it cannot be
 * evaluated. It is evaluated through a record that includes it, since its name may be one that no sender can have
 * (`_spf.example.com`).
 */
async function costOf(
  dns: DnsLookup,
  include: string,
  address: string,
  hostname: string,
): Promise<number> {
  const { result, lookups } = await evaluate(dns, ASKING, address, hostname, {
    name: ASKING,
    record: `v=spf1 include:${include} -all`,
  });
  return result === 'pass' || result === 'fail' ? lookups - 1 : 0;
}

/** A name that never exists in DNS (RFC 6761 section 6.4). */
const ASKING = 'spf.invalid';

/** @param given the assumed TXT record of one name, used in place of DNS */
async function evaluate(
  dns: DnsLookup,
  domain: string,
  ip: string,
  helo: string,
  given: { readonly name: string; readonly record: string },
): Promise<Evaluation> {
  let reached = false;
  let failed: Evaluation['failed'];
  const ask = async (name: string, type: SpfType): Promise<DnsAnswer<SpfType>> => {
    if (type === 'TXT' && name.toLowerCase() === given.name) {
      reached = true;
      return { kind: 'records', records: [given.record] };
    }
    const answer = await dns.lookup(name, type);
    if (answer.kind === 'unanswered') failed ??= { name, reason: answer.reason };
    return answer;
  };
  const sender = `postmaster@${domain}`;
  const evaluated = await evaluateRecord({ sender, ip, helo, mta: helo, ask });
  return { ...evaluated, reached, failed };
}

/** In the library's comment the error follows these words and the sender. */
const TEXT_AFTER = 'during lookup of ';

/* The addresses from which we send mail. */

/** They are the same for every domain, so they are cached. */
const KEPT_MS = 60_000;
/** SPF records are evaluated for each address; no operator has more mail hosts behind one name. */
const ADDRESSES_MAX = 16;

/** Finds the A and AAAA addresses of our host, and caches them for a minute. */
export function createOurServers(
  dns: DnsLookup,
  hostname: string,
  now: () => EpochMs,
): () => Promise<OurServers> {
  let kept: { readonly at: number; readonly servers: Promise<OurServers> } | undefined;
  return () => {
    if (!kept || now() - kept.at >= KEPT_MS || now() < kept.at) {
      const found = { at: now(), servers: findServers(dns, hostname) };
      kept = found;
      // A failed lookup is made again the next time.
      const forget = () => {
        if (kept === found) kept = undefined;
      };
      found.servers.then(({ unanswered }) => unanswered !== undefined && forget(), forget);
    }
    return kept.servers;
  };
}

async function findServers(dns: DnsLookup, hostname: string): Promise<OurServers> {
  const answers: readonly DnsAnswer<'A' | 'AAAA'>[] = await Promise.all([
    dns.lookup(hostname, 'A'),
    dns.lookup(hostname, 'AAAA'),
  ]);
  for (const answer of answers) {
    // With only some of them, a record that leaves out the others would pass.
    if (answer.kind === 'unanswered') {
      return { hostname, addresses: [], unanswered: answer.reason };
    }
  }
  const addresses = answers.flatMap((answer) => (answer.kind === 'records' ? answer.records : []));
  return { hostname, addresses: addresses.slice(0, ADDRESSES_MAX) };
}
