/**
 * Numbers, sizes and times as people read them. In tables `12,345`, on tiles `12.3K` with the exact number on hover; what
 * is not known is a dash; a percentage has its base beside it. Times are in the zone that the header shows; days of usage are
 * UTC.
 */
import type { DeliveryError } from '../api/types.ts';
import { zone } from '../remembered.ts';

const number = new Intl.NumberFormat('en');
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** Formats in the chosen zone; a formatter costs a thousand times what formatting does. */
function inZone(options: Intl.DateTimeFormatOptions): (at: number | string) => string {
  const make = (timeZone?: string) =>
    new Intl.DateTimeFormat('en-GB', { ...options, ...(timeZone && { timeZone }) });
  const formats = { local: make(), UTC: make('UTC') };
  return (at) => formats[zone.value].format(new Date(at));
}

const clock = { hour: '2-digit', minute: '2-digit' } as const;
const date = { day: 'numeric', month: 'short' } as const;

/** `23 Nov 2026, 12:53:40 GMT+1`. */
export const formatTime = inZone({
  ...date,
  ...clock,
  year: 'numeric',
  second: '2-digit',
  timeZoneName: 'short',
});
/** `12:53`. */
export const formatClock = inZone(clock);
/** `23 Nov`. */
export const formatDate = inZone(date);
const dateClock = inZone({ ...date, ...clock });
/** `23 Nov 12:53`. */
export const formatDateClock = (at: number | string): string => dateClock(at).replace(',', '');

const day = new Intl.DateTimeFormat('en-GB', { ...date, year: 'numeric', timeZone: 'UTC' });
/** A day of UTC, as usage has them. */
export const formatDay = (at: string): string => day.format(new Date(at));

export const formatNumber = (value: number): string => number.format(value);
export const formatCompact = (value: number): string => compact.format(value);

/** `3.2 % of 1,250`; a dash where there is no base. */
export const formatShare = (part: number, base: number): string =>
  base === 0 ? '–' : `${((100 * part) / base).toFixed(1)} % of ${formatNumber(base)}`;

/** `1 domain`, `2 domains`. */
export function count(amount: number, one: string, many = `${one}s`): string {
  return `${formatNumber(amount)} ${amount === 1 ? one : many}`;
}

const units = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];

/** A number that may not be known. */
export const formatKnown = (
  value: number | undefined,
  format: (value: number) => string = formatNumber,
): string => (value === undefined ? '–' : format(value));

/** Bytes by powers of 1,000, as disks are sold: `1.5 MB`. */
export function formatBytes(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), units.length - 1);
  const amount = bytes / 1000 ** power;
  const digits = power === 0 || amount >= 100 ? 0 : 1;
  return `${amount.toFixed(digits)} ${units[power]}`;
}

const spans: readonly (readonly [seconds: number, name: string])[] = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
];

/** `2 h 5 min`: at most two units, or as many as are asked for. */
export function formatSpan(seconds: number, units = 2): string {
  let left = Math.max(0, Math.round(seconds));
  const parts: string[] = [];
  for (const [size, name] of spans) {
    if (left >= size && parts.length < units) parts.push(`${Math.floor(left / size)} ${name}`);
    left %= size;
  }
  return parts.length === 0 ? `${left} s` : parts.join(' ');
}

const DAY_MS = 86_400_000;

/** `5 min ago`, `in 2 h`; further away `23 Nov 12:53`. */
export function formatWhen(at: string, now = Date.now()): string {
  const age = now - Date.parse(at);
  if (Math.abs(age) >= DAY_MS) return formatDateClock(at);
  if (Math.abs(age) < 5000) return 'now';
  const span = formatSpan(Math.abs(age) / 1000, 1);
  return age > 0 ? `${span} ago` : `in ${span}`;
}

/** `webhook_then_store` as `Webhook then store`. */
export function formatName(name: string): string {
  const words = name.replaceAll(/[_-]+/g, ' ').trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** What a receiver answered, in one line. */
export const describeError = ({ status, text }: DeliveryError): string =>
  status === undefined ? text : `${status} ${text}`;
