/** What the checks found out about the sender of a message. */
import type { EpochMs } from '../../../platform/time/time.ts';

/** The parts of the SMTP dialogue that the checks look at. */
export interface SendingClient {
  /** Reverse-path without angle brackets, `''` for the null sender. */
  readonly from: string;
  readonly heloName: string;
  readonly remoteAddress: string;
  /** When the message began to come: a signature must not have expired by then. All nodes agree on it, whatever their clocks say. */
  readonly at: EpochMs;
}

/** RFC 8601 section 2.7.2. */
export const spfResults = [
  'none',
  'neutral',
  'pass',
  'fail',
  'softfail',
  'temperror',
  'permerror',
] as const;
export type SpfResult = (typeof spfResults)[number];

/** RFC 8601 section 2.7.1, except `none`: a missing signature has no result. */
export type DkimResult = 'pass' | 'fail' | 'policy' | 'neutral' | 'temperror' | 'permerror';

/** RFC 7489 section 11.2. */
export type DmarcResult = 'none' | 'pass' | 'fail' | 'temperror' | 'permerror';

/** What a domain owner asks for where DMARC fails (RFC 7489 section 6.3, tags p and sp). */
export type DmarcPolicy = 'none' | 'quarantine' | 'reject';

/** What is to be done with the message: stored as usual, put into Junk, deferred, or refused at DATA. */
export type SenderAction = 'accept' | 'quarantine' | 'defer' | 'reject';

export interface SpfVerdict {
  readonly result: SpfResult;
  /** The domain that SPF evaluated: of MAIL FROM, or of HELO for the null sender. */
  readonly domain: string;
}

export interface DkimVerdict {
  readonly result: DkimResult;
  /** The signing domain (d=), lower case and IDNA-encoded; `''` where it could not be read. */
  readonly domain: string;
  readonly selector: string;
  /** Whether the signing domain is aligned with an author's (RFC 7489 section 3.1.1). */
  readonly aligned: boolean;
}

export interface DmarcVerdict {
  readonly result: DmarcResult;
  /** The policy that applies to `domain`, also where DMARC passed; `none` where there is no record. */
  readonly policy: DmarcPolicy;
  /** The author domain; of several, the one that decided. `''` where there is none. */
  readonly domain: string;
}

export interface ArcVerdict {
  /** RFC 8617 section 4.4. */
  readonly result: 'none' | 'pass' | 'fail';
  /** How many sets the chain has; 0 without a chain. */
  readonly instance: number;
  /** The domain of the last sealer (d= of the newest ARC-Seal); `''` without a chain. */
  readonly domain: string;
}

export interface Verdicts {
  readonly spf: SpfVerdict;
  /** One for each signature that was read; empty for a message without signatures. */
  readonly dkim: readonly DkimVerdict[];
  readonly dmarc: DmarcVerdict;
  readonly arc: ArcVerdict;
  readonly action: SenderAction;
  /**
   * Whether a signature aligned with every author passes, and still passes where the message is forwarded
   * unchanged with lines of ours on top: then it passes DMARC at the next host.
   */
  readonly survivesForwarding: boolean;
}

/** The verdicts, and the field that reports them in the message. */
export interface Judgement extends Verdicts {
  /** The header field to put on top, folded, its last CRLF included; at most {@link RESULTS_MAX}. */
  readonly authenticationResults: string;
  /** The client's name in reverse DNS; absent where it was not looked up or not found. */
  readonly clientName?: string | undefined;
}

/** Octets of the longest `authenticationResults`. */
export const RESULTS_MAX = 16 * 1024;
