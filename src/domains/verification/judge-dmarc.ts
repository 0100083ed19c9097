/** Whether a DMARC policy covers a domain (RFC 7489 sections 6.3 and 6.6.3). */
import type { DnsAnswer } from '../../dns/dns.ts';
import { parseTagList, trimSpace } from '../../message/message.ts';
import { listTexts, NO_RECORD, showText, unanswered, type Verdict } from './verdict.ts';

/** What one `_dmarc` name turned out to have. */
export interface PolicyAnswer {
  /** The domain whose policy it is. */
  readonly domain: string;
  readonly txt: DnsAnswer<'TXT'>;
}

const POLICIES = ['none', 'quarantine', 'reject'];

/**
 * RFC 7489 section 6.6.3 step 2: records that do not begin with `v=DMARC1` are none of DMARC. The
 * version is upper case, white space around `=` is fine (section 6.4).
 */
const VERSION = /^v[ \t]*=[ \t]*DMARC1[ \t]*(?:;|$)/;

/** Whether the domain's own name has a policy, so that its organization's is not asked for. */
export function hasPolicy(txt: DnsAnswer<'TXT'>): boolean {
  return txt.kind === 'records' && txt.records.some(isPolicy);
}

const isPolicy = (record: string) => VERSION.test(record);

/**
 * @param own of the domain itself
 * @param organization of its organizational domain (RFC 7489 section 3.2), asked where the domain is
 *   not that and has no policy of its own
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

/** The verdict by what one name has; undefined where it has no policy at all. */
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
  const problem = findProblem(policy);
  return problem === undefined
    ? { outcome: 'match', observed: showText(policy), detail: `${domain} has a DMARC policy.` }
    : { outcome: 'mismatch', observed: showText(policy), detail: problem };
}

/** Parts that cannot be read are passed over (RFC 7489 section 6.3), but not a tag that is there twice. */
function findProblem(record: string): string | undefined {
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
  // RFC 7489 section 6.6.3 step 6: an sp= that is not valid makes the record as good as none.
  const forSubdomains = tags.get('sp')?.toLowerCase();
  if (forSubdomains !== undefined && !POLICIES.includes(forSubdomains)) {
    return `The DMARC record has the subdomain policy sp=${showText(forSubdomains).slice(0, 40)}: write none, quarantine or reject, or remove sp=.`;
  }
  return undefined;
}

/** Records at the name that are none of DMARC: mostly a slip in the first word. */
function describeOther(records: readonly string[], domain: string): string {
  const meant = records.find((record) => /dmarc/i.test(record));
  if (meant === undefined) {
    return `The TXT record at _dmarc.${domain} is no DMARC record: add the one that is asked for.`;
  }
  return trimSpace(meant).startsWith('"')
    ? 'The DMARC record holds quotation marks as part of its text: enter it without them.'
    : 'The DMARC record must begin with v=DMARC1 followed by a semicolon: replace it by the one that is asked for.';
}
