import { isIP } from 'node:net';
import { domainToASCII } from 'node:url';

/** RFC 1035 section 2.3.4, in presentation form; encoded by IDNA, a name is not shorter. */
const MAX_NAME = 253;

/** The name IDNA-encoded as browsers do it (UTS 46), in lower case; `''` where it is none. */
export function toBrowserName(name: string): string {
  return domainToASCII(name);
}

/**
 * The name to ask DNS for: lower case, IDNA-encoded, without the dot of the root, or dots. Everything
 * that is compared or asked for comes through here, so that both are always the same name.
 *
 * @param text out of a message: hostile, of any length
 * @returns undefined where the text is no name: an address, or characters that none can have
 */
export function toDnsName(text: string): string | undefined {
  // It is read as the host of a URL, where other characters of ASCII mean something.
  if (text.length > MAX_NAME || /[^\w.\u0080-\u{10ffff}-]/u.test(text)) return undefined;
  // UTS 46 has four characters for a dot.
  const name = text.replace(/[.\u3002\uff0e\uff61]+$/, '');
  // A name that IDNA does not allow can be asked for all the same, where it is ASCII.
  const domain = (toBrowserName(name) || name.toLowerCase()).replace(/\.+$/, '');
  return /^[a-z\d._-]+$/.test(domain) && isIP(domain) === 0 ? domain : undefined;
}
