/** Single addresses, as SMTP and the API have them (RFC 5321 section 4.1.2), and the host names in them. */
import { Buffer } from 'node:buffer';
import { isIP } from 'node:net';
import { domainToASCII } from 'node:url';
import { getDomain } from 'tldts';

export interface Address {
  /** The local part without its quoting: `"john smith"@...` gives `john smith`. Case is kept. */
  readonly local: string;
  /** Lower case, IDNA-encoded. */
  readonly domain: string;
}

/** RFC 5321 section 4.5.3.1.1. */
const MAX_LOCAL = 64;
/** RFC 5321 section 4.5.3.1.3: a path has 256 octets, angle brackets included. */
const MAX_ADDRESS = 254;
/** RFC 1035 section 2.3.4, in presentation form; encoding by IDNA never makes a name shorter. */
const MAX_DOMAIN = 253;

/** Dot-string: atext joined by dots; RFC 6531 section 3.3 adds all that is not ASCII. */
const DOT_STRING =
  /^[\w!#$%&'*+/=?^`{|}~\u0080-\u{10ffff}-]+(?:\.[\w!#$%&'*+/=?^`{|}~\u0080-\u{10ffff}-]+)*$/u;

/** The content of a quoted-string: qtextSMTP and quoted pairs; never empty here. */
const QUOTED_CONTENT = /^(?:[ !#-[\]-~\u0080-\u{10ffff}]|\\[ -~])+$/u;

/** One label of a host name (RFC 1123 section 2.1), after IDNA. */
const LABEL = /^[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?$/;

function readLocal(text: string): string | undefined {
  if (!text.startsWith('"')) return DOT_STRING.test(text) ? text : undefined;
  const content = text.length > 2 && text.endsWith('"') ? text.slice(1, -1) : '';
  return QUOTED_CONTENT.test(content) ? content.replace(/\\(.)/gu, '$1') : undefined;
}

/**
 * Reads a host name.
 *
 * @returns it in lower case and IDNA-encoded; undefined where the text is none
 */
export function toHostName(text: string): string | undefined {
  // The text is read as the host of a URL, where percent-encoding, a port or a path would have a meaning: so
  // ASCII is checked first.
  if (!/^[a-z\d.\u0080-\u{10ffff}-]+$/iu.test(text)) return undefined;
  const domain = domainToASCII(text);
  const labels = domain.split('.');
  if (domain.length > MAX_DOMAIN || !labels.every((label) => LABEL.test(label))) return undefined;
  // `127.1` is an IP address in a URL, and no top-level domain is a number (RFC 3696
  // section 2).
  return /^\d+$/.test(labels.at(-1) ?? '') ? undefined : domain;
}

/**
 * Reads an address: a dot-string or quoted-string, `@`, a domain name. Addresses with characters outside ASCII
 * (SMTPUTF8, RFC 6531) are accepted.
 *
 * @returns undefined for anything else: control characters, comments, display names, source
 *   routes, address literals (`user@[192.0.2.1]`), and addresses that are longer than RFC 5321 allows
 */
export function parseAddress(text: string): Address | undefined {
  if (text.length > MAX_ADDRESS || !text.isWellFormed() || /\p{Cc}/u.test(text)) return undefined;
  // A domain has no `@`, so the last one separates; a quoted local part may have others.
  const at = text.lastIndexOf('@');
  if (at < 0) return undefined;
  const local = readLocal(text.slice(0, at));
  const domain = toHostName(text.slice(at + 1));
  if (local === undefined || domain === undefined) return undefined;
  if (Buffer.byteLength(local) > MAX_LOCAL) return undefined;
  const encoded = Buffer.byteLength(text.slice(0, at + 1)) + domain.length;
  const octets = Math.max(Buffer.byteLength(text), encoded);
  return octets > MAX_ADDRESS ? undefined : { local, domain };
}

/**
 * The name to look up in DNS: lower case, IDNA-encoded, without dots at the end. Every name that is compared or
 * looked up is made by this function, so that both are always the same name.
 *
 * @param text from a message: hostile, of any length
 * @returns undefined where the text is not a name: an address, or characters that no name can have
 */
export function toDnsName(text: string): string | undefined {
  // The text is read as the host of a URL, where other characters of ASCII have a meaning.
  if (text.length > MAX_DOMAIN || /[^\w.\u0080-\u{10ffff}-]/u.test(text)) return undefined;
  // UTS 46 has four characters for a dot.
  const name = text.replace(/[.\u3002\uff0e\uff61]+$/, '');
  // An ASCII name that IDNA does not allow can still be looked up.
  const domain = (domainToASCII(name) || name.toLowerCase()).replace(/\.+$/, '');
  return /^[a-z\d._-]+$/.test(domain) && isIP(domain) === 0 ? domain : undefined;
}

/**
 * The domain an organization has registered (RFC 7489 section 3.2), by the public suffix list with its private part:
 * customers of a hosting company are not one organization. Of a name that no host may have, too (`-a.bank.test`): DNS may
 * have it, readers show it, and the organization's policy is for all below it. A name of SPF may have any character, and is
 * no URL (`a/b.bank.test`).
 *
 * @param name as {@link toDnsName} writes it; a public suffix is its own organization
 */
export function organizationalDomain(name: string): string {
  const options = { allowPrivateDomains: true, validateHostname: false, extractHostname: false };
  return getDomain(name, options) ?? name;
}

/**
 * Writes an address for SMTP (RFC 5321 section 4.1.2): the local part is quoted where it is not a dot-string.
 * The counterpart of `parseAddress`.
 */
export function formatAddress(local: string, domain: string): string {
  const isDotString = parseAddress(`${local}@a.test`)?.local === local;
  return `${isDotString ? local : quote(local)}@${domain}`;
}

/** The one canonical spelling of an address; other text is not changed. */
export function canonicalAddress(text: string): string {
  const address = parseAddress(text);
  return address ? formatAddress(address.local, address.domain) : text;
}

function quote(local: string): string {
  return `"${local.replace(/["\\]/g, '\\$&')}"`;
}
