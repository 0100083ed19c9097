/**
 * The signatures of one message: DKIM (RFC 6376), the ARC chain (RFC 8617), and whether they still pass
 * after we have forwarded it.
 */
import type { EpochMs } from '../../../platform/time/time.ts';
import {
  type ArcSet,
  BodyHash,
  type Canonicalization,
  canonicalField,
  type Header,
  type HeaderField,
  readArcSets,
  signedText,
  type TagList,
} from '../../../protocols/message/message.ts';
import { isAligned } from './evaluate-dmarc.ts';
import { type LookupAnswer, type MessageLookups, textRecords, type Weight } from './lookups.ts';
import {
  type FoundKey,
  isGoodSignature,
  keyNameOf,
  readSignature,
  readSigningKey,
  readTags,
  type Signature,
  type SignatureOutcome,
  signingDomain,
  tagOf,
  withoutSignature,
} from './read-signature.ts';
import type { ArcVerdict } from './verdicts.ts';

/** The most signatures that are verified; RFC 6376 section 6.1 leaves the limit to the verifier. */
const MAX_SIGNATURES = 10;

export interface SignatureFinding
  extends SignatureOutcome,
    Pick<Signature, 'domain' | 'selector' | 'signedFields'> {
  /** Start of the signature, which tells it from others (RFC 6008). */
  readonly start: string;
}

export interface SignatureFindings {
  readonly signatures: readonly SignatureFinding[];
  readonly arc: ArcVerdict;
}

export interface SignatureChecksOptions {
  readonly header: Header;
  readonly authors: readonly string[];
  readonly lookups: MessageLookups;
  /** DNS cannot be asked for keys: the body is not hashed either. */
  readonly dnsIsDown: boolean;
  /** A signature that expired before this does not pass. */
  readonly now: EpochMs;
}

/** The result for a signature that is not verified because the header is longer than the part that is read. */
const tooLong: SignatureFinding = {
  result: 'policy',
  domain: '',
  selector: '',
  start: '',
  comment: 'header too long',
  signedFields: [],
};

/** Verifies the signatures of a message while its body comes in. */
export class SignatureCheck {
  readonly #options: SignatureChecksOptions;
  readonly #signatures: readonly Signature[];
  readonly #chain: ArcChain;
  readonly #hashes: ReadonlyMap<Canonicalization, BodyHash>;

  /** Chooses the signatures to verify, and looks up their keys while the body comes in. */
  constructor(options: SignatureChecksOptions) {
    const { header, authors, now, dnsIsDown } = options;
    this.#options = options;
    const fields = header.isWhole ? header.fields : [];
    const all = fields.filter(({ name }) => name === 'dkim-signature');
    this.#signatures = chooseSignatures(all, authors).map(({ field, list }) =>
      readSignature(field, 'dkim', now, list),
    );
    this.#chain = new ArcChain(fields, now);
    const { newest } = this.#chain;
    const verified = [...this.#signatures, ...(newest ? [newest] : [])].filter(
      ({ refusal }) => !refusal && !dnsIsDown,
    );
    this.#hashes = new Map(verified.map(({ bodyCanon }) => [bodyCanon, new BodyHash(bodyCanon)]));
    const sealKeys = dnsIsDown ? [] : this.#chain.sealKeys;
    for (const name of [...verified.map(({ keyName }) => keyName), ...sealKeys])
      void this.#keyAt(name);
  }

  /** Takes the next bytes of the body. */
  writeBody(chunk: Buffer): void {
    for (const hash of this.#hashes.values()) hash.write(chunk);
  }

  /** Ends the message. */
  async end(): Promise<SignatureFindings> {
    const { isWhole } = this.#options.header;
    const hashes = new Map(Array.from(this.#hashes, ([canon, hash]) => [canon, hash.end()]));
    const verifyOne = (signature: Signature) =>
      this.#verify(signature, hashes.get(signature.bodyCanon));
    const [signatures, arc] = await Promise.all([
      Promise.all(
        this.#signatures.map(async (signature) => ({
          ...(await verifyOne(signature)),
          domain: signature.domain,
          selector: signature.selector,
          start: signature.signature.slice(0, 8),
          signedFields: signature.signedFields,
        })),
      ),
      this.#chain.verify(verifyOne, (name) => this.#keyAt(name)),
    ]);
    return { signatures: isWhole ? signatures : [tooLong], arc };
  }

  async #verify(
    signature: Signature,
    body: { hash: string; length: number } | undefined,
  ): Promise<SignatureOutcome> {
    if (signature.refusal) return signature.refusal;
    if (!body) return { result: 'temperror', comment: 'no DNS' };
    const { bodyLength = body.length } = signature;
    // RFC 6376 section 8.2: text added after the signed part would look like the signer's own.
    if (bodyLength < body.length)
      return { result: 'policy', comment: 'text behind the signed part' };
    // RFC 6376 section 6.1.3 step 3 and RFC 8601 section 2.7.1.
    if (bodyLength > body.length || signature.bodyHash !== body.hash) {
      return { result: 'fail', comment: 'body hash did not verify' };
    }
    const key = await this.#keyAt(signature.keyName);
    if ('problem' in key) {
      const result = key.isTemporary ? 'temperror' : key.isWeak ? 'policy' : 'neutral';
      return { result, comment: key.problem };
    }
    if (key.type !== signature.type) return { result: 'neutral', comment: 'key of another type' };
    if (key.isStrict && signature.isForSubdomain) {
      return { result: 'neutral', comment: 'key not for subdomains' };
    }
    const { field, signedFields, headerCanon } = signature;
    const { fields } = this.#options.header;
    const text = signedText(fields, signedFields, withoutSignature(field.text), headerCanon);
    const isGood = await isGoodSignature(key, text, signature.signature);
    return isGood ? { result: 'pass', comment: '' } : { result: 'fail', comment: 'bad signature' };
  }

  async #keyAt(name: string): Promise<FoundKey> {
    return keyIn(await this.#options.lookups.ask(name, 'TXT', this.#weightOf(name)));
  }

  /** DMARC depends on the keys of the authors' domains. */
  #weightOf(name: string): Weight {
    const { authors } = this.#options;
    const isDeciding = this.#signatures.some(
      ({ keyName, domain }) =>
        keyName === name && authors.some((author) => isAligned(domain, author, false)),
    );
    return isDeciding ? 'deciding' : 'other';
  }
}

/**
 * The signatures to verify: first those that can make DMARC pass, then the topmost, which the last hops added. Of the
 * others no more than the tags is read: a message may have a thousand.
 */
function chooseSignatures<Field extends HeaderField>(
  fields: readonly Field[],
  authors: readonly string[],
): { field: Field; list: TagList; isAuthors: boolean }[] {
  const all = fields.map((field) => {
    const list = readTags(field);
    const domain = signingDomain(list);
    return { field, list, isAuthors: authors.some((author) => isAligned(domain, author, false)) };
  });
  // The sort is stable.
  return all.sort((a, b) => Number(b.isAuthors) - Number(a.isAuthors)).slice(0, MAX_SIGNATURES);
}

/**
 * The keys of answers that are cached: OpenSSL takes longer to read an RSA key than to verify with it. A key takes 3 KB:
 * 20 MB for a cache that is full of them.
 */
const readKeys = new WeakMap<LookupAnswer, FoundKey>();

/** The most records at a selector that are read. */
const RECORDS_MAX = 4;

/**
 * The key in an answer of DNS. It is read once, and kept for as long as the answer is. A selector has one record; what
 * follows from more RFC 6376 section 3.6.2.2 leaves open. As in Rspamd, the first that is a key counts: of a key beside a
 * stray text DNS may tell either first.
 */
export function keyIn(answer: LookupAnswer): FoundKey {
  const kept = readKeys.get(answer);
  if (kept) return kept;
  if (answer.kind === 'unanswered') return { problem: 'no answer for the key', isTemporary: true };
  const found = textRecords(answer).slice(0, RECORDS_MAX).map(readSigningKey);
  const key = found.find((one) => !('problem' in one)) ?? found[0] ?? { problem: 'no key' };
  readKeys.set(answer, key);
  return key;
}

/* The ARC chain of a message: who passed it on, and what they had found (RFC 8617). */

/** A set whose seal can be verified. */
interface SealedSet {
  readonly fields: ArcSet;
  readonly domain: string;
  readonly keyName: string;
  readonly algorithm: string;
  /** Base64. */
  readonly signature: string;
}

/** @returns undefined where the seal is not valid (RFC 8617 section 5.2 step 3) */
function readSeal(fields: ArcSet, at: number): SealedSet | undefined {
  const list = readTags(fields[2]);
  const { repeated } = list;
  if (repeated !== undefined || tagOf(list, 'h') !== '') return undefined;
  if (tagOf(list, 'cv').toLowerCase() !== (at === 0 ? 'none' : 'pass')) return undefined;
  const domain = signingDomain(list);
  const keyName = keyNameOf(list, domain);
  if (domain === '' || keyName === '') return undefined;
  const algorithm = tagOf(list, 'a').toLowerCase();
  return { fields, domain, keyName, algorithm, signature: tagOf(list, 'b') };
}

/** The sets in order; undefined where the chain is broken. */
function readSealedSets(fields: readonly HeaderField[]): SealedSet[] | undefined {
  const sets = readArcSets(fields)?.map(readSeal);
  return sets?.every((set) => set !== undefined) ? sets : undefined;
}

class ArcChain {
  /** Undefined where the sets do not form a chain. */
  readonly #sets: readonly SealedSet[] | undefined;
  /** The newest ARC-Message-Signature: it must verify for the message as it came. */
  readonly newest: Signature | undefined;

  constructor(fields: readonly HeaderField[], now: EpochMs) {
    this.#sets = readSealedSets(fields);
    const newest = this.#sets?.at(-1);
    this.newest = newest && readSignature(newest.fields[1], 'arc', now);
  }

  /** Names of the keys of all seals. */
  get sealKeys(): string[] {
    return (this.#sets ?? []).map(({ keyName }) => keyName);
  }

  /**
   * Verifies the chain (RFC 8617 section 5.2). All failures are permanent, also those of DNS (section
   * 5.2.1).
   */
  async verify(
    verifySignature: (signature: Signature) => Promise<SignatureOutcome>,
    keyAt: (name: string) => Promise<FoundKey>,
  ): Promise<ArcVerdict> {
    const sets = this.#sets;
    if (!sets) return { result: 'fail', instance: 0, domain: '' };
    const last = sets.at(-1);
    if (!last || !this.newest) return { result: 'none', instance: 0, domain: '' };
    const about = { instance: sets.length, domain: last.domain };
    const { result } = await verifySignature(this.newest);
    if (result !== 'pass') return { result: 'fail', ...about };
    // Each field once: of 50 sets each seal covers all before it, and a header of 256 KB took a tenth of a second.
    const texts = sets.map(({ fields }) => fields.map(canonicalText));
    const seals = await Promise.all(
      sets.map((set, at) => isSealed(set, texts.slice(0, at + 1).flat(), keyAt)),
    );
    return { result: seals.every(Boolean) ? 'pass' : 'fail', ...about };
  }
}

const canonicalText = ({ text }: Pick<HeaderField, 'text'>) => canonicalField(text, 'relaxed');

/**
 * Whether the seal of a set covers this and all sets before it (RFC 8617 section 5.1.1).
 *
 * @param texts of their fields, with the seal itself
 */
async function isSealed(
  { fields, keyName, algorithm, signature }: SealedSet,
  texts: readonly string[],
  keyAt: (name: string) => Promise<FoundKey>,
): Promise<boolean> {
  const key = await keyAt(keyName);
  if ('problem' in key || algorithm !== `${key.type}-sha256`) return false;
  const seal = canonicalText({ text: withoutSignature(fields[2].text) });
  return isGoodSignature(key, [...texts.slice(0, -1), seal].join('\r\n'), signature);
}

/* Whether a message still passes DMARC at the next host when we forward it unchanged. */

/** Fields that we put on top of a message. */
const ADDED = [
  'received',
  'return-path',
  'delivered-to',
  'authentication-results',
  'dkim-signature',
  'arc-seal',
  'arc-message-signature',
  'arc-authentication-results',
];

const RESULTS = 'authentication-results';

/**
 * Whether a signature still passes after we forwarded the message. A signer can sign a name more often than it
 * occurs, so that no field of that name can be added (RFC 6376 section 5.4.2).
 *
 * @param removedResults whether an Authentication-Results field was removed from the message
 */
export function survivesForwarding(
  { result, signedFields }: SignatureFinding,
  { fields }: Header,
  removedResults: boolean,
): boolean {
  if (result !== 'pass' || (removedResults && signedFields.includes(RESULTS))) return false;
  return ADDED.every((name) => {
    const signed = signedFields.filter((field) => field === name).length;
    return signed === 0 || signed <= fields.filter((field) => field.name === name).length;
  });
}
