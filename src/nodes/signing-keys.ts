/**
 * A secret while a new value takes the place of an old one: the first value signs, all of them verify.
 *
 * Nodes get the new value one after the other. So a node signs with the first value that every node knows:
 * beside a node that has `old` alone, one that has `new, old` goes on to sign with `old`, and with `new` once
 * the other has it too.
 */
export interface SigningKeys {
  /** What is signed with now; it may change while the process runs. */
  readonly signing: string;
  /** What is verified with, `signing` among them. */
  readonly all: readonly string[];
}

/** A secret that has one value. */
export function onlyKey(value: string): SigningKeys {
  return { signing: value, all: [value] };
}

/**
 * The place of the value to sign with.
 *
 * @param own digests of this node's values
 * @param others those of each other node; undefined where its program is older than the setting, so that it
 *   knows the oldest value alone
 */
export function placeOfSigning(
  own: readonly string[],
  others: readonly (readonly string[] | undefined)[],
): number {
  const isKnown = (digest: string, place: number) =>
    others.every((known) => known?.includes(digest) ?? place === own.length - 1);
  return Math.max(0, own.findIndex(isKnown));
}
