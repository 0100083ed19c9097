/** Numbers, sizes and times as people read them. */
import type { DeliveryError } from '../api/types.ts';

const number = new Intl.NumberFormat('en');
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const dateTime = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
});
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });

export const formatNumber = (value: number): string => number.format(value);
export const formatCompact = (value: number): string => compact.format(value);
export const formatTime = (at: string): string => dateTime.format(new Date(at));
export const formatDay = (at: string): string => day.format(new Date(at));

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

/** `5 min ago`, `in 2 h`. */
export function formatAgo(at: string, now = Date.now()): string {
  const seconds = (now - Date.parse(at)) / 1000;
  if (Math.abs(seconds) < 5) return 'now';
  const span = formatSpan(Math.abs(seconds), 1);
  return seconds > 0 ? `${span} ago` : `in ${span}`;
}

/** `webhook_then_store` as `Webhook then store`. */
export function formatName(name: string): string {
  const words = name.replaceAll(/[_-]+/g, ' ').trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** What a receiver answered, in one line. */
export const describeError = ({ status, text }: DeliveryError): string =>
  status === undefined ? text : `${status} ${text}`;
