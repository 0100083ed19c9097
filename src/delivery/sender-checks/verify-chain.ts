/** The ARC chain of a message: who passed it on, and what they had found (RFC 8617). */
import { type ArcSet, getARChain, verifyASChain } from 'mailauth/lib/arc/index.js';
import type { Header } from './header.ts';
import type { MessageVerifier } from './message-verifier.ts';
import { isReadable, readSignature, type Signature, tagOf } from './read-signature.ts';
import type { ArcVerdict } from './verdicts.ts';

const failed: ArcVerdict = { result: 'fail', instance: 0, domain: '' };

export class ChainCheck {
  readonly #verifier: MessageVerifier;
  readonly #sets: readonly ArcSet[] = [];
  /** The ARC-Message-Signature that the message as it came must fit. */
  readonly newest: Signature | undefined;
  /** What there is to say without asking DNS. */
  readonly #verdict: ArcVerdict | undefined;

  /** Reads the chain. All of its failures are permanent, those of DNS too (section 5.2.1). */
  constructor(verifier: MessageVerifier, { fields }: Header) {
    this.#verifier = verifier;
    const parsed = fields.filter(({ key }) => key.startsWith('arc-'));
    if (!parsed.every(isReadable)) {
      this.#verdict = failed;
      return;
    }
    try {
      const sets = getARChain({ parsed }) || [];
      const last = sets.at(-1);
      if (!last) {
        this.#verdict = { result: 'none', instance: 0, domain: '' };
        return;
      }
      const list = last['arc-message-signature'];
      list.type = 'ARC';
      this.newest = readSignature(verifier, list);
      this.#sets = sets;
    } catch {
      this.#verdict = failed;
    }
  }

  /** Names of the keys of all seals. */
  get sealKeys(): string[] {
    return this.#sets.map(
      ({ 'arc-seal': seal }) => `${tagOf(seal, 's')}._domainkey.${tagOf(seal, 'd')}`,
    );
  }

  /** Verifies the chain; the hashes of the body are known by now. */
  async end(): Promise<ArcVerdict> {
    if (this.#verdict) return this.#verdict;
    const seal = this.#sets.at(-1)?.['arc-seal'];
    const instance = this.#sets.length;
    const domain = seal ? tagOf(seal, 'd').toLowerCase() : '';
    return { result: (await this.#isIntact()) ? 'pass' : 'fail', instance, domain };
  }

  async #isIntact(): Promise<boolean> {
    if (!this.newest || this.newest.refusal) return false;
    const { status } = await this.#verifier.verifySignature(this.newest.list);
    if (status.result !== 'pass') return false;
    const { keyCache } = this.#verifier;
    try {
      return await verifyASChain({ chain: this.#sets }, { keyCache });
    } catch {
      return false;
    }
  }
}
