/** Dates, sizes and names as people read them, in the browser's language. */
import type { Address } from '../../sdk/src/mail/client.ts';

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const dayOfYear = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'short' });
const number = new Intl.NumberFormat();

/** The time today, the day this year, else the date. */
export function formatWhen(at: string, now: Date = new Date()): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return '';
  if (date.toDateString() === now.toDateString()) return clock.format(date);
  return (date.getFullYear() === now.getFullYear() ? day : dayOfYear).format(date);
}

/** Day and time, as a title or in the head of a message. */
export function formatFull(at: string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? at : full.format(date);
}

export function formatNumber(value: number): string {
  return number.format(value);
}

/** @param octets of a file */
export function formatSize(octets: number): string {
  if (octets < 1000) return `${octets} B`;
  if (octets < 999_500) return `${Math.round(octets / 1000)} kB`;
  return `${number.format(Math.round(octets / 100_000) / 10)} MB`;
}

/** "1 message", "2 messages" */
export function count(amount: number, noun: string): string {
  return `${formatNumber(amount)} ${noun}${amount === 1 ? '' : 's'}`;
}

/** The name that somebody goes by: their own, or the address. */
export function nameOf({ name, address }: Address): string {
  return name?.trim() || address || 'unknown';
}

/** A short name for a row: the first name of several, the whole one of a single person. */
export function namesOf(people: readonly Address[] | undefined): string {
  return (people ?? []).map(nameOf).join(', ') || 'nobody';
}
