/** Where numbers and charts lead. */
import type { RouteLocationRaw } from 'vue-router';
import { answers } from '../../src/platform/errors/errors.ts';

const MINUTE_MS = 60_000;

/** A full minute in local time; in UTC in the hour that comes twice where clocks are set back. */
function toLocal(at: number): string {
  const written = (offset: number) => new Date(at - offset * MINUTE_MS).toISOString().slice(0, 16);
  const local = written(new Date(at).getTimezoneOffset());
  return Date.parse(local) === at ? local : `${written(0)}Z`;
}

/** What waits, of one state or kind. */
export const queueOf = (q: string): RouteLocationRaw => ({ path: '/queue', query: { q } });

/** Messages that fit the text of their search box. */
export const messagesOf = (q: string): RouteLocationRaw => ({ path: '/messages', query: { q } });

/**
 * The mail of a span, in milliseconds since 1970, with all of the minutes in which it begins and ends: what came just now is
 * among it.
 *
 * @param terms more of the search, such as `is:refused`
 */
export function mailWithin(after: number, before: number, terms = ''): RouteLocationRaw {
  const from = toLocal(Math.floor(after / MINUTE_MS) * MINUTE_MS);
  const to = toLocal(Math.ceil(before / MINUTE_MS) * MINUTE_MS);
  return messagesOf(`${terms} after:${from} before:${to}`.trim());
}

/** What was refused for one reason, a code of the API's errors: its reply has an enhanced status (RFC 3463). */
export function refusedWithin(after: number, before: number, reason: string): RouteLocationRaw {
  const answer = Object.entries(answers).find(([code]) => code === reason)?.[1];
  const enhanced = answer && 'smtp' in answer ? ` reason:${answer.smtp[1]}` : '';
  return mailWithin(after, before, `is:refused${enhanced}`);
}
