/**
 * The hashes of a body that signatures name, in one pass with flat memory and in linear time,
 * whatever the length of its lines (RFC 6376 section 3.4).
 */
import type { Buffer } from 'node:buffer';
import { createHash, type Hash } from 'node:crypto';
import { type BodyCanon, Canonicalizer } from './canonicalize-body.ts';

/** A body hash as the verifier of mailauth takes it. */
export interface BodyHash {
  /** Base64. */
  readonly hash: string;
  readonly bodyHashedBytes: number;
  readonly canonicalizedLength: number;
  readonly byteLength: number;
}

/** One hash that is wanted: all of the body, or as much of it as the tag l= says. */
export interface WantedHash {
  readonly canon: BodyCanon;
  readonly length: number | undefined;
}

export function bodyHashKey({ canon, length }: WantedHash): string {
  return `${canon}:${length ?? ''}`;
}

/** One running SHA-256, of which a copy is taken at each length that is asked for. */
class RunningHash {
  readonly #hash: Hash = createHash('sha256');
  /** Not reached yet, the next one last. */
  readonly #lengths: number[];
  readonly #taken = new Map<number, string>();
  #total = 0;

  constructor(lengths: Iterable<number>) {
    this.#lengths = [...lengths].sort((a, b) => b - a);
  }

  update(bytes: Buffer): void {
    let start = 0;
    for (;;) {
      const length = this.#lengths.at(-1);
      if (length === undefined || length > this.#total + bytes.length - start) break;
      const end = start + length - this.#total;
      this.#feed(bytes.subarray(start, end));
      start = end;
      this.#taken.set(length, this.#hash.copy().digest('base64'));
      this.#lengths.pop();
    }
    this.#feed(bytes.subarray(start));
  }

  end(): (length: number | undefined) => BodyHash {
    const whole = this.#hash.digest('base64');
    const total = this.#total;
    return (length) => ({
      hash: (length === undefined ? undefined : this.#taken.get(length)) ?? whole,
      bodyHashedBytes: Math.min(length ?? total, total),
      canonicalizedLength: total,
      byteLength: total,
    });
  }

  #feed(bytes: Buffer): void {
    if (bytes.length > 0) this.#hash.update(bytes);
    this.#total += bytes.length;
  }
}

/** Takes one body; signatures that canonicalize alike share the work. */
export class BodyHashes {
  readonly #wanted: readonly WantedHash[];
  readonly #running: { canon: BodyCanon; hash: RunningHash; canonicalizer: Canonicalizer }[] = [];

  constructor(wanted: readonly WantedHash[]) {
    this.#wanted = wanted;
    for (const canon of ['relaxed', 'simple'] as const) {
      const alike = wanted.filter((hash) => hash.canon === canon);
      if (alike.length === 0) continue;
      const lengths = new Set(
        alike.flatMap(({ length }) => (length === undefined ? [] : [length])),
      );
      const hash = new RunningHash(lengths);
      const canonicalizer = new Canonicalizer(canon, (bytes) => hash.update(bytes));
      this.#running.push({ canon, hash, canonicalizer });
    }
  }

  /** Takes the next bytes of the body; keeps no reference to them. */
  write(chunk: Buffer): void {
    for (const { canonicalizer } of this.#running) canonicalizer.write(chunk);
  }

  /** Ends the body; the hashes by {@link bodyHashKey}. */
  end(): Map<string, BodyHash> {
    const hashes = new Map<string, BodyHash>();
    for (const { canon, hash, canonicalizer } of this.#running) {
      canonicalizer.end();
      const take = hash.end();
      for (const wanted of this.#wanted) {
        if (wanted.canon === canon) hashes.set(bodyHashKey(wanted), take(wanted.length));
      }
    }
    return hashes;
  }
}
