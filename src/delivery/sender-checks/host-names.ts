/** Names of hosts as senders write them: hostile, and up to 64 KiB long. */
import { toALabel } from 'mailauth/lib/tools.js';

/** RFC 1035 section 2.3.4, in presentation form. */
export const NAME_MAX = 253;
const LABEL_MAX = 63;

/**
 * The name without the root's dot, or dots. A loop, since a pattern that ends in `$` is tried at each
 * dot anew: seconds for a name of nothing else.
 */
export function withoutRoot(name: string): string {
  let end = name.length;
  while (name.charAt(end - 1) === '.') end--;
  return name.slice(0, end);
}

/**
 * The name IDNA-encoded (RFC 5890 section 2.3.2.1). One that is too long for DNS stays as it is, which
 * is as good: nothing is found by it, and to encode it takes time that grows with its square.
 */
export function toAsciiName(name: string): string {
  const fits =
    name.length <= NAME_MAX && name.split('.').every(({ length }) => length <= LABEL_MAX);
  return fits ? toALabel(name) : name;
}
