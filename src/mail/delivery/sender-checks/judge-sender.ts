/**
 * Decides from the results of the checks what to do with a message, and writes the field that reports them to
 * readers.
 */
import {
  type Authors,
  decodeRawHeader,
  type Header,
  type HeaderField,
  hiddenFields,
  rawValue,
  toDnsName,
} from '../../../protocols/message/message.ts';
import {
  type AuthorVerdict,
  decidingVerdict,
  evaluateAuthor,
  isAligned,
  type PolicyDiscovery,
} from './evaluate-dmarc.ts';
import type {
  ArcVerdict,
  DmarcVerdict,
  Judgement,
  SenderAction,
  SendingClient,
  SpfVerdict,
} from './verdicts.ts';
import {
  type SignatureFinding,
  type SignatureFindings,
  survivesForwarding,
} from './verify-signatures.ts';

export interface CheckResults {
  readonly client: SendingClient;
  readonly header: Header;
  readonly authors: Authors;
  /** One for each author domain. */
  readonly policies: readonly PolicyDiscovery[];
  readonly spf: SpfVerdict;
  readonly found: SignatureFindings;
  /** Whether an Authentication-Results field was removed. */
  readonly removedResults: boolean;
  /** Whether a lookup that decides was lost among many: those of the client, those of the authors, or of all. */
  readonly isLost: boolean;
  /** Whether DNS is found dead: then mail is accepted unchecked. */
  readonly dnsIsDown: boolean;
}

export interface JudgeOptions {
  /** Our authserv-id. */
  readonly hostname: string;
  readonly enforce: boolean;
  /** From 0 to under 1. */
  readonly pctSample: number;
}

/** An author domain and how strictly it wants signing domains to be its own. */
interface Author {
  readonly domain: string;
  readonly strictDkim: boolean;
}

function authorsOf({ authors, policies }: CheckResults): Author[] {
  return authors.domains.map((domain, index) => {
    const policy = policies[index];
    return { domain, strictDkim: policy?.kind === 'record' && policy.record.strictDkim };
  });
}

/** What a reader believes: who the author is, and that this was checked. */
const BELIEVED = ['from', 'authentication-results'];
/** Fields that readers show or answer, or read the body by; a message has one of each at most (RFC 5322 section 3.6). */
const SHOWN = ['from', 'subject', 'to', 'date', 'cc', 'reply-to', 'content-type'];

/** What readers may show of a header. */
interface Shown {
  /** Names of lines that only some readers take for fields. */
  readonly hidden: readonly string[];
  /** How often each name of {@link SHOWN} occurs. */
  readonly counts: ReadonlyMap<string, number>;
}

function findShown({ fields }: Header): Shown {
  const counts = new Map<string, number>();
  for (const { name } of fields) counts.set(name, (counts.get(name) ?? 0) + 1);
  return { hidden: hiddenFields(fields), counts };
}

/**
 * Whether a signature covers every From field, and every other field that readers show and that is repeated. Each
 * time h= names a field, one more field of that name is covered, from the bottom up (RFC 6376 section 5.4.2); readers
 * may show any of them, so whoever has a signed message could put a Subject of his own on top (section 8.15). One that
 * only some readers see (`Subject\0:`) is in no signature as what they see.
 */
function coversShown({ signedFields }: SignatureFinding, { hidden, counts }: Shown): boolean {
  return SHOWN.every((shown) => {
    if (hidden.includes(shown)) return false;
    const count = counts.get(shown) ?? 0;
    // Whether a single one is signed is the signer's choice; From always is (section 5.4).
    return count < 2 || signedFields.filter((name) => name === shown).length >= count;
  });
}

function judgeAuthors(results: CheckResults, shown: Shown, pctSample: number): AuthorVerdict[] {
  const { authors, policies, spf, found } = results;
  const signatures = found.signatures.map((finding) => ({
    domain: finding.domain,
    result: finding.result,
    coversShown: coversShown(finding, shown),
  }));
  return authors.domains.map((domain, index) =>
    evaluateAuthor(domain, policies[index] ?? { kind: 'none' }, { spf, signatures }, pctSample),
  );
}

/** The verdict on a message that names no author domain. */
const nobody: AuthorVerdict = { domain: '', policy: 'none', result: 'none', action: 'accept' };

function judgeMessage(
  { authors }: CheckResults,
  { hidden }: Shown,
  verdicts: readonly AuthorVerdict[],
): { dmarc: DmarcVerdict; action: SenderAction } {
  const { domain, policy, result, action: asked } = decidingVerdict(verdicts) ?? nobody;
  const isUnclear = !authors.hasAddress || BELIEVED.some((name) => hidden.includes(name));
  const action = isUnclear && asked === 'accept' ? 'quarantine' : asked;
  if (authors.isWhole) return { dmarc: { result, policy, domain }, action };
  return { dmarc: { result: 'permerror', policy, domain }, action: 'reject' };
}

/** Whether the domain of a signature is aligned with every author. */
function alignsWithAllAuthors(finding: SignatureFinding, authors: readonly Author[]): boolean {
  return (
    authors.length > 0 &&
    authors.every(({ domain, strictDkim }) => isAligned(finding.domain, domain, strictDkim))
  );
}

/** What is done in the end: nothing for want of DNS, and no refusal where the operator does not enforce policies. */
function actionFor(
  asked: SenderAction,
  { dnsIsDown }: CheckResults,
  { enforce }: JudgeOptions,
): SenderAction {
  if (asked === 'defer' && dnsIsDown) return 'accept';
  return enforce || asked === 'accept' ? asked : 'quarantine';
}

/** Judges a message by the results of the checks. */
export function judgeSender(results: CheckResults, options: JudgeOptions): Judgement {
  const { authors, client, found, header, removedResults, spf } = results;
  const everyAuthor = authorsOf(results);
  const shown = findShown(header);
  const authorVerdicts = judgeAuthors(results, shown, options.pctSample);
  const { dmarc, action } = judgeMessage(results, shown, authorVerdicts);
  // What we had no slot to ask must not pass for a policy that cannot be learned.
  const isPolicyLost = results.isLost && results.policies.some(({ kind }) => kind === 'unanswered');
  const asked = isPolicyLost && action !== 'reject' ? 'defer' : action;
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
    action: actionFor(asked, results, options),
    survivesForwarding: found.signatures.some(
      (finding) =>
        coversShown(finding, shown) &&
        alignsWithAllAuthors(finding, everyAuthor) &&
        survivesForwarding(finding, header, removedResults),
    ),
    authenticationResults,
  };
}

/* The Authentication-Results field that reports the results (RFC 8601 section 2.2). */

export interface Findings {
  readonly spf: SpfVerdict;
  /** Whether SPF evaluated the greeting, as it does for the null sender. */
  readonly isHelo: boolean;
  readonly signatures: readonly SignatureFinding[];
  /** One for each author domain. */
  readonly authors: readonly AuthorVerdict[];
  /** Why the author domains are unknown; undefined where each has its verdict. */
  readonly authorsUnknown: string | undefined;
  readonly arc: ArcVerdict;
  readonly remoteAddress: string;
}

/** Octets of a value; a longer one is left out, since a cut one would be another value. */
const MAX_VALUE = 253;
const MAX_COMMENT = 60;
/** RFC 5322 section 2.1.1. */
const LINE = 78;
/** RFC 2045 section 5.1. */
const TOKEN = /^[A-Za-z0-9!#$%&'*+\-.^_`{|}~]+$/;

/** A property; empty where its value cannot be written. */
function property(name: string, value: string): string[] {
  if (value === '' || value.length > MAX_VALUE || !/^[ -~]+$/.test(value)) return [];
  if (TOKEN.test(value)) return [`${name}=${value}`];
  return [`${name}="${value.replace(/["\\]/g, '\\$&')}"`];
}

/** A comment of words that cannot end the comment. */
function comment(text: string): string[] {
  const words = text.replace(/[^A-Za-z0-9 =.,:_-]+/g, ' ').trim();
  return words === '' ? [] : [`(${words.slice(0, MAX_COMMENT)})`];
}

function spfWords({ spf, isHelo }: Findings): string[] {
  return [`spf=${spf.result}`, ...property(isHelo ? 'smtp.helo' : 'smtp.mailfrom', spf.domain)];
}

function dkimWords(finding: SignatureFinding): string[] {
  return [
    `dkim=${finding.result}`,
    ...(finding.result === 'pass' ? [] : comment(finding.comment)),
    ...property('header.d', finding.domain),
    ...property('header.s', finding.selector),
    ...property('header.b', finding.start),
  ];
}

function dmarcWords({ domain, result, policy, action }: AuthorVerdict): string[] {
  const applied = result === 'fail' ? ` dis=${action === 'accept' ? 'none' : action}` : '';
  return [
    `dmarc=${result}`,
    ...(result === 'pass' || result === 'fail' ? comment(`p=${policy}${applied}`) : []),
    ...property('header.from', domain),
  ];
}

function arcWords({ arc, remoteAddress }: Findings): string[] {
  // RFC 8617 section 6 wants the address of the host that delivered the message beside the result.
  return [
    `arc=${arc.result}`,
    ...(arc.instance > 0 ? comment(`i=${arc.instance} d=${arc.domain}`) : []),
    ...property('smtp.remote-ip', remoteAddress),
  ];
}

/** Joins words into lines, continued with a tab. */
function fold(words: readonly string[]): string {
  let lines = '';
  let line = '';
  for (const word of words) {
    if (line !== '' && line.length + 1 + word.length > LINE) {
      lines += `${line}\r\n\t`;
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return lines + line;
}

/**
 * Writes the field with its last CRLF.
 *
 * @param hostname our authserv-id
 */
export function formatAuthenticationResults(hostname: string, findings: Findings): string {
  const { signatures, authors, authorsUnknown, arc } = findings;
  const methods = [
    spfWords(findings),
    ...(signatures.length === 0 ? [['dkim=none']] : signatures.map(dkimWords)),
    ...authors.map(dmarcWords),
    ...(authorsUnknown === undefined ? [] : [['dmarc=permerror', ...comment(authorsUnknown)]]),
    ...(authors.length === 0 && authorsUnknown === undefined ? [['dmarc=none']] : []),
    ...(arc.result === 'none' ? [] : [arcWords(findings)]),
  ];
  return `Authentication-Results: ${hostname};\r\n ${methods.map(fold).join(';\r\n ')}\r\n`;
}

/*
 * Removes Authentication-Results fields with our authserv-id from messages that come from outside, since
 * readers trust what has our name (RFC 8601 section 5).
 */

export const RESULTS_FIELD = 'authentication-results';

/** Characters of a token that end it, besides white space and controls (RFC 2045 section 5.1). */
const TSPECIALS = new Set('()<>@,;:\\"/[]?=');

/** One form for all spellings of an authserv-id: case, IDNA (RFC 8601 section 2.5), the root's dot. */
export function serviceName(text: string): string {
  return toDnsName(text) ?? text.toLowerCase();
}

function isSpace(character: string): boolean {
  return character <= ' ' || character === '\x7f';
}

/** Index after white space, controls and comments, which nest; undefined where a comment does not end. */
function skipComments(text: string): number | undefined {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at);
    if (depth > 0 && character === '\\') at++;
    else if (character === '(') depth++;
    else if (depth > 0 && character === ')') depth--;
    else if (depth === 0 && !isSpace(character)) return at;
  }
  return depth > 0 ? undefined : text.length;
}

/** `authserv-id = value`: a token or a quoted-string (RFC 8601 section 2.2); undefined where it does not end. */
function readServiceId(text: string): string | undefined {
  const start = skipComments(text);
  if (start === undefined) return undefined;
  if (text.charAt(start) === '"') return readQuoted(text, start + 1);
  let end = start;
  while (end < text.length && !isSpace(text.charAt(end)) && !TSPECIALS.has(text.charAt(end))) end++;
  return text.slice(start, end);
}

function readQuoted(text: string, start: number): string | undefined {
  let content = '';
  for (let at = start; at < text.length; at++) {
    if (text.charAt(at) === '"') return content;
    if (text.charAt(at) === '\\') at++;
    content += text.charAt(at);
  }
  return undefined;
}

/**
 * Whether a field is to be removed.
 *
 * @param ours our authserv-id, as {@link serviceName} writes it: computed once for all messages
 */
export function isClaimedResult(field: HeaderField, ours: string): boolean {
  // Where a comment or string does not end, readers differ on whose field it is: it is removed.
  return field.name === RESULTS_FIELD && isResultOf(field, ours) !== false;
}

/** Whether an Authentication-Results field has our authserv-id; undefined where that cannot be known. */
export function isResultOf(field: HeaderField, ours: string): boolean | undefined {
  const id = readServiceId(decodeRawHeader(rawValue(field)));
  return id === undefined ? undefined : serviceName(id.trim()) === ours;
}
