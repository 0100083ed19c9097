/**
 * Sender Rewriting Scheme: the envelope sender of a forwarded message becomes an address at the forwarding domain, so
 * that SPF passes at the far end and bounces come back here, where the original sender is read from it.
 *
 * - `SRS0=<tag>=<day>=<domain>=<local>` contains a sender.
 * - `SRS1=<tag>=<first>=<rest>` contains one that another forwarder has already rewritten: a bounce goes directly to
 *   that first forwarder, `SRS0<rest>@<first>`.
 * - `SRS0=<tag>=<day>==<digest>` contains only a digest of the sender: for senders that do not fit into the 64 octets
 *   of a local part (RFC 5321 section 4.5.3.1.1), such as the bounce addresses of large mailers, or that no address of
 *   ours can contain. To find the sender, look for the message whose sender has the same digest
 *   ({@link SenderRewriting.digestOf}).
 *
 * MTAs change the case of local parts, so every part is compared case-insensitively; tag, day and digest are base32.
 * The tag is 40 bits of an HMAC over the forwarding domain and all that follows it. Only two digits of the day are
 * written, but the tag covers the whole day, so that an old address does not become valid again when the digits
 * repeat.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { SigningKeys } from '../../platform/nodes/nodes.ts';
import { DAY_MS, type EpochMs } from '../../platform/time/time.ts';
import { formatAddress, parseAddress } from '../../protocols/message/message.ts';

/** How long bounces are accepted: MTAs give up after 5 days (RFC 5321 section 4.5.4.1). */
const VALID_DAYS = 10;
/** Clocks of nodes differ around midnight: a day that has not begun here yet is valid. */
const AHEAD_DAYS = 1;
/** The number of days after which two digits of base32 repeat. */
const CYCLE_DAYS = 1024;
/** RFC 5321 section 4.5.3.1.1. */
const LOCAL_MAX = 64;
const TAG_LENGTH = 8;
const DIGEST_LENGTH = 16;
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** Local parts of rewritten senders: every local part that begins like this is reserved for them. */
export const REWRITTEN = /^srs[01][-+=]/i;
const OWN_SRS0 = /^srs0=([a-z2-7]{8})=([a-z2-7]{2})=(.+)$/isu;
const OWN_SRS1 = /^srs1=([a-z2-7]{8})=([^=]+)=(.+)$/isu;
/** Addresses of other forwarders, who choose the separator after `SRS0`. */
const FOREIGN_SRS0 = /^srs0([-+=].+)$/isu;
const FOREIGN_SRS1 = /^srs1[-+=][^=]+=([^=]+)=([-+=].+)$/isu;

/** The recipient of a bounce to a rewritten address. */
export type ReversedSender =
  | { readonly kind: 'original'; readonly sender: string }
  /** Valid, but the sender was too long to be encoded. */
  | { readonly kind: 'digest'; readonly digest: string }
  | { readonly kind: 'forged' | 'expired' | 'not_srs' };

export interface SenderRewritingOptions {
  /** Secret keys of at least 32 bytes, the same on all nodes. */
  readonly key: SigningKeys;
  readonly now?: () => EpochMs;
}

/** Rewrites senders of forwarded mail, and reads them again where a bounce comes back. */
export class SenderRewriting {
  readonly #key: SigningKeys;
  readonly #now: () => number;

  constructor(options: SenderRewritingOptions) {
    this.#key = options.key;
    this.#now = options.now ?? Date.now;
  }

  /**
   * The envelope sender for forwarding. The null sender stays null, and a sender at the forwarding domain is not
   * changed.
   *
   * @param sender reverse-path without angle brackets, `''` for the null sender; hostile text
   * @param domain the forwarding domain, lower case, IDNA-encoded
   */
  forwardAddress(sender: string, domain: string): string {
    if (sender === '') return '';
    const address = parseAddress(sender);
    if (address?.domain === domain) return sender;
    const carried = address && this.#carry(address.local, address.domain, domain);
    const rewritten = (carried && fitting(carried, domain)) ?? this.#short(sender, domain);
    // A domain name of 220 characters leaves no room for any sender: nobody can get a bounce.
    return rewritten ?? '';
  }

  /**
   * Reads an address that mail came to.
   *
   * @param local local part without its quoting, as `parseAddress` returns it
   * @param domain the domain it was at, lower case, IDNA-encoded
   */
  reverse(local: string, domain: string): ReversedSender {
    if (!REWRITTEN.test(local)) return { kind: 'not_srs' };
    const [, tag1 = '', first = '', rest = ''] = OWN_SRS1.exec(local) ?? [];
    if (tag1 !== '') return this.#reverseSrs1(tag1, first, rest, domain);
    const [, tag = '', digits = '', carried = ''] = OWN_SRS0.exec(local) ?? [];
    const today = this.#today();
    const day = wholeDay(digits, today);
    if (!this.#isTag(tag, 'SRS0', domain, day, carried)) return { kind: 'forged' };
    if (today - day > VALID_DAYS) return { kind: 'expired' };
    if (carried.startsWith('=')) return { kind: 'digest', digest: carried.slice(1).toUpperCase() };
    const split = carried.indexOf('=');
    return original(carried.slice(split + 1), carried.slice(0, split).toLowerCase());
  }

  /** The digest in the address of a sender that does not fit. */
  digestOf(sender: string): string {
    return mac(this.#key[0], 'digest', sender).slice(0, DIGEST_LENGTH);
  }

  #carry(local: string, senderDomain: string, domain: string): string | undefined {
    // Our commands allow no angle bracket in an address, not even in a quoted string.
    if (/[<>]/.test(local)) return undefined;
    const [, hop, behind] = FOREIGN_SRS1.exec(local) ?? [];
    const firstHop = hop === undefined ? undefined : parseAddress(`a@${hop}`)?.domain;
    if (firstHop !== undefined && behind !== undefined) return this.#srs1(firstHop, behind, domain);
    const rest = FOREIGN_SRS0.exec(local)?.[1];
    if (rest !== undefined) return this.#srs1(senderDomain, rest, domain);
    return this.#srs0(`${senderDomain}=${local}`, domain);
  }

  #srs0(carried: string, domain: string): string {
    const day = this.#today();
    const tag = this.#tag('SRS0', domain, day, carried);
    return `SRS0=${tag}=${toBase32(day % CYCLE_DAYS, 2)}=${carried}`;
  }

  /** The rest already has a day, which the first forwarder checks. */
  #srs1(first: string, rest: string, domain: string): string {
    return `SRS1=${this.#tag('SRS1', domain, first, rest)}=${first}=${rest}`;
  }

  #short(sender: string, domain: string): string | undefined {
    return fitting(this.#srs0(`=${this.digestOf(sender)}`, domain), domain);
  }

  #reverseSrs1(tag: string, first: string, rest: string, domain: string): ReversedSender {
    if (!this.#isTag(tag, 'SRS1', domain, first, rest)) return { kind: 'forged' };
    const hop = first.toLowerCase();
    // The message had come back to its first forwarder: the way back is short.
    return hop === domain ? this.reverse(`SRS0${rest}`, domain) : original(`SRS0${rest}`, hop);
  }

  #today(): number {
    return Math.floor(this.#now() / DAY_MS);
  }

  #isTag(tag: string, ...covered: (string | number)[]): boolean {
    const given = Buffer.from(tag.toUpperCase());
    return this.#key.some((key) => {
      const expected = Buffer.from(mac(key, ...covered).slice(0, TAG_LENGTH));
      return given.length === expected.length && timingSafeEqual(given, expected);
    });
  }

  #tag(...covered: (string | number)[]): string {
    return mac(this.#key[0], ...covered).slice(0, TAG_LENGTH);
  }
}

function mac(key: string, ...covered: (string | number)[]): string {
  const text = covered.join('\0').toLowerCase();
  const digest = createHmac('sha256', key).update(text).digest();
  return Array.from(digest.subarray(0, DIGEST_LENGTH), (byte) => BASE32[byte % 32]).join('');
}

/** The address, if SMTP allows its length. */
function fitting(local: string, domain: string): string | undefined {
  const address = formatAddress(local, domain);
  // The octets of the local part as it is written, quotes included.
  if (Buffer.byteLength(address) - domain.length - 1 > LOCAL_MAX) return undefined;
  return parseAddress(address) && address;
}

function original(local: string, domain: string): ReversedSender {
  const sender = formatAddress(local, domain);
  return parseAddress(sender) ? { kind: 'original', sender } : { kind: 'forged' };
}

/** The last day with these digits that has begun by tomorrow. */
function wholeDay(digits: string, today: number): number {
  const latest = today + AHEAD_DAYS;
  return latest - ((((latest - fromBase32(digits)) % CYCLE_DAYS) + CYCLE_DAYS) % CYCLE_DAYS);
}

function toBase32(value: number, length: number): string {
  return Array.from({ length }, (_, at) => BASE32[(value >> (5 * (length - 1 - at))) & 31]).join(
    '',
  );
}

function fromBase32(text: string): number {
  let value = 0;
  for (const digit of text.toUpperCase()) value = value * 32 + BASE32.indexOf(digit);
  return value;
}
