/**
 * The verdict of DMARC, from the identifiers that are aligned with the author (RFC 7489).
 *
 * Decided here where the RFC leaves it open (section 6.6.1):
 * - Several From fields, or several authors in one: each domain is evaluated, and the strictest
 *   policy among those that fail is applied. A signature must cover every From field to count.
 * - No From, or none with a domain (a group, a bare name): nobody's domain is claimed, so the
 *   result is `none` and the message is taken.
 * - More authors than are evaluated, or a From field longer than any honest one: one of them may be
 *   somebody who would not have it, so the result is `permerror` and the message is refused.
 */
import { type DmarcRecord, organizationalDomain, type PolicyDiscovery } from './dmarc-record.ts';
import type { DkimResult, DmarcPolicy, DmarcResult, SenderAction, SpfResult } from './verdicts.ts';

/** What was found out about who sent the message, before it is compared with the author. */
export interface Identifiers {
  readonly spf: { readonly domain: string; readonly result: SpfResult };
  readonly signatures: readonly {
    readonly domain: string;
    readonly result: DkimResult;
    /** Whether it covers every From field. */
    readonly coversAuthors: boolean;
  }[];
}

export interface AuthorVerdict {
  readonly domain: string;
  readonly result: DmarcResult;
  /** What the domain asks for. */
  readonly policy: DmarcPolicy;
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
 * @param draw a number from 0 to under 1, for policies that are for a part of the mail
 */
export function evaluateAuthor(
  domain: string,
  discovery: PolicyDiscovery,
  identifiers: Identifiers,
  draw: number,
): AuthorVerdict {
  if (discovery.kind !== 'record') {
    const result = { none: 'none', invalid: 'permerror', unanswered: 'temperror' } as const;
    return { domain, result: result[discovery.kind], policy: 'none', action: 'accept' };
  }
  const { record, isOwn } = discovery;
  const policy = isOwn ? record.policy : record.subdomainPolicy;
  const result = compare(domain, record, identifiers);
  const action = result === 'fail' ? actions[appliedPolicy(policy, record, draw)] : 'accept';
  return { domain, result, policy, action };
}

function appliedPolicy(policy: DmarcPolicy, record: DmarcRecord, draw: number): DmarcPolicy {
  const asked = record.isTest ? weaker[policy] : policy;
  // RFC 7489 section 6.6.4: the others get the next lower policy.
  return draw * 100 < record.percent ? asked : weaker[asked];
}

/** RFC 7489 section 6.6.2 step 6. */
function compare(
  author: string,
  record: DmarcRecord,
  { spf, signatures }: Identifiers,
): 'pass' | 'fail' | 'temperror' {
  const results: string[] = [];
  if (isAligned(spf.domain, author, record.strictSpf)) results.push(spf.result);
  for (const { domain, result, coversAuthors } of signatures) {
    if (coversAuthors && isAligned(domain, author, record.strictDkim)) results.push(result);
  }
  if (results.includes('pass')) return 'pass';
  // Only what could have passed makes the failure a temporary one.
  return results.includes('temperror') ? 'temperror' : 'fail';
}

const actionOrder: readonly SenderAction[] = ['accept', 'quarantine', 'reject'];
const resultOrder: readonly DmarcResult[] = ['pass', 'none', 'temperror', 'permerror', 'fail'];

/** The verdict that decides: of the strictest action, and among those the worst result. */
export function decidingVerdict(verdicts: readonly AuthorVerdict[]): AuthorVerdict | undefined {
  const weight = ({ action, result }: AuthorVerdict) =>
    actionOrder.indexOf(action) * resultOrder.length + resultOrder.indexOf(result);
  return verdicts.reduce<AuthorVerdict | undefined>(
    (worst, verdict) => (worst && weight(worst) >= weight(verdict) ? worst : verdict),
    undefined,
  );
}
