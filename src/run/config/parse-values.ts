/**
 * Reads the text of one setting: numbers, words, hosts, networks, keys. Pure, no I/O.
 *
 * A parser returns the value, or what it expected; `environment.ts` makes error lines of that.
 */
import { createPublicKey, type KeyObject } from 'node:crypto';
import { isIP, isIPv4 } from 'node:net';
import { domainToASCII } from 'node:url';
import ipaddr from 'ipaddr.js';
import { many } from '../../platform/errors/errors.ts';
import type { SigningKeys } from '../../platform/nodes/nodes.ts';

/** A value, or the expected form and, where the value itself must not be shown, `found`. */
export type Reading<T> =
  | { readonly fits: true; readonly value: T }
  | { readonly fits: false; readonly expected: string; readonly found?: string };

/** Reads the trimmed, non-empty text of one setting. */
export type Parse<T> = (text: string) => Reading<T>;

export function fit<T>(value: T): Reading<T> {
  return { fits: true, value };
}

export function unfit(expected: string, found?: string): Reading<never> {
  return found === undefined ? { fits: false, expected } : { fits: false, expected, found };
}

/** A whole decimal number between two limits, both included. */
export function wholeNumber(
  least: number,
  most: number,
  meaning = 'a whole number',
): Parse<number> {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= least && value <= most) return fit(value);
    return unfit(`${meaning} from ${least} to ${most}`);
  };
}

/** A TCP port; `least` is 0 where 0 means "off" or "any free one". */
export function port(least: 0 | 1): Parse<number> {
  return wholeNumber(least, 65535, 'a port number');
}

/** The port of an LMTP listener; LMTP must not be used on port 25 (RFC 2033 section 5). */
export const lmtpPort: Parse<number> = (text) =>
  text === '25' ? unfit('a port number other than 25, which is SMTP only') : port(0)(text);

export const yesOrNo: Parse<boolean> = (text) => {
  if (/^(true|1|on|yes)$/i.test(text)) return fit(true);
  if (/^(false|0|off|no)$/i.test(text)) return fit(false);
  return unfit('true or false');
};

/** One of some words, in any case. */
export function oneOf<const Word extends string>(...words: readonly Word[]): Parse<Word> {
  return (text) => {
    const word = words.find((known) => known === text.toLowerCase());
    return word === undefined ? unfit(`one of ${words.join(', ')}`) : fit(word);
  };
}

/** A short name or identifier, such as a claim name or an issuer. */
export const shortText: Parse<string> = (text) =>
  text.length <= 255 && !/[\u0000-\u001f\u007f]/.test(text)
    ? fit(text)
    : unfit('at most 255 characters without control characters');

/** `#rrggbb`, in lower case. */
export const color: Parse<string> = (text) =>
  /^#[0-9a-f]{6}$/i.test(text) ? fit(text.toLowerCase()) : unfit('a colour as #rrggbb');

export const filePath: Parse<string> = (text) =>
  /[\0\r\n]|-----BEGIN/.test(text) ? unfit('a path', 'a text that is no path') : fit(text);

/** Comma-separated values of a secret: the first signs, all of them verify. A refusal never contains any of them. */
export function secretTexts(fewest: number): Parse<SigningKeys> {
  return (text) => {
    const values = splitList(text);
    const expected = `at least ${fewest} characters (each, if there are several values separated by commas)`;
    const tooShort = values.find((value) => value.length < fewest);
    if (tooShort !== undefined) return unfit(expected, many(tooShort.length, 'character'));
    const [first, ...others] = values;
    if (first === undefined) return unfit(expected, '0 characters');
    if (new Set(values).size < values.length) return unfit('different values', 'one of them twice');
    return fit([first, ...others]);
  };
}

/** Comma-separated API keys; they travel in an HTTP header (RFC 9110 section 5.5). */
export const apiKeys: Parse<readonly string[]> = (text) => {
  const keys = splitList(text);
  const tooShort = keys.find((key) => key.length < 16);
  if (tooShort !== undefined || keys.length === 0) {
    const found = `one of ${many(tooShort?.length ?? 0, 'character')}`;
    return unfit('comma-separated keys of at least 16 characters each', found);
  }
  if (keys.some((key) => !/^[\x21-\x7e]{1,255}$/.test(key))) {
    return unfit(
      'keys of at most 255 visible ASCII characters each',
      'a key that is longer or has other characters',
    );
  }
  if (new Set(keys).size < keys.length) return unfit('different keys', 'one of them twice');
  return fit(keys);
};

/**
 * A host name in lower case, international names in their ASCII form (RFC 5890 section 2.3.2.1).
 * Underscores are accepted: containers and SPF names have them.
 *
 * @returns undefined where the text is not a host name (RFC 1123 section 2.1)
 */
export function normalizeHostname(text: string): string | undefined {
  const bare = text.endsWith('.') ? text.slice(0, -1) : text;
  const ascii = /^[\x21-\x7e]*$/.test(bare) ? bare.toLowerCase() : domainToASCII(bare);
  if (ascii.length > 253) return undefined;
  const labels = ascii.split('.');
  if (!labels.every((label) => /^(?!-)[a-z0-9_-]{1,63}$/.test(label) && !label.endsWith('-'))) {
    return undefined;
  }
  // A last label of digits is a mistyped IPv4 address (RFC 1123 section 2.1).
  return /^\d+$/.test(labels.at(-1) ?? '') ? undefined : ascii;
}

/** An address to listen on. */
export const host: Parse<string> = (text) => {
  const value = isIP(text) ? text.toLowerCase() : normalizeHostname(text);
  return value === undefined ? unfit('an IP address or a host name') : fit(value);
};

/** A name for the public DNS, with at least two labels. */
export function fullHostname(options: { underscores: boolean }): Parse<string> {
  return (text) => {
    const name = normalizeHostname(text);
    const fits = name?.includes('.') && (options.underscores || !name.includes('_'));
    return name !== undefined && fits
      ? fit(name)
      : unfit('a full host name such as mail.example.com');
  };
}

/** A comma-separated list; the word (`none`, `off`, `system`) stands for the empty list. */
export function listOf<T>(parse: Parse<T>, emptyWord: string): Parse<readonly T[]> {
  return (text) => {
    if (text.toLowerCase() === emptyWord) return fit([]);
    const values: T[] = [];
    for (const item of splitList(text)) {
      const reading = parse(item);
      if (!reading.fits)
        return unfit(`${emptyWord}, or a comma-separated list of ${reading.expected}`);
      values.push(reading.value);
    }
    return fit(values);
  };
}

function splitList(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

/** A network as `address/bits`; a bare address is a network of one. */
export const network: Parse<string> = (text) => {
  const refused = unfit('networks such as 10.0.0.0/8 or fd00::/8');
  const slash = text.indexOf('/');
  const address = slash === -1 ? text : text.slice(0, slash);
  // ipaddr.js alone would also accept 10.1/16, octal and hexadecimal numbers.
  if (!isIP(address) || address.includes('%')) return refused;
  const width = isIPv4(address) ? 32 : 128;
  const bits = slash === -1 ? fit(width) : wholeNumber(0, width)(text.slice(slash + 1));
  if (!bits.fits) return refused;
  const [parsed, length] = ipaddr.parseCIDR(`${address}/${bits.value}`);
  return fit(`${parsed.toString()}/${length}`);
};

/** The name of an extension of IMAP (RFC 9051 section 9), in upper case; whether there is such a one, the listener knows. */
export const extension: Parse<string> = (text) =>
  /^[!-~]{1,64}$/.test(text) ? fit(text.toUpperCase()) : unfit('extensions such as QRESYNC');

/** A resolver, in the form that `dns.Resolver.setServers` accepts. */
export const resolver: Parse<string> = (text) => {
  const refused = unfit('resolvers such as 1.1.1.1, 1.1.1.1:53 or [2606:4700::1111]:53');
  // The resolver library drops a zone, so a link-local server would not be reached.
  if (text.includes('%')) return refused;
  if (isIP(text)) return fit(text.toLowerCase());
  const match = /^(?:\[([0-9a-f:.]{2,45})\]|([0-9.]{7,15}))(?::(\d{1,5}))?$/i.exec(text);
  const address = match?.[1] ?? match?.[2] ?? '';
  if (!isIP(address) || isIPv4(address) !== (match?.[2] !== undefined)) return refused;
  if (match?.[3] !== undefined && !port(1)(match[3]).fits) return refused;
  return fit(text.toLowerCase());
};

/**
 * A public key for RS, PS, ES or EdDSA signatures (RFC 7518 sections 3.3 to 3.5, RFC 8037), given
 * as PEM text in which `\n` may stand for a line break.
 *
 * @returns the key as PEM of its SubjectPublicKeyInfo, for every accepted form
 */
export const publicKey: Parse<string> = (text) => {
  const expected = 'a public key in PEM: RSA of 2048 bits or more, EC P-256/384/521, or Ed25519';
  const pem = text.replace(/\\r/g, '').replace(/\\n/g, '\n');
  // createPublicKey would derive the public half; the operator should learn that this is a private key.
  if (pem.includes('PRIVATE KEY')) return unfit(expected, 'a private key');
  try {
    const key = createPublicKey(pem);
    if (!isSigningKey(key)) return unfit(expected, 'a key of another kind');
    return fit(key.export({ type: 'spki', format: 'pem' }).toString());
  } catch {
    return unfit(expected, 'text that is not such a key');
  }
};

function isSigningKey(key: KeyObject): boolean {
  const { modulusLength, namedCurve } = key.asymmetricKeyDetails ?? {};
  switch (key.asymmetricKeyType) {
    case 'rsa':
      return modulusLength !== undefined && modulusLength >= 2048;
    case 'ec':
      return ['prime256v1', 'secp384r1', 'secp521r1'].includes(namedCurve ?? '');
    default:
      return key.asymmetricKeyType === 'ed25519';
  }
}
