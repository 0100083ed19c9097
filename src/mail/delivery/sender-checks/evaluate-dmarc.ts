/**
 * The verdict of DMARC, from the identifiers that are aligned with the author (RFC 7489).
 *
 * Decided here where the RFC leaves it open (section 6.6.1):
 * - Several From fields, or several authors in one: each domain is evaluated, and the strictest
 *   policy among those that fail is applied. A signature must cover every From field to count, and every other
 *   repeated field that readers show.
 * - No From, or none with an address (a group, a bare name): the message claims no domain, so the result is `none`,
 *   and the message goes to Junk. So does one with a line that only some readers see as a From field.
 * - No answer to a lookup that could have given an aligned pass: where the policy is known to be `quarantine` or
 *   `reject`, the message is deferred (RFC 7489 section 6.6.3 leaves it to us). Else a sender could choose names whose
 *   servers do not answer, and would be accepted. So is one that the organization's policy would not accept, where the
 *   question for the author's own record was not answered: any subdomain with dead servers would do for a forgery.
 * - More authors than are evaluated, or a From field longer than any honest one: one of the authors may be
 *   a victim of forgery, so the result is `permerror` and the message is refused.
 */

import { organizationalDomain, parseTagList } from '../../../protocols/message/message.ts';
import { type LookupAnswer, textRecords } from './lookups.ts';
import type {
  DkimVerdict,
  DmarcPolicy,
  DmarcResult,
  DmarcVerdict,
  SenderAction,
  SpfVerdict,
} from './verdicts.ts';

/** What was found out about who sent the message, before it is compared with the author. */
export interface Identifiers {
  readonly spf: SpfVerdict;
  readonly signatures: readonly (Pick<DkimVerdict, 'domain' | 'result'> & {
    /** Whether it covers every From field, and every repeated field that readers show. */
    readonly coversShown: boolean;
  })[];
}

export interface AuthorVerdict extends DmarcVerdict {
  /** What is applied; weaker than the policy where its owner wants that (pct=, t=y). */
  readonly action: SenderAction;
}

export function isAligned(identifier: string, author: string, isStrict: boolean): boolean {
  if (identifier === '') return false;
  if (identifier === author) return true;
  return !isStrict && organizationalDomain(identifier) === organizationalDomain(author);
}

const actions = { none: 'accept', quarantine: 'quarantine', reject: 'reject' } as const;
const weaker = { none: 'none', quarantine: 'none', reject: 'quarantine' } as const;

/**
 * Evaluates one author domain.
 *
 * @param pctSample a number from 0 to under 1, for policies that apply to a part of the mail
 */
export function evaluateAuthor(
  domain: string,
  discovery: PolicyDiscovery,
  identifiers: Identifiers,
  pctSample: number,
): AuthorVerdict {
  const { above } = discovery.kind === 'unanswered' ? discovery : {};
  if (above) {
    const inherited = { kind: 'record', record: above, isOwn: false } as const;
    const { action } = evaluateAuthor(domain, inherited, identifiers, pctSample);
    const isOpen = action !== 'accept';
    return { domain, result: 'temperror', policy: 'none', action: isOpen ? 'defer' : 'accept' };
  }
  if (discovery.kind !== 'record') {
    const result = { none: 'none', invalid: 'permerror', unanswered: 'temperror' } as const;
    return { domain, result: result[discovery.kind], policy: 'none', action: 'accept' };
  }
  const { record, isOwn } = discovery;
  const policy = isOwn ? record.policy : record.subdomainPolicy;
  const result = compare(domain, record, identifiers);
  const asked = result === 'pass' ? 'accept' : actions[appliedPolicy(policy, record, pctSample)];
  const action = result === 'temperror' && asked !== 'accept' ? 'defer' : asked;
  return { domain, result, policy, action };
}

function appliedPolicy(policy: DmarcPolicy, record: DmarcRecord, pctSample: number): DmarcPolicy {
  const asked = record.isTest ? weaker[policy] : policy;
  // RFC 7489 section 6.6.4: the rest gets the next weaker policy.
  return pctSample * 100 < record.percent ? asked : weaker[asked];
}

/** RFC 7489 section 6.6.2 step 6. */
function compare(
  author: string,
  record: DmarcRecord,
  { spf, signatures }: Identifiers,
): 'pass' | 'fail' | 'temperror' {
  const results: string[] = [];
  if (isAligned(spf.domain, author, record.strictSpf)) results.push(spf.result);
  for (const { domain, result, coversShown } of signatures) {
    if (coversShown && isAligned(domain, author, record.strictDkim)) results.push(result);
  }
  if (results.includes('pass')) return 'pass';
  // A temporary error counts only where its identifier could have passed.
  return results.includes('temperror') ? 'temperror' : 'fail';
}

const actionOrder: readonly SenderAction[] = ['accept', 'quarantine', 'defer', 'reject'];
const resultOrder: readonly DmarcResult[] = ['pass', 'none', 'temperror', 'permerror', 'fail'];

/** The deciding verdict: of the strictest action, and among those the worst result. */
export function decidingVerdict(verdicts: readonly AuthorVerdict[]): AuthorVerdict | undefined {
  const weight = ({ action, result }: AuthorVerdict) =>
    actionOrder.indexOf(action) * resultOrder.length + resultOrder.indexOf(result);
  return verdicts.reduce<AuthorVerdict | undefined>(
    (worst, verdict) => (worst && weight(worst) >= weight(verdict) ? worst : verdict),
    undefined,
  );
}

/* The policy that a domain publishes for mail in its name (RFC 7489 section 6.3 and 6.6.3). */

export interface DmarcRecord {
  /** For the domain that published the record (p=). */
  readonly policy: DmarcPolicy;
  /** For the domains below it (sp=). */
  readonly subdomainPolicy: DmarcPolicy;
  /** Whether a signing domain must be the author's own (adkim=s), or only share its organization. */
  readonly strictDkim: boolean;
  /** The same for the domain of SPF (aspf=s). */
  readonly strictSpf: boolean;
  /** The percentage of failing messages that the policy applies to (pct=). */
  readonly percent: number;
  /** The owner asks for the next weaker policy (t=y, RFC 9989 section 4.7). */
  readonly isTest: boolean;
}

export type PolicyDiscovery =
  | { readonly kind: 'record'; readonly record: DmarcRecord; readonly isOwn: boolean }
  /** Neither domain publishes a record, or one publishes several. */
  | { readonly kind: 'none' }
  /** There is a record, but it has no usable policy. */
  | { readonly kind: 'invalid' }
  | {
      readonly kind: 'unanswered';
      /** The organization's record, where only the domain's own is not known. */
      readonly above?: DmarcRecord;
    };

/** RFC 7489 section 6.4: the version comes first, its value in upper case, its tag in any case. */
const VERSION = /^[vV][ \t]*=[ \t]*DMARC1[ \t]*(?:;|$)/;
const REPORT_URI = /^[ \t]*[a-z][a-z\d+.-]*:[!-~]/i;

function isPolicy(text: string | undefined): text is DmarcPolicy {
  return text === 'none' || text === 'quarantine' || text === 'reject';
}

/** Tags by name in lower case; undefined where a name occurs twice (RFC 6376 section 3.2). */
function readTags(record: string): Map<string, string> | undefined {
  const { tags, repeated } = parseTagList(record);
  const lower = new Map(Array.from(tags, ([name, value]) => [name.toLowerCase(), value]));
  return repeated === undefined && lower.size === tags.size ? lower : undefined;
}

function readPolicies(
  tags: ReadonlyMap<string, string>,
): Pick<DmarcRecord, 'policy' | 'subdomainPolicy'> | undefined {
  const policy = tags.get('p')?.toLowerCase();
  const subdomainPolicy = tags.get('sp')?.toLowerCase() ?? policy;
  if (isPolicy(policy) && isPolicy(subdomainPolicy)) return { policy, subdomainPolicy };
  // RFC 7489 section 6.6.3 step 6: a record that asks for reports counts as p=none.
  const wantsReports = tags
    .get('rua')
    ?.split(',')
    .some((uri) => REPORT_URI.test(uri));
  return wantsReports ? { policy: 'none', subdomainPolicy: 'none' } : undefined;
}

/** @returns undefined where the record has no usable policy */
export function parseDmarcRecord(text: string): DmarcRecord | undefined {
  const tags = readTags(text);
  const policies = tags && readPolicies(tags);
  if (!policies) return undefined;
  const pct = tags.get('pct') ?? '';
  return {
    ...policies,
    strictDkim: tags.get('adkim')?.toLowerCase() === 's',
    strictSpf: tags.get('aspf')?.toLowerCase() === 's',
    percent: /^\d{1,3}$/.test(pct) ? Math.min(Number(pct), 100) : 100,
    isTest: tags.get('t')?.toLowerCase() === 'y',
  };
}

/**
 * Finds the record that applies to an author domain: its own, or its organization's.
 *
 * Both are looked up at once; the second counts only where the first has none.
 */
export async function discoverPolicy(
  domain: string,
  ask: (name: string) => Promise<LookupAnswer>,
): Promise<PolicyDiscovery> {
  const organization = organizationalDomain(domain);
  const inherited = domain === organization ? undefined : ask(`_dmarc.${organization}`);
  const own = readAnswer(await ask(`_dmarc.${domain}`), true);
  if (own && own.kind !== 'unanswered') return own;
  const above = inherited && readAnswer(await inherited, false);
  if (!own) return above ?? { kind: 'none' };
  return above?.kind === 'record' ? { ...own, above: above.record } : own;
}

/** @returns undefined where there is no record */
function readAnswer(answer: LookupAnswer, isOwn: boolean): PolicyDiscovery | undefined {
  if (answer.kind === 'unanswered') return { kind: 'unanswered' };
  const [first, ...more] = textRecords(answer).filter((text) => VERSION.test(text));
  if (first === undefined) return undefined;
  // RFC 7489 section 6.6.3 step 5: where there are several, none applies.
  if (more.length > 0) return { kind: 'none' };
  const record = parseDmarcRecord(first);
  return record ? { kind: 'record', record, isOwn } : { kind: 'invalid' };
}
