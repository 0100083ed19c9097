/**
 * Texts from users: names that can be claimed as domains, the stored form of a name, and texts that are stored
 * unchanged.
 */
import { domainToUnicode } from 'node:url';
import { getDomain } from 'tldts';
import { invalidField } from '../../platform/errors/errors.ts';
import { toHostName } from '../../protocols/message/message.ts';

/** The longest input that is read: 253 characters of Unicode, four digits of escape each. */
const INPUT_MAX = 1024;

/** A label that claims to be encoded must decode (RFC 5890 section 2.3.2.1 "fake A-labels"). */
function isFakeALabel(label: string): boolean {
  return label.startsWith('xn--') && domainToUnicode(label) === label;
}

/**
 * The stored form of a domain name: lower case, IDNA-encoded, without the root's dot.
 *
 * @returns undefined where the text is no host name (an IP address is none)
 */
export function normalizeDomainName(text: string): string | undefined {
  if (text.length > INPUT_MAX) return undefined;
  // UTS 46 has four characters for a dot.
  const name = toHostName(text.replace(/[.\u3002\uff0e\uff61]$/, ''));
  return name?.split('.').some(isFakeALabel) ? undefined : name;
}

/**
 * Reads the name of a new claim.
 *
 * A name on the ICANN part of the public suffix list (`com`, `co.uk`) belongs to a registry. A name on its private part
 * (`github.io`) belongs to a company whose customers hold the names below it: its owner would speak for all of them. So
 * both are refused. The company itself cannot use that one name for mail. An unlisted top-level domain counts by the
 * list's default rule `*`.
 *
 * @param mailHostname our own name, which nobody may claim
 * @throws Refusal invalid_request for `domain`
 */
export function checkClaimedName(text: string, mailHostname: string): string {
  const name = normalizeDomainName(text);
  if (name === undefined) throw invalidField('domain', 'must be a domain name such as example.com');
  if (name === mailHostname) {
    throw invalidField('domain', 'must not be the host name of this mail server');
  }
  if (getDomain(name, { allowPrivateDomains: true }) === null) {
    throw invalidField(
      'domain',
      `must be a domain that one can register, or below one: under ${name}, others hold their names`,
    );
  }
  return name;
}

/** A user id has at most this many characters. */
const USER_ID_MAX = 255;

/**
 * Checks text that is stored unchanged.
 *
 * PostgreSQL stores no NUL. A lone surrogate cannot be written in UTF-8: SQLite would store two different ones as the
 * same replacement character, and so treat two users as one.
 *
 * @param max characters (code points) at most
 * @throws Refusal invalid_request for `field`
 */
export function checkText(field: string, text: string, max: number): string {
  // A character has at most two UTF-16 units: very long texts are not counted.
  if (text.length > 2 * max || (text.length > max && [...text].length > max)) {
    throw invalidField(field, `must have at most ${max} characters`);
  }
  if (!text.isWellFormed() || text.includes('\0')) {
    throw invalidField(field, 'must be Unicode text without NUL');
  }
  return text;
}

/** Checks the `user_id` that scopes a call. */
export function checkUserId(userId: string): string {
  if (userId === '') throw invalidField('user_id', 'must not be empty');
  return checkText('user_id', userId, USER_ID_MAX);
}
