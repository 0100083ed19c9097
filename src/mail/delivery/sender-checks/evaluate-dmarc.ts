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
    const inherited = { kind: 'record', record: above, for: 'below' } as const;
    const { action } = evaluateAuthor(domain, inherited, identifiers, pctSample);
    const isOpen = action !== 'accept';
    return { domain, result: 'temperror', policy: 'none', action: isOpen ? 'defer' : 'accept' };
  }
  if (discovery.kind !== 'record') {
    const result = { none: 'none', invalid: 'permerror', unanswered: 'temperror' } as const;
    return { domain, result: result[discovery.kind], policy: 'none', action: 'accept' };
  }
  const { record } = discovery;
  const policy = record.policies[discovery.for];
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

/* The policy that a domain publishes for mail in its name (RFC 7489 section 6.3 and 6.6.3, RFC 9989 section 4.7 to 4.10). */

/** The domains that a record has policies for: its own (p=), those below it (sp=), and those of them that are not in DNS (np=). */
type Covered = 'own' | 'below' | 'absent';

export interface DmarcRecord {
  readonly policies: Readonly<Record<Covered, DmarcPolicy>>;
  /** Whether its domain is a registry's, such as `gov.uk` (psd=y), or an organization, whatever is above it (psd=n). */
  readonly psd?: 'y' | 'n';
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
  | { readonly kind: 'record'; readonly record: DmarcRecord; readonly for: Covered }
  /** No domain publishes a record, or one publishes several. */
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

function readPolicies(tags: ReadonlyMap<string, string>): DmarcRecord['policies'] | undefined {
  const own = tags.get('p')?.toLowerCase();
  const below = tags.get('sp')?.toLowerCase() ?? own;
  const absent = tags.get('np')?.toLowerCase();
  if (isPolicy(own) && isPolicy(below)) {
    return { own, below, absent: isPolicy(absent) ? absent : below };
  }
  // RFC 7489 section 6.6.3 step 6: a record that asks for reports counts as p=none.
  const wantsReports = tags
    .get('rua')
    ?.split(',')
    .some((uri) => REPORT_URI.test(uri));
  return wantsReports ? { own: 'none', below: 'none', absent: 'none' } : undefined;
}

/** @returns undefined where the record has no usable policy */
export function parseDmarcRecord(text: string): DmarcRecord | undefined {
  const tags = readTags(text);
  const policies = tags && readPolicies(tags);
  if (!policies) return undefined;
  const pct = tags.get('pct') ?? '';
  const psd = tags.get('psd')?.toLowerCase();
  return {
    policies,
    ...((psd === 'y' || psd === 'n') && { psd }),
    strictDkim: tags.get('adkim')?.toLowerCase() === 's',
    strictSpf: tags.get('aspf')?.toLowerCase() === 's',
    percent: /^\d{1,3}$/.test(pct) ? Math.min(Number(pct), 100) : 100,
    isTest: tags.get('t')?.toLowerCase() === 'y',
  };
}

/** Asks DNS. */
type Ask = (name: string, type: 'TXT' | 'A' | 'AAAA' | 'MX') => Promise<LookupAnswer>;

/**
 * Finds the record that applies to an author domain: its own, its organization's, or that of another domain above it.
 *
 * The first two are looked up at once; the second counts only where the first has none. The others are looked up where
 * neither has any, so that most mail costs no more. The public suffix list says which domain is the organization.
 */
export async function discoverPolicy(domain: string, ask: Ask): Promise<PolicyDiscovery> {
  const organization = organizationalDomain(domain);
  const inherited = domain === organization ? undefined : ask(`_dmarc.${organization}`, 'TXT');
  const own = readAnswer(await ask(`_dmarc.${domain}`, 'TXT'), 'own');
  if (own && own.kind !== 'unanswered') return own;
  const above = inherited && readAnswer(await inherited, 'below');
  if (own) return above?.kind === 'record' ? { ...own, above: above.record } : own;
  const found = above ?? (await walkTree(domain, organization, ask));
  if (found.kind !== 'record' || !(await isForAbsent(found.record, domain, ask))) return found;
  return { ...found, for: 'absent' };
}

/** The most labels of a name in the tree, apart from the author domain itself (RFC 9989 section 4.10). */
const TREE_LABELS = 7;

/**
 * The other domains of the tree (RFC 9989 section 4.10): those between, and those above, such as `gov.uk`. The shortest
 * counts, unless one says that it is an organization, or a registry.
 */
async function walkTree(domain: string, organization: string, ask: Ask): Promise<PolicyDiscovery> {
  const labels = domain.split('.');
  const names = labels.map((_, at) => labels.slice(at).join('.')).slice(-TREE_LABELS);
  const others = names.filter((name) => name !== domain && name !== organization);
  const answers = await Promise.all(
    others.map(async (name) => readAnswer(await ask(`_dmarc.${name}`, 'TXT'), 'below')),
  );
  let found: PolicyDiscovery | undefined;
  for (const answer of answers) {
    if (!answer || answer.kind === 'none' || answer.kind === 'unanswered') continue;
    const psd = answer.kind === 'record' ? answer.record.psd : undefined;
    if (psd === 'y') return found ?? answer;
    found = answer;
    if (psd === 'n') break;
  }
  const isUnknown = answers.some((answer) => answer?.kind === 'unanswered');
  return found ?? { kind: isUnknown ? 'unanswered' : 'none' };
}

/** Whether the policy for domains that are not in DNS applies (RFC 9989 section 4.7, tag np). */
async function isForAbsent({ policies }: DmarcRecord, domain: string, ask: Ask): Promise<boolean> {
  if (policies.absent === policies.below) return false;
  const types = ['A', 'AAAA', 'MX'] as const;
  const answers = await Promise.all(types.map((type) => ask(domain, type)));
  return answers.every(({ kind }) => kind === 'absent');
}

/** @returns undefined where there is no record */
function readAnswer(answer: LookupAnswer, covered: Covered): PolicyDiscovery | undefined {
  if (answer.kind === 'unanswered') return { kind: 'unanswered' };
  const [first, ...more] = textRecords(answer).filter((text) => VERSION.test(text));
  if (first === undefined) return undefined;
  // RFC 7489 section 6.6.3 step 5: where there are several, none applies.
  if (more.length > 0) return { kind: 'none' };
  const record = parseDmarcRecord(first);
  return record ? { kind: 'record', record, for: covered } : { kind: 'invalid' };
}
