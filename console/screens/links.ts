/** Where numbers and charts lead. */
import type { RouteLocationRaw } from 'vue-router';

/** A time as `datetime-local` fields have it. */
function toLocal(at: number): string {
  const date = new Date(at);
  return new Date(at - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** What waits in one state. */
export function queueOf(status: 'queued' | 'held'): RouteLocationRaw {
  return { path: '/queue', query: { status } };
}

/** The mail of a span, in milliseconds since 1970. */
export function mailWithin(after: number, before: number): RouteLocationRaw {
  const q = `after:${toLocal(after)} before:${toLocal(before)}`;
  return { path: '/messages', query: { q } };
}
