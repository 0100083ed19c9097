/** The ARC chain of a message: who passed it on, and what they had found (RFC 8617). */
import {
  canonicalField,
  type HeaderField,
  parseTagList,
  rawValue,
  toDnsName,
} from '../../message/message.ts';
import { type Outcome, readSignature, type Signature, withoutSignature } from './read-signature.ts';
import { type FoundKey, isGoodSignature } from './signing-key.ts';
import type { ArcVerdict } from './verdicts.ts';

/** RFC 8617 section 4.2.1. */
const MAX_SETS = 50;
/** Octets of a field of a set. */
const MAX_FIELD = 16 * 1024;

const RESULTS = 'arc-authentication-results';
const SIGNATURE = 'arc-message-signature';
const SEAL = 'arc-seal';
const NAMES = [RESULTS, SIGNATURE, SEAL];

/** What one host added: its three fields, in the order that a seal covers them. */
interface ArcSet {
  readonly fields: readonly [results: HeaderField, signature: HeaderField, seal: HeaderField];
  readonly seal: { readonly domain: string; readonly keyName: string; readonly algorithm: string };
}

function tagsOf(field: HeaderField): (name: string) => string {
  const { tags, repeated } = parseTagList(rawValue(field));
  return (name) => (repeated === undefined ? tags.get(name) : undefined)?.replace(/\s/g, '') ?? '';
}

/** The number of the set that a field belongs to; undefined where it does not say. */
function instanceOf(field: HeaderField): number | undefined {
  // RFC 8617 section 4.1.1: in the results it comes first, in the others it is one of the tags.
  const text =
    field.name === RESULTS
      ? /^\s*i\s*=\s*(\d+)\s*;/.exec(rawValue(field))?.[1]
      : tagsOf(field)('i');
  const instance = /^\d{1,2}$/.test(text ?? '') ? Number(text) : 0;
  return instance >= 1 && instance <= MAX_SETS ? instance : undefined;
}

/** @returns the set, or undefined where it is not as it has to be (RFC 8617 section 5.2 step 3) */
function readSet(fields: readonly HeaderField[], instance: number): ArcSet | undefined {
  const [results, signature, seal] = NAMES.map((name) =>
    fields.find((field) => field.name === name),
  );
  if (fields.length !== NAMES.length || !results || !signature || !seal) return undefined;
  const tag = tagsOf(seal);
  if (tag('cv').toLowerCase() !== (instance === 1 ? 'none' : 'pass') || tag('h') !== '')
    return undefined;
  const domain = toDnsName(tag('d')) ?? '';
  const keyName = `${tag('s')}._domainkey.${domain}`;
  return {
    fields: [results, signature, seal],
    seal: { domain, keyName, algorithm: tag('a').toLowerCase() },
  };
}

/** The sets in order; undefined where the chain is broken. */
function readSets(fields: readonly HeaderField[]): ArcSet[] | undefined {
  if (fields.some(({ text }) => text.length > MAX_FIELD)) return undefined;
  const byInstance = Map.groupBy(fields, instanceOf);
  const sets = Array.from({ length: byInstance.size }, (_, at) =>
    readSet(byInstance.get(at + 1) ?? [], at + 1),
  );
  return sets.every((set) => set !== undefined) ? sets : undefined;
}

export class ArcChain {
  /** Undefined where the chain is broken as it stands. */
  readonly #sets: readonly ArcSet[] | undefined;
  /** The ARC-Message-Signature that the message as it came must fit. */
  readonly newest: Signature | undefined;

  /** @param now milliseconds since 1970 */
  constructor(fields: readonly HeaderField[], now: number) {
    this.#sets = readSets(fields.filter(({ name }) => NAMES.includes(name)));
    const newest = this.#sets?.at(-1);
    this.newest = newest && readSignature(newest.fields[1], 'arc', now);
  }

  /** Names of the keys of all seals. */
  get sealKeys(): string[] {
    return (this.#sets ?? []).map(({ seal }) => seal.keyName);
  }

  /**
   * Verifies the chain (RFC 8617 section 5.2). All of its failures are permanent, those of DNS too
   * (section 5.2.1).
   */
  async verify(
    verifySignature: (signature: Signature) => Promise<Outcome>,
    keyAt: (name: string) => Promise<FoundKey>,
  ): Promise<ArcVerdict> {
    const sets = this.#sets;
    if (!sets) return { result: 'fail', instance: 0, domain: '' };
    const last = sets.at(-1);
    if (!last || !this.newest) return { result: 'none', instance: 0, domain: '' };
    const about = { instance: sets.length, domain: last.seal.domain };
    const { result } = await verifySignature(this.newest);
    if (result !== 'pass') return { result: 'fail', ...about };
    const seals = await Promise.all(sets.map((_, at) => isSealed(sets.slice(0, at + 1), keyAt)));
    return { result: seals.every(Boolean) ? 'pass' : 'fail', ...about };
  }
}

/** Whether the last of the sets seals all of them (RFC 8617 section 5.1.1). */
async function isSealed(
  sets: readonly ArcSet[],
  keyAt: (name: string) => Promise<FoundKey>,
): Promise<boolean> {
  const last = sets.at(-1);
  const key = last && (await keyAt(last.seal.keyName));
  if (!key || 'problem' in key || last.seal.algorithm !== `${key.type}-sha256`) return false;
  const sealed = sets.flatMap(({ fields }) => fields.map(({ text }) => text));
  const seal = last.fields[2];
  const covered = [...sealed.slice(0, -1), withoutSignature(seal.text)];
  const text = covered.map((field) => canonicalField(field, 'relaxed')).join('\r\n');
  return isGoodSignature(key, text, tagsOf(seal)('b'));
}
