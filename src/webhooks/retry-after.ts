/** Days and months as dates of HTTP have them. */
const DATE =
  /^(?:[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4}|[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2}) \d{2}:\d{2}:\d{2} GMT$/;
const ASCTIME = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/;

/**
 * Reads a Retry-After field (RFC 9110 section 10.2.3): seconds, or a date in one of the three forms
 * of RFC 9110 section 5.6.7.
 *
 * @param now milliseconds since 1970
 * @returns seconds from now, at least 0; undefined where there is no readable field
 */
export function readRetryAfter(field: string | undefined, now: number): number | undefined {
  const text = field?.trim() ?? '';
  if (/^\d{1,10}$/.test(text)) return Number(text);
  if (!DATE.test(text) && !ASCTIME.test(text)) return undefined;
  const at = Date.parse(ASCTIME.test(text) ? `${text} GMT` : text);
  return Number.isNaN(at) ? undefined : Math.max(Math.ceil((at - now) / 1000), 0);
}
