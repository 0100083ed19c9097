/**
 * The DKIM signatures (RFC 6376) of one message, and its ARC chain.
 *
 * mailauth checks and verifies each signature. The message is read here, since mailauth's own reader
 * keeps whole lines, takes quadratic time for long ones and for folds, and asks for one key after the
 * other. Keys are asked for as soon as the header is there, while the body still comes in.
 */
import type { SignatureResult } from 'mailauth/lib/dkim/dkim-verifier.js';
import { BodyHashes } from './body-hashes.ts';
import { isAligned } from './evaluate-dmarc.ts';
import type { Header } from './header.ts';
import type { MessageLookups } from './message-lookups.ts';
import { createVerifier, type MessageVerifier } from './message-verifier.ts';
import { isReadable, readDkimSignature, type Signature, tagOf } from './read-signature.ts';
import { type KnownKeys, MessageKeys } from './signing-keys.ts';
import type { ArcVerdict, DkimResult } from './verdicts.ts';
import { ChainCheck } from './verify-chain.ts';

/** Signatures that are verified; RFC 6376 section 6.1 leaves the limit to the verifier. */
export const MAX_SIGNATURES = 10;

export interface SignatureFinding {
  readonly result: DkimResult;
  /** `''` where it could not be read. */
  readonly domain: string;
  readonly selector: string;
  /** Start of the signature itself, by which it is told from others (RFC 6008). */
  readonly start: string;
  readonly comment: string;
  /** Names of the signed fields in lower case, as often as each is signed. */
  readonly signedFields: readonly string[];
}

export interface SignatureFindings {
  readonly signatures: readonly SignatureFinding[];
  readonly arc: ArcVerdict;
}

/** What is not looked at for its length. */
function tooLong(what: 'header' | 'signature'): SignatureFinding {
  const comment = `${what} too long`;
  return { result: 'policy', domain: '', selector: '', start: '', comment, signedFields: [] };
}

/** What there is to say of a header without a look at the body; undefined where it takes one. */
export function noSignatures({ fields, isWhole }: Header): SignatureFindings | undefined {
  const arc: ArcVerdict = { result: 'none', instance: 0, domain: '' };
  if (!isWhole) return { signatures: [tooLong('header')], arc };
  const hasAny = fields.some(({ key }) => key === 'dkim-signature' || key.startsWith('arc-'));
  return hasAny ? undefined : { signatures: [], arc };
}

export interface SignatureInquiry {
  readonly header: Header;
  readonly authors: readonly string[];
  readonly lookups: MessageLookups;
  readonly knownKeys: KnownKeys;
  /** Nobody can be asked for keys: the work on the body is spared. */
  readonly isBlind: boolean;
}

export class SignatureCheck {
  readonly #verifier: MessageVerifier;
  readonly #signatures: readonly Signature[];
  readonly #unreadable: number;
  readonly #chain: ChainCheck;
  readonly #hashes: BodyHashes;
  readonly #isBlind: boolean;

  /** Chooses what to verify, and asks for the keys. */
  constructor({ header, authors, lookups, knownKeys, isBlind }: SignatureInquiry) {
    const deciding = new Set<string>();
    const keys = new MessageKeys(knownKeys, lookups, deciding);
    const verifier = createVerifier(header.fields, keys);
    this.#verifier = verifier;
    this.#isBlind = isBlind;
    const candidates = header.fields.filter(({ key }) => key === 'dkim-signature');
    const readable = candidates.filter(isReadable);
    this.#unreadable = Math.min(candidates.length - readable.length, MAX_SIGNATURES);
    const { aligned = [], others = [] } = Object.groupBy(
      readable.map((field) => readDkimSignature(verifier, field)),
      ({ domain }) =>
        authors.some((author) => isAligned(domain, author, false)) ? 'aligned' : 'others',
    );
    // Those that DMARC can pass by come first, then those on top, which the last hops made.
    this.#signatures = [...aligned, ...others].slice(0, MAX_SIGNATURES);
    for (const { keyName } of aligned) deciding.add(keyName);
    this.#chain = new ChainCheck(verifier, header);
    const verified = isBlind ? [] : this.#verified();
    this.#hashes = new BodyHashes(verified.map(({ wantedHash }) => wantedHash));
    for (const { keyName } of verified) keys.prefetch(keyName);
    if (!isBlind) for (const keyName of this.#chain.sealKeys) keys.prefetch(keyName);
  }

  /** Takes the next bytes of the body. */
  writeBody(chunk: Buffer): void {
    this.#hashes.write(chunk);
  }

  /** Ends the message. */
  async end(): Promise<SignatureFindings> {
    for (const [key, hash] of this.#hashes.end()) this.#verifier.bodyHashes.set(key, hash);
    const [signatures, arc] = await Promise.all([
      Promise.all(this.#signatures.map((signature) => this.#verify(signature))),
      this.#chain.end(),
    ]);
    const unreadable = Array.from({ length: this.#unreadable }, () => tooLong('signature'));
    return { signatures: [...signatures, ...unreadable], arc };
  }

  #verified(): Signature[] {
    const { newest } = this.#chain;
    const all = newest ? [...this.#signatures, newest] : this.#signatures;
    return all.filter(({ refusal }) => !refusal);
  }

  async #verify(signature: Signature): Promise<SignatureFinding> {
    const { domain, selector, signedFields, list } = signature;
    const start = tagOf(list, 'b').slice(0, 8);
    const about = { domain, selector, start, signedFields };
    if (signature.refusal) return { ...about, ...signature.refusal };
    if (this.#isBlind) return { ...about, result: 'temperror', comment: 'no DNS' };
    return { ...about, ...resultOf(await this.#verifier.verifySignature(list)) };
  }
}

const results = new Set<string>(['pass', 'fail', 'policy', 'neutral', 'temperror', 'permerror']);

function isResult(text: string): text is DkimResult {
  return results.has(text);
}

function resultOf({ status, bodyHash, bodyHashExpecting }: SignatureResult): {
  result: DkimResult;
  comment: string;
} {
  const comment = status.comment || '';
  // RFC 6376 section 6.1.3 step 3 and RFC 8601 section 2.7.1; mailauth says neutral.
  if (bodyHash !== bodyHashExpecting) return { result: 'fail', comment };
  if (status.result === 'pass' && status.underSized) {
    // RFC 6376 section 8.2: whatever was added behind it would count as the signer's own words.
    return { result: 'policy', comment: 'text behind the signed part' };
  }
  return { result: isResult(status.result) ? status.result : 'neutral', comment };
}
