/** From all that was found out about a message to what is to be done with it. */
import type { Authors, Header } from '../../message/message.ts';
import { formatAuthenticationResults } from './authentication-results.ts';
import type { PolicyDiscovery } from './dmarc-record.ts';
import {
  type AuthorVerdict,
  decidingVerdict,
  evaluateAuthor,
  isAligned,
} from './evaluate-dmarc.ts';
import type { SendingClient } from './evaluate-spf.ts';
import { survivesForwarding } from './survive-forwarding.ts';
import type { DmarcVerdict, Judgement, SenderAction, SpfVerdict } from './verdicts.ts';
import type { SignatureFinding, SignatureFindings } from './verify-signatures.ts';

export interface Evidence {
  readonly client: SendingClient;
  readonly header: Header;
  readonly authors: Authors;
  /** One for each author domain. */
  readonly policies: readonly PolicyDiscovery[];
  readonly spf: SpfVerdict;
  readonly found: SignatureFindings;
  /** Whether an Authentication-Results field was removed. */
  readonly removedResults: boolean;
}

export interface JudgeOptions {
  /** Our authserv-id. */
  readonly hostname: string;
  readonly enforce: boolean;
  /** From 0 to under 1. */
  readonly draw: number;
}

/** An author domain and how strictly it wants signing domains to be its own. */
interface Author {
  readonly domain: string;
  readonly strictDkim: boolean;
}

function authorsOf({ authors, policies }: Evidence): Author[] {
  return authors.domains.map((domain, index) => {
    const policy = policies[index];
    return { domain, strictDkim: policy?.kind === 'record' && policy.record.strictDkim };
  });
}

/**
 * Whether a signature covers every From field. Each mention of a name in h= covers one field, from
 * the bottom up (RFC 6376 section 5.4.2), and mail readers show the one they like.
 */
function coversAuthors({ signedFields }: SignatureFinding, { fields }: Header): boolean {
  const count = fields.filter(({ name }) => name === 'from').length;
  return signedFields.filter((name) => name === 'from').length >= count;
}

function judgeAuthors(evidence: Evidence, draw: number): AuthorVerdict[] {
  const { authors, policies, spf, found, header } = evidence;
  const signatures = found.signatures.map((finding) => ({
    domain: finding.domain,
    result: finding.result,
    coversAuthors: coversAuthors(finding, header),
  }));
  return authors.domains.map((domain, index) =>
    evaluateAuthor(domain, policies[index] ?? { kind: 'none' }, { spf, signatures }, draw),
  );
}

/** The verdict on a message that names no author domain. */
const nobody: AuthorVerdict = { domain: '', policy: 'none', result: 'none', action: 'accept' };

function judgeMessage(
  authors: Authors,
  verdicts: readonly AuthorVerdict[],
): { dmarc: DmarcVerdict; action: SenderAction } {
  const { domain, policy, result, action } = decidingVerdict(verdicts) ?? nobody;
  if (authors.isWhole) return { dmarc: { result, policy, domain }, action };
  return { dmarc: { result: 'permerror', policy, domain }, action: 'reject' };
}

/** Whether what a signature speaks for is every author. */
function speaksForAll(finding: SignatureFinding, authors: readonly Author[]): boolean {
  return (
    authors.length > 0 &&
    authors.every(({ domain, strictDkim }) => isAligned(finding.domain, domain, strictDkim))
  );
}

/** Judges a message by what was found. */
export function judgeSender(evidence: Evidence, options: JudgeOptions): Judgement {
  const { authors, client, found, header, removedResults, spf } = evidence;
  const everyAuthor = authorsOf(evidence);
  const authorVerdicts = judgeAuthors(evidence, options.draw);
  const { dmarc, action } = judgeMessage(authors, authorVerdicts);
  const authenticationResults = formatAuthenticationResults(options.hostname, {
    spf,
    isHelo: client.from === '',
    signatures: found.signatures,
    authors: authorVerdicts,
    authorsUnknown: authors.isWhole ? undefined : 'unclear authors',
    arc: found.arc,
    remoteAddress: client.remoteAddress,
  });
  return {
    spf,
    dkim: found.signatures.map(({ result, domain, selector }) => ({
      result,
      domain,
      selector,
      aligned: everyAuthor.some((author) => isAligned(domain, author.domain, author.strictDkim)),
    })),
    dmarc,
    arc: found.arc,
    action: action === 'reject' && !options.enforce ? 'quarantine' : action,
    survivesForwarding: found.signatures.some(
      (finding) =>
        coversAuthors(finding, header) &&
        speaksForAll(finding, everyAuthor) &&
        survivesForwarding(finding, header, removedResults),
    ),
    authenticationResults,
  };
}
