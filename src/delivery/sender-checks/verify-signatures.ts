/** The DKIM signatures (RFC 6376) of one message, and its ARC chain. */
import { BodyHash, type Canonicalization, type Header, signedText } from '../../message/message.ts';
import { ArcChain } from './arc-chain.ts';
import { isAligned } from './evaluate-dmarc.ts';
import { textRecords } from './lookup.ts';
import type { MessageLookups } from './message-lookups.ts';
import { type Outcome, readSignature, type Signature, withoutSignature } from './read-signature.ts';
import type { Weight } from './resolver-guard.ts';
import { type FoundKey, isGoodSignature, readSigningKey } from './signing-key.ts';
import type { ArcVerdict, DkimResult } from './verdicts.ts';

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

export interface SignatureInquiry {
  readonly header: Header;
  readonly authors: readonly string[];
  readonly lookups: MessageLookups;
  /** Nobody can be asked for keys: the work on the body is spared. */
  readonly isBlind: boolean;
  /** Milliseconds since 1970: what has expired is judged by it. */
  readonly now: number;
}

/** What is not looked at, since the header is longer than what is read of it. */
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
  readonly #inquiry: SignatureInquiry;
  readonly #signatures: readonly Signature[];
  readonly #chain: ArcChain;
  readonly #hashes: ReadonlyMap<Canonicalization, BodyHash>;

  /** Chooses what to verify, and asks for the keys, so that they come while the body does. */
  constructor(inquiry: SignatureInquiry) {
    const { header, authors, now, isBlind } = inquiry;
    this.#inquiry = inquiry;
    const fields = header.isWhole ? header.fields : [];
    const isAuthors = ({ domain }: Signature) =>
      authors.some((author) => isAligned(domain, author, false));
    const all = fields
      .filter(({ name }) => name === 'dkim-signature')
      .map((field) => readSignature(field, 'dkim', now));
    // Those that DMARC can pass by come first, then those on top, which the last hops made.
    const sorted = [...all.filter(isAuthors), ...all.filter((one) => !isAuthors(one))];
    this.#signatures = sorted.slice(0, MAX_SIGNATURES);
    this.#chain = new ArcChain(fields, now);
    const { newest } = this.#chain;
    const verified = [...this.#signatures, ...(newest ? [newest] : [])].filter(
      ({ refusal }) => !refusal && !isBlind,
    );
    this.#hashes = new Map(verified.map(({ bodyCanon }) => [bodyCanon, new BodyHash(bodyCanon)]));
    const sealKeys = isBlind ? [] : this.#chain.sealKeys;
    for (const name of [...verified.map(({ keyName }) => keyName), ...sealKeys])
      void this.#keyAt(name);
  }

  /** Takes the next bytes of the body. */
  writeBody(chunk: Buffer): void {
    for (const hash of this.#hashes.values()) hash.write(chunk);
  }

  /** Ends the message. */
  async end(): Promise<SignatureFindings> {
    const { isWhole } = this.#inquiry.header;
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
  ): Promise<Outcome> {
    if (signature.refusal) return signature.refusal;
    if (!body) return { result: 'temperror', comment: 'no DNS' };
    const { bodyLength = body.length } = signature;
    // RFC 6376 section 8.2: whatever was added behind it would count as the signer's own words.
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
    const { fields } = this.#inquiry.header;
    const text = signedText(fields, signedFields, withoutSignature(field.text), headerCanon);
    const isGood = await isGoodSignature(key, text, signature.signature);
    return isGood ? { result: 'pass', comment: '' } : { result: 'fail', comment: 'bad signature' };
  }

  async #keyAt(name: string): Promise<FoundKey> {
    const answer = await this.#inquiry.lookups.ask(name, 'TXT', this.#weightOf(name));
    if (answer.kind === 'unanswered')
      return { problem: 'no answer for the key', isTemporary: true };
    const [record] = textRecords(answer);
    return record === undefined ? { problem: 'no key' } : readSigningKey(record);
  }

  /** DMARC depends on the keys of the authors' domains. */
  #weightOf(name: string): Weight {
    const { authors } = this.#inquiry;
    const isDeciding = this.#signatures.some(
      ({ keyName, domain }) =>
        keyName === name && authors.some((author) => isAligned(domain, author, false)),
    );
    return isDeciding ? 'deciding' : 'other';
  }
}
