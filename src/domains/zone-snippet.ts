/** DNS records as lines of a zone file (RFC 1035 section 5.1), to paste. */
import type { DnsRecord } from './dns-records.ts';

const TTL = 3600;
/** A character string on the wire has one octet for its length (RFC 1035 section 3.3). */
const STRING_MAX = 255;

/**
 * Writes the records that a domain needs. Names are absolute, so that the lines fit into the zone of
 * the domain and into that of a domain above it, whatever its $ORIGIN.
 */
export function writeZone(domain: string, records: readonly DnsRecord[]): string {
  const lines = records.map((record) => {
    const owner = record.host === '@' ? `${domain}.` : `${record.host}.${domain}.`;
    return `${owner}\t${TTL}\tIN\t${record.recordType}\t${writeData(record)}`;
  });
  return `${[`; What ${domain} needs for its mail`, ...lines].join('\n')}\n`;
}

function writeData({ recordType, priority, expectedValue }: DnsRecord): string {
  if (recordType === 'MX') return `${priority ?? 0} ${expectedValue}.`;
  const bytes = Buffer.from(expectedValue, 'utf8');
  const strings: string[] = [];
  for (let start = 0; start < bytes.length; start += STRING_MAX) {
    strings.push(quote(bytes.subarray(start, start + STRING_MAX)));
  }
  return strings.join(' ') || '""';
}

/** One quoted character string; what is not plain ASCII as `\DDD` (RFC 1035 section 5.1). */
function quote(bytes: Buffer): string {
  const text = [...bytes].map((byte) => {
    const char = String.fromCharCode(byte);
    if (char === '"' || char === '\\') return `\\${char}`;
    return byte >= 0x20 && byte < 0x7f ? char : `\\${String(byte).padStart(3, '0')}`;
  });
  return `"${text.join('')}"`;
}
