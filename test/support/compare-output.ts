/**
 * Compares what a sample printed with what its page shows. The page is to be exact: the same members,
 * the same values. Only what differs from run to run may: instants, UUIDs, long decimals (such as
 * UIDVALIDITY, also within a mailboxId), sizes, and whatever the page shows as `…`.
 */

/** Any text; as a last element or as a member's name, any more of them. */
const ANY = '…';

const VARYING = [
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
  /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/,
  /^m?\d{9,10}$/,
];
/** A message grows with the trace fields that it is given, which hold ports and names. */
const VARYING_NUMBERS = new Set(['size']);

/** The value of a JSON text, or undefined where it is none. */
export function readJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/** @returns what differs, with its place; undefined where nothing does */
export function compareJson(expected: unknown, actual: unknown, place = ''): string | undefined {
  const differs = `${place || 'the value'} is ${JSON.stringify(actual)}, the page shows ${JSON.stringify(expected)}`;
  if (typeof expected === 'string') {
    return typeof actual === 'string' && sameText(expected, actual) ? undefined : differs;
  }
  if (Array.isArray(expected)) {
    return Array.isArray(actual) ? compareLists(expected, actual, place) : differs;
  }
  if (isObject(expected)) {
    return isObject(actual) ? compareMembers(expected, actual, place) : differs;
  }
  if (typeof expected === 'number' && typeof actual === 'number') {
    const name = place.slice(place.lastIndexOf('.') + 1);
    if (VARYING_NUMBERS.has(name)) return undefined;
  }
  return expected === actual ? undefined : differs;
}

function compareLists(expected: unknown[], actual: unknown[], place: string): string | undefined {
  const open = expected.at(-1) === ANY;
  const items = open ? expected.slice(0, -1) : expected;
  if (open ? actual.length < items.length : actual.length !== items.length) {
    return `${place} has ${actual.length} elements, the page shows ${items.length}`;
  }
  for (const [index, item] of items.entries()) {
    const difference = compareJson(item, actual[index], `${place}[${index}]`);
    if (difference) return difference;
  }
  return undefined;
}

type JsonObject = Readonly<Record<string, unknown>>;

function compareMembers(expected: JsonObject, actual: JsonObject, place: string) {
  for (const [name, value] of Object.entries(expected)) {
    if (name === ANY) continue;
    if (!(name in actual)) return `${place}.${name} is not there`;
    const difference = compareJson(value, actual[name], `${place}.${name}`);
    if (difference) return difference;
  }
  if (ANY in expected) return undefined;
  const more = Object.keys(actual).filter((name) => !(name in expected));
  return more.length > 0 ? `${place} has more: ${more.join(', ')}` : undefined;
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function sameText(expected: string, actual: string): boolean {
  if (expected === actual) return true;
  if (expected.includes(ANY)) return matches(expected, actual);
  return VARYING.some((pattern) => pattern.test(expected) && pattern.test(actual));
}

/** Whether the parts around each `…` come in order, the first at the start, the last at the end. */
function matches(pattern: string, text: string): boolean {
  const parts = pattern.split(ANY).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('[^]*?')}$`).test(text);
}

/** Compares line by line; a line that is `…` alone stands for any number of them. */
export function compareLines(expected: string, actual: string): string | undefined {
  const clean = (text: string) => text.replaceAll('\r\n', '\n').trimEnd();
  return matches(clean(expected), clean(actual))
    ? undefined
    : `is\n${clean(actual)}\nthe page shows\n${clean(expected)}`;
}
