/** `mailto:` URLs (RFC 6068): of what they ask for, whom to write to and what; nothing else. */
import { parseAddresses } from './addresses.ts';

/** Files and other header fields that a URL names are ignored: it comes from a stranger. */
export function readMailto(url: string) {
  const [, people = '', query = ''] = /^mailto:([^?#]*)(?:\?([^#]*))?/i.exec(url) ?? [];
  const parts: Record<string, string> = {};
  for (const pair of query.split('&')) {
    const [name = '', value = ''] = pair.split('=', 2);
    parts[name.toLowerCase()] ??= decode(value);
  }
  return {
    to: parseAddresses([decode(people), parts.to ?? ''].join(',')),
    subject: (parts.subject ?? '').replace(/\p{Cc}+/gu, ' ').slice(0, 500),
    text: (parts.body ?? '').replace(/\r\n?/g, '\n').slice(0, 20_000),
  };
}

/** `+` stands for itself here, unlike in forms. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
