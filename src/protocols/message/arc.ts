/** The sets of an ARC chain in a header (RFC 8617), for those who verify one and those who add to it. */
import { parseTagList } from './dkim.ts';
import { type HeaderField, rawValue } from './header.ts';

/** RFC 8617 section 4.2.1. */
export const ARC_SETS_MAX = 50;
/** Octets of a field. */
const FIELD_MAX = 16 * 1024;

const RESULTS = 'arc-authentication-results';
const NAMES = [RESULTS, 'arc-message-signature', 'arc-seal'];

/** The three fields that one host added, in the order in which a seal covers them (RFC 8617 section 5.1.1). */
export type ArcSet = readonly [results: HeaderField, signature: HeaderField, seal: HeaderField];

/** The sets of a message, in order; undefined where they form no chain. Each field is read once: there may be 150. */
export function readArcSets(fields: readonly HeaderField[]): ArcSet[] | undefined {
  const ofSets = fields.filter(({ name }) => NAMES.includes(name));
  if (ofSets.some(({ text }) => text.length > FIELD_MAX)) return undefined;
  const byInstance = Map.groupBy(ofSets, instanceOf);
  const sets = Array.from({ length: byInstance.size }, (_, at) =>
    readSet(byInstance.get(at + 1) ?? []),
  );
  return sets.every((set) => set !== undefined) ? sets : undefined;
}

/** The number of the set that a field belongs to; undefined where it has none. */
function instanceOf(field: HeaderField): number | undefined {
  // RFC 8617 section 4.1.1: in the results the number comes first, in the other fields it is a tag.
  const text =
    field.name === RESULTS
      ? /^\s*i\s*=\s*(\d+)\s*;/.exec(rawValue(field))?.[1]
      : parseTagList(rawValue(field)).tags.get('i');
  const instance = /^\d{1,2}$/.test(text ?? '') ? Number(text) : 0;
  return instance >= 1 && instance <= ARC_SETS_MAX ? instance : undefined;
}

/** @returns undefined unless there is one of each (RFC 8617 section 5.2 step 3) */
function readSet(fields: readonly HeaderField[]): ArcSet | undefined {
  const [results, signature, seal] = NAMES.map((name) =>
    fields.find((field) => field.name === name),
  );
  if (fields.length !== NAMES.length || !results || !signature || !seal) return undefined;
  return [results, signature, seal];
}
