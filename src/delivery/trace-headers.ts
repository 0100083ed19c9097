/** The lines that final delivery puts in front of a message (RFC 5321 section 4.4). */
import type { InboundEnvelope } from './envelope.ts';

/** Long enough for any host name; what is longer is not one. */
const HELO_SHOWN = 255;

const days = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
const months = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

/** RFC 5322 section 3.3 date-time, in UTC. */
export function formatMailDate(at: Date): string {
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${days[at.getUTCDay()]}, ${at.getUTCDate()} ${months[at.getUTCMonth()]} ${at.getUTCFullYear()}`;
  const time = [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()].map(two).join(':');
  return `${day} ${time} +0000`;
}

/** The greeting name is whatever the client chose to say: nothing of it may end the comment or line. */
function printable(text: string, most: number): string {
  return text.replace(/[^A-Za-z0-9.\-_:[\]]/g, '?').slice(0, most) || 'unknown';
}

/** A reverse-path in a header: controls and angle brackets would end it. */
function pathText(path: string): string {
  return path.replace(/[\p{Cc}<>]/gu, '');
}

function addressLiteral(address: string): string {
  return address.includes(':') ? `[IPv6:${address}]` : `[${address}]`;
}

/** The first line of a message that reached its end, ending in CRLF. */
export function returnPath({ from }: Pick<InboundEnvelope, 'from'>): Buffer {
  return Buffer.from(`Return-Path: <${pathText(from)}>\r\n`);
}

/**
 * The Received field, ending in CRLF. The recipient is named only where it is alone: a
 * blind copy must not show to the others (RFC 5321 section 7.2).
 */
export function received(
  { id, to, arrival }: Pick<InboundEnvelope, 'id' | 'to' | 'arrival'>,
  { hostname, at }: { hostname: string; at: Date },
): Buffer {
  const recipient = to.length === 1 && to[0] !== undefined ? `\r\n for <${pathText(to[0])}>` : '';
  const tls =
    arrival.tls === undefined
      ? ''
      : `\r\n (using ${printable(arrival.tls, 100).replaceAll('?', ' ')})`;
  const client = `${printable(arrival.heloName, HELO_SHOWN)} (${addressLiteral(arrival.remoteAddress)})`;
  return Buffer.from(
    `Received: from ${client}${tls}\r\n by ${hostname} with ${arrival.protocol} id ${id}` +
      `${recipient}; ${formatMailDate(at)}\r\n`,
  );
}
