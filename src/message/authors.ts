/**
 * The domains that a message says it is from: those of its From fields (RFC 7489 section 6.6.1).
 */
import { Buffer } from 'node:buffer';
import { isIP } from 'node:net';
import { readAddressList } from './address-list.ts';
import { decodeWords } from './encoded-words.ts';
import { toDnsName } from './host-name.ts';
import { decodeRawHeader } from './text.ts';

export interface Authors {
  /** Lower case, IDNA-encoded, each once, at most {@link MAX_AUTHOR_DOMAINS}. */
  readonly domains: readonly string[];
  /** Whether these are all; else the fields may show somebody who is not among them. */
  readonly isWhole: boolean;
}

/** Author domains that are told apart; mail by several authors has two or three. */
export const MAX_AUTHOR_DOMAINS = 10;

/** The domain of an address; a literal counts where it could be read as a name. */
function domainsOf(address: string): string[] {
  const at = address.lastIndexOf('@');
  const text = address.slice(at + 1);
  const literal = /^\[(.*)\]$/.exec(text)?.[1];
  if (literal === undefined) return at < 0 ? [] : [toDnsName(text) ?? []].flat();
  return /^IPv6:/i.test(literal) || isIP(literal) !== 0 ? [] : namesBehindAts(`@${literal}`);
}

/** The names behind every `@`, white space around dots left out, other separators before it passed. */
const NAME_BEHIND_AT =
  /@[^@\p{L}\p{M}\p{N}_]*([\p{L}\p{M}\p{N}_-]+(?:\s*[.\u3002\uff61]\s*[\p{L}\p{M}\p{N}_-]+)*)/gu;

function namesBehindAts(text: string): string[] {
  return Array.from(text.matchAll(NAME_BEHIND_AT), ([, name = '']) => {
    const found = name.replace(/\s/g, '');
    // Of what IDNA does not take, the start may be shown.
    return [toDnsName(found) ?? toDnsName(/^[\w.-]*/.exec(found)?.[0] ?? '') ?? []].flat();
  }).flat();
}

/** What readers leave out: controls, what cannot be seen, folds, quotes. */
const LEFT_OUT = /\r?\n[ \t]*|[\p{C}\p{Default_Ignorable_Code_Point}"\\]/gu;

/** The text without comments, nested ones too; one without an end takes the rest along. */
function withoutComments(text: string): string {
  let depth = 0;
  let kept = '';
  for (const character of text) {
    if (character === '(') depth++;
    if (depth === 0) kept += character;
    if (character === ')' && depth > 0) depth--;
  }
  return kept;
}

/**
 * What readers could see in a field that does not keep to the syntax: bytes that are no UTF-8 as text
 * or as nothing, encoded words decoded or not, comments honoured or not, what cannot be seen dropped
 * or a separator.
 */
function readingsOf(value: string): Set<string> {
  const decoded = [decodeRawHeader(value), Buffer.from(value, 'latin1').toString()];
  return new Set(
    decoded
      .flatMap((text) => [text, decodeWords(text)])
      .map((text) => text.normalize('NFKC'))
      .flatMap((text) => [text, withoutComments(text)])
      .flatMap((text) => [text.replace(LEFT_OUT, ''), text.replace(LEFT_OUT, ',')]),
  );
}

/** Octets of one From field, and fields, that are read; RFC 5322 section 3.6 allows one. */
const MAX_FROM = 8 * 1024;
const MAX_FROM_FIELDS = 10;

function authorsIn(value: string): Authors {
  const { mailboxes, isExact } = readAddressList(value);
  const shown = mailboxes.flatMap(({ address }) => domainsOf(address));
  if (isExact) return { domains: shown, isWhole: true };
  const found = Array.from(readingsOf(value), (text) => ({ text, names: namesBehindAts(text) }));
  return {
    domains: [...shown, ...found.flatMap(({ names }) => names)],
    isWhole: found.every(({ text, names }) => names.length > 0 || !text.includes('@')),
  };
}

/**
 * Finds the author domains. A field that keeps to the syntax (RFC 5322 section 3.6.2) has those of its
 * mailboxes; none where it has no mailbox. Any other field has every domain that a reader could show
 * for it: whoever writes so that readers differ is judged by all of them. One that looks like an
 * address, and names no domain in any reading, is not whole (RFC 7489 section 6.6.1 leaves it to the
 * receiver to refuse such forms).
 *
 * @param values of all From fields, one character per byte, folded or not
 */
export function findAuthors(values: readonly string[]): Authors {
  const domains = new Set<string>();
  let isWhole = values.length <= MAX_FROM_FIELDS;
  for (const value of values.slice(0, MAX_FROM_FIELDS)) {
    const found = value.length > MAX_FROM ? undefined : authorsIn(value);
    isWhole &&= found?.isWhole ?? false;
    for (const domain of found?.domains ?? []) domains.add(domain);
  }
  const all = [...domains];
  return {
    domains: all.slice(0, MAX_AUTHOR_DOMAINS),
    isWhole: isWhole && all.length <= MAX_AUTHOR_DOMAINS,
  };
}
