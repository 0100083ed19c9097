import { parseAddress } from '../message/message.ts';

/**
 * Writes an address as SMTP has it (RFC 5321 section 4.1.2): the local part is quoted where it is no
 * dot-string. The counterpart of `parseAddress`.
 */
export function formatAddress(local: string, domain: string): string {
  const isDotString = parseAddress(`${local}@a.test`)?.local === local;
  return `${isDotString ? local : quote(local)}@${domain}`;
}

/** The one way to write an address that has several; what is no address stays as it is. */
export function canonicalAddress(text: string): string {
  const address = parseAddress(text);
  return address ? formatAddress(address.local, address.domain) : text;
}

function quote(local: string): string {
  return `"${local.replace(/["\\]/g, '\\$&')}"`;
}
