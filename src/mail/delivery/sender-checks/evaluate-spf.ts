/** Whether the client may send for the domain that it gives as the sender's (RFC 7208). */
import { toDnsName } from '../../../protocols/message/message.ts';
import { evaluateSpf as evaluate } from '../../../protocols/spf/spf.ts';
import type { MessageLookups, Weight } from './lookups.ts';
import { type SpfVerdict, spfResults } from './verdicts.ts';

/** The parts of the SMTP dialogue that SPF looks at. */
export interface SendingClient {
  /** Reverse-path without angle brackets, `''` for the null sender. */
  readonly from: string;
  readonly heloName: string;
  readonly remoteAddress: string;
}

/**
 * The domain whose record is evaluated: of MAIL FROM, or of HELO for the null sender, whose identity is
 * `postmaster@` that domain (RFC 7208 section 2.4). `''` where it is not a domain, such as an address literal.
 */
export function spfDomain({ from, heloName }: SendingClient): string {
  const domain = from === '' ? heloName : from.slice(from.lastIndexOf('@') + 1);
  return toDnsName(domain.trim()) ?? '';
}

export interface SpfQuestion {
  readonly client: SendingClient;
  readonly lookups: MessageLookups;
  /** Our own name. */
  readonly hostname: string;
  readonly weight: Weight;
  /** DNS cannot be asked now. */
  readonly dnsIsDown: boolean;
}

/**
 * Evaluates SPF. The limits of RFC 7208 section 4.6.4 hold: ten terms that ask DNS, two of them without
 * an answer.
 */
export async function evaluateSpf(question: SpfQuestion): Promise<SpfVerdict> {
  const { client, lookups, hostname, weight, dnsIsDown } = question;
  const domain = spfDomain(client);
  // RFC 7208 section 4.3.
  if (!domain.includes('.')) return { result: 'none', domain };
  if (dnsIsDown) return { result: 'temperror', domain };
  const at = client.from.lastIndexOf('@');
  const { result } = await evaluate({
    // The domain that is evaluated is the one that is compared with the author's.
    sender: client.from === '' ? '' : `${client.from.slice(0, at)}@${domain}`,
    helo: client.from === '' ? domain : client.heloName,
    ip: client.remoteAddress,
    mta: hostname,
    ask: (name, type) => lookups.ask(name, type, weight),
  });
  return { result: spfResults.find((one) => one === result) ?? 'permerror', domain };
}
