/** Dates, sizes, amounts and errors as people read them, in the browser's language. */
import { ConnectionError } from '../../sdk/src/errors.ts';

/** The time of a day. */
export const formatClock = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' }).format;
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const dayOfYear = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const soon = new Intl.DateTimeFormat(undefined, {
  weekday: 'short',
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
});
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'short' });

/** The time today, the day this year, else the date. */
export function formatWhen(at: string): string {
  const date = new Date(at);
  const now = new Date();
  if (Number.isNaN(date.getTime())) return '';
  if (date.toDateString() === now.toDateString()) return formatClock(date);
  return (date.getFullYear() === now.getFullYear() ? day : dayOfYear).format(date);
}

/** Day and time of what is going to be. */
export const formatSoon = (at = ''): string => soon.format(new Date(at));

/** Day and time, as a title or in the head of a message. */
export function formatFull(at: string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? at : full.format(date);
}

/** @param octets of a file */
export function formatSize(octets: number): string {
  if (octets < 1000) return `${octets} B`;
  if (octets < 999_500) return `${Math.round(octets / 1000)} kB`;
  return `${(Math.round(octets / 100_000) / 10).toLocaleString()} MB`;
}

/** "1 message", "2 messages", "50+ messages" */
export function count(amount: number, noun: string, more = ''): string {
  return `${amount.toLocaleString()}${more} ${noun}${amount === 1 ? '' : 's'}`;
}

/** In words: a refusal of the server begins with its code, which is for programs, as is what browsers say of the network. */
export function reasonOf(error: unknown): string {
  if (error instanceof ConnectionError && error.cause instanceof TypeError) {
    return 'no answer from the server';
  }
  return error instanceof Error ? error.message.replace(/^\d{3} \w+: /, '') : String(error);
}
