/** The Authentication-Results field that says what was found (RFC 8601 section 2.2). */
import type { AuthorVerdict } from './evaluate-dmarc.ts';
import type { ArcVerdict, SpfVerdict } from './verdicts.ts';
import type { SignatureFinding } from './verify-signatures.ts';

export interface Findings {
  readonly spf: SpfVerdict;
  /** Whether SPF was asked for the greeting, as it is for the null sender. */
  readonly isHelo: boolean;
  readonly signatures: readonly SignatureFinding[];
  /** One for each author domain. */
  readonly authors: readonly AuthorVerdict[];
  /** Why no author domain could be settled on; undefined where each has its verdict. */
  readonly authorsUnknown: string | undefined;
  readonly arc: ArcVerdict;
  readonly remoteAddress: string;
}

/** Octets of a value; a longer one is left out rather than cut into another. */
const MAX_VALUE = 253;
const MAX_COMMENT = 60;
/** RFC 5322 section 2.1.1. */
const LINE = 78;
/** RFC 2045 section 5.1. */
const TOKEN = /^[A-Za-z0-9!#$%&'*+\-.^_`{|}~]+$/;

/** A property, or nothing where the value could not be written. */
function property(name: string, value: string): string[] {
  if (value === '' || value.length > MAX_VALUE || !/^[ -~]+$/.test(value)) return [];
  if (TOKEN.test(value)) return [`${name}=${value}`];
  return [`${name}="${value.replace(/["\\]/g, '\\$&')}"`];
}

/** A comment of words that cannot end it. */
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
  // RFC 8617 section 6 wants the address of who delivered it along with the result.
  return [
    `arc=${arc.result}`,
    ...(arc.instance > 0 ? comment(`i=${arc.instance} d=${arc.domain}`) : []),
    ...property('smtp.remote-ip', remoteAddress),
  ];
}

/** Joins words into lines that continue with a tab. */
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
 * Writes the field, its last CRLF included.
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
