/**
 * Single e-mail addresses, as SMTP and the API take them (RFC 5321 section 4.1.2).
 */
import { Buffer } from 'node:buffer';
import { toBrowserName } from './host-name.ts';

export interface Address {
  /** Local part by its meaning: `"john smith"@...` gives `john smith`. Case as given. */
  readonly local: string;
  /** Lower case, IDNA-encoded. */
  readonly domain: string;
}

/** RFC 5321 section 4.5.3.1.1. */
const MAX_LOCAL = 64;
/** RFC 5321 section 4.5.3.1.3: a path has 256 octets, angle brackets included. */
const MAX_ADDRESS = 254;
/** RFC 1035 section 2.3.4, in presentation form. */
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

function readDomain(text: string): string | undefined {
  // It is read as the host of a URL, so percent-encoding, a port or a path would mean something: ASCII
  // is checked before.
  if (!/^[a-z\d.\u0080-\u{10ffff}-]+$/iu.test(text)) return undefined;
  const domain = toBrowserName(text);
  const labels = domain.split('.');
  if (domain.length > MAX_DOMAIN || !labels.every((label) => LABEL.test(label))) return undefined;
  // `127.1` is an IP address in a URL, and no top-level domain is a number (RFC 3696
  // section 2).
  return /^\d+$/.test(labels.at(-1) ?? '') ? undefined : domain;
}

/**
 * Reads an address: a dot-string or quoted-string, `@`, a domain name. Addresses with characters
 * outside ASCII (SMTPUTF8, RFC 6531) are taken.
 *
 * @returns undefined for anything else: control characters, comments, display names, source
 *   routes, address literals (`user@[192.0.2.1]`), and what is longer than RFC 5321 allows
 */
export function parseAddress(text: string): Address | undefined {
  if (text.length > MAX_ADDRESS || !text.isWellFormed() || /\p{Cc}/u.test(text)) return undefined;
  // A domain holds no `@`, so the last one splits; a quoted local part may hold others.
  const at = text.lastIndexOf('@');
  if (at < 0) return undefined;
  const local = readLocal(text.slice(0, at));
  const domain = readDomain(text.slice(at + 1));
  if (local === undefined || domain === undefined) return undefined;
  if (Buffer.byteLength(local) > MAX_LOCAL) return undefined;
  const encoded = Buffer.byteLength(text.slice(0, at + 1)) + domain.length;
  const octets = Math.max(Buffer.byteLength(text), encoded);
  return octets > MAX_ADDRESS ? undefined : { local, domain };
}
