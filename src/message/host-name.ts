import { domainToASCII } from 'node:url';

/** RFC 1035 section 2.3.4, in presentation form. */
const NAME_MAX = 253;

/**
 * What most names are made of. Not among it: two hyphens in a row, which begin what is encoded, and a
 * digit at the start of the last label, which could be part of an address.
 */
const PLAIN = /^(?:[a-z\d]+(?:-[a-z\d]+)*\.)*[a-z][a-z\d]*(?:-[a-z\d]+)*$/;

/** Whether a name stays as it is when it is IDNA-encoded, and is no address. */
export function isPlainName(name: string): boolean {
  return name.length <= NAME_MAX && PLAIN.test(name);
}

/** The name IDNA-encoded as browsers do it (UTS 46), in lower case; `''` where it is none. */
export function toBrowserName(name: string): string {
  return isPlainName(name) ? name : domainToASCII(name);
}
