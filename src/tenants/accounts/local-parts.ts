/** The part of an address before the `@`: which ones are allowed, and how they are compared. */
import { invalidField } from '../../platform/errors/errors.ts';
import { parseAddress } from '../../protocols/message/message.ts';

/** An address in the form of account lookups. */
export interface MailAddress {
  readonly localPart: string;
  readonly domain: string;
}

/** RFC 5321 section 4.5.3.1.1. */
const LOCAL_PART_MAX = 64;
/** RFC 5321 section 4.5.3.1.3: a path has 256 octets, angle brackets included. */
const ADDRESS_MAX = 254;

/** Dot-string of RFC 5321 section 4.1.2 in ASCII only: our addresses need no SMTPUTF8. */
const DOT_STRING = /^[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*$/;

/** Local parts that are reserved for rewritten senders of forwarded mail. */
const REWRITTEN = /^srs[01]/;

/**
 * Reads the local part of a new account.
 *
 * @returns it in lower case: RFC 5321 section 2.4 lets the host of a mailbox ignore case, and no person distinguishes
 *   `Ann@` and `ann@`
 * @throws Refusal invalid_request for `local_part`
 */
export function checkLocalPart(text: string, domain: string): string {
  if (text.length > LOCAL_PART_MAX || text === '') {
    throw invalidField('local_part', `must have 1 to ${LOCAL_PART_MAX} characters`);
  }
  if (!DOT_STRING.test(text)) {
    throw invalidField(
      'local_part',
      'must be letters, digits and the signs of RFC 5321, with single dots between them',
    );
  }
  if (text.includes('+')) {
    throw invalidField('local_part', 'must not hold "+": mail to name+tag is delivered to name');
  }
  const localPart = text.toLowerCase();
  if (REWRITTEN.test(localPart)) {
    throw invalidField('local_part', 'must not begin with SRS0 or SRS1, which forwarding uses');
  }
  if (`${localPart}@${domain}`.length > ADDRESS_MAX) {
    throw invalidField('local_part', `must not make the address longer than ${ADDRESS_MAX}`);
  }
  return localPart;
}

/** The local part under which mail for `text` is stored: lower case, without a `+tag`. */
export function mailLocalPart(text: string): string {
  const plus = text.indexOf('+');
  return (plus < 0 ? text : text.slice(0, plus)).toLowerCase();
}

/** Reads an address; undefined where the text is none. */
export function readAddress(text: string): MailAddress | undefined {
  const address = parseAddress(text);
  return address && { localPart: address.local.toLowerCase(), domain: address.domain };
}
