/** `mailto:` URLs (RFC 6068): of what they ask for, whom to write to and what; nothing else. */
import { decodePercents } from '../reading/stranger-text.ts';
import { parseAddresses } from './addresses.ts';

/** Files and other header fields that a URL names are ignored: it comes from a stranger. */
export function readMailto(url: string) {
  const [, people = '', query = ''] = /^mailto:([^?#]*)(?:\?([^#]*))?/i.exec(url) ?? [];
  const parts: Record<string, string> = {};
  for (const pair of query.split('&')) {
    const [name = '', value = ''] = pair.split('=', 2);
    // `+` stands for itself here, unlike in forms.
    parts[name.toLowerCase()] ??= decodePercents(value);
  }
  return {
    to: parseAddresses([decodePercents(people), parts.to ?? ''].join(',')),
    subject: (parts.subject ?? '').replace(/\p{Cc}+/gu, ' ').slice(0, 500),
    text: (parts.body ?? '').replace(/\r\n?/g, '\n').slice(0, 20_000),
  };
}
