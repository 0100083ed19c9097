/** The policy that a domain publishes for mail in its name (RFC 7489 section 6.3 and 6.6.3). */
import { getDomain } from 'tldts';
import { parseTagList } from '../../message/message.ts';
import { type LookupAnswer, textRecords } from './lookup.ts';
import type { DmarcPolicy } from './verdicts.ts';

export interface DmarcRecord {
  /** For the domain that published the record (p=). */
  readonly policy: DmarcPolicy;
  /** For the domains below it (sp=). */
  readonly subdomainPolicy: DmarcPolicy;
  /** Whether signing domains must be the author's own (adkim=s), or share its organization. */
  readonly strictDkim: boolean;
  /** The same for the domain of SPF (aspf=s). */
  readonly strictSpf: boolean;
  /** Of a hundred messages that fail, how many the policy is for (pct=). */
  readonly percent: number;
  /** The owner asks for the next lower policy (t=y, RFC 9989 section 4.7). */
  readonly isTest: boolean;
}

export type PolicyDiscovery =
  | { readonly kind: 'record'; readonly record: DmarcRecord; readonly isOwn: boolean }
  /** No domain that counts publishes a record, or one publishes several. */
  | { readonly kind: 'none' }
  /** There is a record that says nothing that could be applied. */
  | { readonly kind: 'invalid' }
  | { readonly kind: 'unanswered' };

/** RFC 7489 section 6.4: the version comes first and is exactly so, the tag in any case. */
const VERSION = /^[vV][ \t]*=[ \t]*DMARC1[ \t]*(?:;|$)/;
const REPORT_URI = /^[ \t]*[a-z][a-z\d+.-]*:[!-~]/i;

function isPolicy(text: string | undefined): text is DmarcPolicy {
  return text === 'none' || text === 'quarantine' || text === 'reject';
}

/** Tags by name in lower case; undefined where one stands twice (RFC 6376 section 3.2). */
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
  // RFC 7489 section 6.6.3 step 6: who asks for reports is taken to mean p=none.
  const wantsReports = tags
    .get('rua')
    ?.split(',')
    .some((uri) => REPORT_URI.test(uri));
  return wantsReports ? { policy: 'none', subdomainPolicy: 'none' } : undefined;
}

/** @returns undefined where the record has no policy that could be applied */
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
 * The domain an organization has registered (RFC 7489 section 3.2), by the public suffix list with
 * its private part: customers of a hosting company are not one organization.
 */
export function organizationalDomain(domain: string): string {
  return getDomain(domain, { allowPrivateDomains: true }) ?? domain;
}

/**
 * Finds the record that holds for an author domain: its own, or its organization's.
 *
 * Both are asked for at once; the second counts only where it is needed.
 */
export async function discoverPolicy(
  domain: string,
  ask: (name: string) => Promise<LookupAnswer>,
): Promise<PolicyDiscovery> {
  const organization = organizationalDomain(domain);
  const inherited = domain === organization ? undefined : ask(`_dmarc.${organization}`);
  const own = readAnswer(await ask(`_dmarc.${domain}`), true);
  if (own) return own;
  return (inherited && readAnswer(await inherited, false)) ?? { kind: 'none' };
}

/** @returns undefined where there is no record */
function readAnswer(answer: LookupAnswer, isOwn: boolean): PolicyDiscovery | undefined {
  if (answer.kind === 'unanswered') return { kind: 'unanswered' };
  const [first, ...more] = textRecords(answer).filter((text) => VERSION.test(text));
  if (first === undefined) return undefined;
  // RFC 7489 section 6.6.3 step 5: of several none is applied.
  if (more.length > 0) return { kind: 'none' };
  const record = parseDmarcRecord(first);
  return record ? { kind: 'record', record, isOwn } : { kind: 'invalid' };
}
