/** What the checks of a sender mean for the reader. */
import type { SenderResults } from '../../sdk/src/api-types.ts';

export interface SenderCheck {
  readonly tone: 'good' | 'bad' | 'plain';
  readonly label: string;
  /** The results by check (RFC 8601), for those who want to know. */
  readonly detail: string;
}

/**
 * DMARC alone speaks of the address that the reader sees (RFC 7489 section 3): SPF and DKIM may pass for another domain.
 *
 * @returns undefined where nothing was checked here
 */
export function judgeSender(auth: SenderResults | undefined): SenderCheck | undefined {
  if (!auth) return undefined;
  const detail = `SPF ${auth.spf} · DKIM ${auth.dkim} · DMARC ${auth.dmarc}`;
  if (auth.dmarc === 'pass') return { tone: 'good', label: 'Sender verified', detail };
  if (['fail', 'permerror'].includes(auth.dmarc)) {
    return { tone: 'bad', label: 'Sender may be forged', detail };
  }
  const isBad = [auth.spf, auth.dkim].some((verdict) => ['fail', 'softfail'].includes(verdict));
  return { tone: isBad ? 'bad' : 'plain', label: 'Sender not verified', detail };
}

/** Whether a choice that was made for this sender's address holds for this mail: its address may be forged. */
export function isTrusted(auth: SenderResults | undefined): boolean {
  return auth === undefined || auth.dmarc === 'pass';
}
