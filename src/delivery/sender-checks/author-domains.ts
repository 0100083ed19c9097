/**
 * The domains that a message says it is from: those of its From fields (RFC 7489 section 6.6.1).
 *
 * Every domain that a mail reader could take for the author's counts. Two parsers read each field:
 * the one that our own API shows senders by, and one that stumbles over less; what is written so
 * that they differ is judged by both readings.
 */
import { isIP } from 'node:net';
import addressparser from 'nodemailer/lib/addressparser';
import { isPlainName, toBrowserName } from '../../message/message.ts';
import { withoutRoot } from './host-names.ts';

/** Author domains that are looked up; mail by several authors has two or three. */
export const MAX_AUTHOR_DOMAINS = 5;

/** What the characters of a domain can be before IDNA; the rest ends it. */
const HOST_CHARACTERS = /^[a-z\d._\u0080-\u{10ffff}-]+/iu;

/** Decodes a field value: UTF-8 (RFC 6532), else one character for each byte. */
function decode(value: Buffer): string {
  const text = value.toString('utf8');
  return text.includes('\ufffd') ? value.toString('latin1') : text;
}

/** Reads address specifications out of a From field, leniently. */
class SpecReader {
  readonly specs: string[] = [];
  #plain = '';
  #angle: string | undefined;

  /** @returns whether quotes and comments all end */
  read(text: string, honoursQuotes: boolean): boolean {
    let quoted = false;
    let depth = 0;
    for (let at = 0; at < text.length; at++) {
      const character = text.charAt(at);
      if (depth > 0 || quoted) {
        if (quoted) this.#append(character);
        if (character === '\\') {
          at++;
          if (quoted) this.#append(text.charAt(at));
        } else if (quoted && character === '"') quoted = false;
        else if (depth > 0 && !quoted)
          depth += Number(character === '(') - Number(character === ')');
      } else if (honoursQuotes && character === '"') {
        quoted = true;
        this.#append(character);
      } else if (honoursQuotes && character === '(') depth++;
      else this.#readSyntax(character);
    }
    this.#endMailbox();
    return !quoted && depth === 0;
  }

  #readSyntax(character: string): void {
    // Commas and the colon of a source route (RFC 5322 section 4.4) stand inside the brackets.
    const inRoute = this.#angle?.startsWith('@') === true;
    if (character === '<') {
      this.#endAngle();
      this.#angle = '';
    } else if (character === '>') this.#endAngle();
    else if ((character === ',' && !inRoute) || character === ';') this.#endMailbox();
    else if (character === ':' && this.#angle === undefined) this.#plain = '';
    else this.#append(character);
  }

  #append(character: string): void {
    if (this.#angle === undefined) this.#plain += character;
    else this.#angle += character;
  }

  #endAngle(): void {
    if (this.#angle === undefined) return;
    this.specs.push(this.#angle);
    this.#angle = undefined;
    this.#plain = '';
  }

  #endMailbox(): void {
    this.#endAngle();
    if (this.#plain.includes('@')) this.specs.push(this.#plain);
    this.#plain = '';
  }
}

/** Text behind every `@` that is not quoted: more than one is malformed, and each could count. */
function candidatesOf(spec: string, honoursQuotes = true): string[] {
  const route = spec.startsWith('@') ? spec.indexOf(':') : -1;
  const candidates: string[] = [];
  let quoted = false;
  let start: number | undefined;
  for (let at = route + 1; at < spec.length; at++) {
    const character = spec.charAt(at);
    if (character === '"' && honoursQuotes) quoted = !quoted;
    else if (character === '\\' && quoted) at++;
    else if (character === '@' && !quoted) {
      if (start !== undefined) candidates.push(spec.slice(start, at));
      start = at + 1;
    }
  }
  if (quoted) return candidatesOf(spec, false);
  if (start !== undefined) candidates.push(spec.slice(start));
  return candidates;
}

/**
 * The name to ask DNS for: lower case, IDNA-encoded, without the root's dot.
 *
 * @returns undefined where no domain starts the text; an address literal is none that could have a
 *   policy
 */
function normalizeDomain(text: string): string | undefined {
  if (isPlainName(text)) return text;
  const name = withoutRoot(HOST_CHARACTERS.exec(text)?.[0] ?? '');
  if (name.length > 1_000) return undefined;
  const domain = toBrowserName(name);
  return domain === '' || isIP(domain) !== 0 ? undefined : domain;
}

const GAP = '[ \\t\\r\\n]*';
/** Atoms and encoded words, and the gaps and dots between them (RFC 5322 section 4.1, obs-phrase). */
const WORDS = "[\\w.!#$%&'*+/=?^`{|}~ \\t\\r\\n-]*";
/** A quoted string in which nothing is escaped or folded. */
const QUOTED = '"[ !#-\\[\\]-~]*"';
const ATOM = "[\\w!#$%&'*+/=?^`{|}~-]+";
const SPEC = `${ATOM}(?:\\.${ATOM})*@([\\w-]+(?:\\.[\\w-]+)*)`;
const NAMED_AUTHOR = new RegExp(`^(?:${GAP}${QUOTED}${GAP}|${WORDS})<${SPEC}>${GAP}$`);
const BARE_AUTHOR = new RegExp(`^${GAP}${SPEC}${GAP}$`);

/** The text behind the `@` of a field that is one author and can be read in one way only. */
function plainCandidate(text: string): string | undefined {
  return (NAMED_AUTHOR.exec(text) ?? BARE_AUTHOR.exec(text))?.[1];
}

function specsOf(text: string): string[] {
  const reader = new SpecReader();
  if (!reader.read(text, true)) reader.read(text, false);
  const shown = addressparser(text, { flatten: true }).map(({ address }) => address ?? '');
  return [...reader.specs, ...shown];
}

/** What could be a domain in the value of a From field. */
function candidatesIn(text: string): string[] {
  const plain = plainCandidate(text);
  if (plain !== undefined) return [plain];
  // Folds, white space (RFC 5322 section 4.4) and controls are no part of a domain, and mail
  // readers pass over them.
  return specsOf(text).flatMap((spec) => candidatesOf(spec.replace(/[\s\p{Cc}]/gu, '')));
}

export interface Authors {
  /** Each once, in the order they stand there, at most {@link MAX_AUTHOR_DOMAINS}. */
  readonly domains: readonly string[];
  /** Whether these are all. */
  readonly isWhole: boolean;
}

/** @param values of the From fields, raw */
export function findAuthorDomains(values: readonly Buffer[]): Authors {
  const domains = new Set<string>();
  // Both readings of a field mostly find the same, and IDNA takes longer than all else here.
  const seen = new Set<string>();
  for (const value of values) {
    for (const candidate of candidatesIn(decode(value))) {
      if (seen.has(candidate)) continue;
      seen.add(candidate);
      const domain = normalizeDomain(candidate);
      if (domain === undefined || domains.has(domain)) continue;
      if (domains.size === MAX_AUTHOR_DOMAINS) return { domains: [...domains], isWhole: false };
      domains.add(domain);
    }
  }
  return { domains: [...domains], isWhole: true };
}
