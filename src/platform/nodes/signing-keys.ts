/**
 * A secret whose old value is replaced by a new one: the first known value signs, all values verify.
 *
 * Nodes get the new value one after the other. So a node signs with the first value that every node knows: beside a
 * node that has only `old`, one that has `new, old` continues to sign with `old`, and signs with `new` once the other
 * has it, too.
 */
export interface SigningKeys {
  /** The value to sign with now; it may change while the process runs. */
  readonly signing: string;
  /** The values to verify with, `signing` included. */
  readonly all: readonly string[];
}

/** A secret that has one value. */
export function onlyKey(value: string): SigningKeys {
  return { signing: value, all: [value] };
}

/**
 * The index of the value to sign with.
 *
 * @param own digests of this node's values
 * @param others those of each other node; undefined where its program is older than the setting, so that it
 *   knows the oldest value alone
 */
export function signingIndex(
  own: readonly string[],
  others: readonly (readonly string[] | undefined)[],
): number {
  const isKnown = (digest: string, place: number) =>
    others.every((known) => known?.includes(digest) ?? place === own.length - 1);
  return Math.max(0, own.findIndex(isKnown));
}
