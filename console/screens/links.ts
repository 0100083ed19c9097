/** Where numbers and charts lead. */
import type { RouteLocationRaw } from 'vue-router';
import { answers } from '../../src/platform/errors/errors.ts';

/** A time as `datetime-local` fields have it. */
function toLocal(at: number): string {
  const date = new Date(at);
  return new Date(at - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** What waits, of one state or kind. */
export const queueOf = (q: string): RouteLocationRaw => ({ path: '/queue', query: { q } });

/** Messages that fit the text of their search box. */
export const messagesOf = (q: string): RouteLocationRaw => ({ path: '/messages', query: { q } });

/** The mail of a span, in milliseconds since 1970. @param terms more of the search, such as `is:refused` */
export function mailWithin(after: number, before: number, terms = ''): RouteLocationRaw {
  return messagesOf(`${terms} after:${toLocal(after)} before:${toLocal(before)}`.trim());
}

/** What was refused for one reason, a code of the API's errors: its reply has an enhanced status (RFC 3463). */
export function refusedWithin(after: number, before: number, reason: string): RouteLocationRaw {
  const answer = Object.entries(answers).find(([code]) => code === reason)?.[1];
  const enhanced = answer && 'smtp' in answer ? ` reason:${answer.smtp[1]}` : '';
  return mailWithin(after, before, `is:refused${enhanced}`);
}
