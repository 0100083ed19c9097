/** Range requests and entity tags (RFC 9110 sections 13 and 14). */
import type { ByteRange } from '../mailstore/mailstore.ts';

const SINGLE_RANGE = /^bytes=\s*(?:(\d{1,30})-(\d{1,30})?|-(\d{1,30}))\s*$/i;

/**
 * Reads a Range field for content of `size` octets.
 *
 * @returns undefined where the whole content is to be sent: no field, another unit, not valid, or
 *   several ranges at once, which a server may leave aside (section 14.2)
 */
export function parseRange(
  field: string | undefined,
  size: number,
): ByteRange | 'unsatisfiable' | undefined {
  const match = field === undefined ? null : SINGLE_RANGE.exec(field);
  if (!match) return undefined;
  const [, first, last, suffix] = match;
  if (suffix !== undefined) {
    const length = Math.min(Number(suffix), size);
    return length === 0 ? 'unsatisfiable' : { start: size - length, end: size };
  }
  const start = Number(first);
  const end = last === undefined ? size : Math.min(Number(last) + 1, size);
  // Section 14.1.1: a last position before the first makes the whole field invalid.
  if (last !== undefined && Number(last) < start) return undefined;
  return start >= size ? 'unsatisfiable' : { start, end };
}

/** Whether If-None-Match names the entity tag, by weak comparison (section 13.1.2). */
export function matchesEtag(field: string | undefined, etag: string): boolean {
  if (field === undefined) return false;
  if (field.trim() === '*') return true;
  return field.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag);
}
