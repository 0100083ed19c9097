/** The keys that signatures are verified with (RFC 6376 section 3.6.2). */
import { createPublicKey } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { getPublicKey, type SigningKey } from 'mailauth/lib/tools.js';
import { toAsciiName } from './host-names.ts';
import { type LookupAnswer, textRecords } from './lookup.ts';
import { LookupError, type MessageLookups } from './message-lookups.ts';

/** Keys that are remembered. Whoever sends much mail signs it with few keys. */
const MAX_KEYS = 1_000;
/** Characters of a record whose key is remembered; one with 4,096 bits has about 750. */
const MAX_RECORD = 2_000;

/** Keys as they were read from their records: to read one takes longer than to verify by it. */
export class KnownKeys {
  readonly #keys = new LRUCache<string, SigningKey>({ max: MAX_KEYS });

  /** @throws an error with a code that mailauth knows, where the record holds no key to use */
  async read(type: string, record: string, hashAlgo: string): Promise<SigningKey> {
    const id = `${hashAlgo} ${record}`;
    const known = this.#keys.get(id);
    if (known) return known;
    // Named only to be asked for, and the answer is at hand.
    const resolver = async () => [[record]];
    const key = await getPublicKey(type, '', undefined, resolver, { strict: false, hashAlgo });
    const read = { ...key, publicKey: createPublicKey(key.publicKey) };
    if (record.length <= MAX_RECORD) this.#keys.set(id, read);
    return read;
  }
}

/** The keys for one message, in place of mailauth's own cache of them. */
export class MessageKeys {
  readonly #known: KnownKeys;
  readonly #lookups: MessageLookups;
  readonly #deciding: ReadonlySet<string>;

  /** @param deciding names of the keys that DMARC depends on, IDNA-encoded */
  constructor(known: KnownKeys, lookups: MessageLookups, deciding: ReadonlySet<string>) {
    this.#known = known;
    this.#lookups = lookups;
    this.#deciding = deciding;
  }

  /** Asks for a key that will be wanted. */
  prefetch(name: string): void {
    void this.#ask(name);
  }

  /** Called by mailauth, which does not always wait for the answer. */
  get(
    type: string,
    name: string,
    _minBitLength: undefined,
    { hashAlgo }: { readonly hashAlgo: string },
  ): Promise<SigningKey> {
    const key = this.#get(type, name, hashAlgo);
    key.catch(() => {});
    return key;
  }

  async #get(type: string, name: string, hashAlgo: string): Promise<SigningKey> {
    const answer = await this.#ask(name);
    if (answer.kind === 'unanswered') throw new LookupError(answer);
    const [record] = textRecords(answer);
    // To mailauth a name that DNS cannot hold is a temporary error, though no key will ever be there.
    if (record === undefined) throw new LookupError({ kind: 'absent', reason: 'no_record' });
    return this.#known.read(type, record, hashAlgo);
  }

  #ask(name: string): Promise<LookupAnswer> {
    const ascii = toAsciiName(name);
    return this.#lookups.ask(ascii, 'TXT', this.#deciding.has(ascii) ? 'deciding' : 'other');
  }
}
