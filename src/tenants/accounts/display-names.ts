/** The names that accounts show to people. */
import { invalidField } from '../../platform/errors/errors.ts';
import { hasHidden } from '../../protocols/message/message.ts';
import { checkText } from '../domains/domains.ts';

const NAME_MAX = 255;

/** A display name goes into header fields: so it must have no line end and no other control character. */
export function checkDisplayName(text: string): string {
  return checkShownName('display_name', text);
}

/** Checks a name that is shown to people. @throws Refusal invalid_request for `field` */
export function checkShownName(field: string, text: string): string {
  checkText(field, text, NAME_MAX);
  if (/\p{Cc}/u.test(text)) throw invalidField(field, 'must not hold control characters');
  if (hasHidden(text)) {
    const expected = 'must not hold invisible characters, or ones that turn the order of others';
    throw invalidField(field, expected);
  }
  return text;
}
