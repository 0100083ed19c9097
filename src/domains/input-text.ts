import { invalidField } from '../errors/errors.ts';

/** A user id has at most this many characters. */
const USER_ID_MAX = 255;

/**
 * Checks text that is kept as it came.
 *
 * PostgreSQL stores no NUL, and a lone surrogate has no UTF-8: SQLite would turn two different ones
 * into the same replacement character, and so two users into one.
 *
 * @param max characters (code points) at most
 * @throws Refusal invalid_request for `field`
 */
export function checkText(field: string, text: string, max: number): string {
  // A character has at most two UTF-16 units: counting stops short of hostile lengths.
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
