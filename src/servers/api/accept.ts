/** What a client wants an answer as (RFC 9110 section 12.5.1). */

/** The weight that Accept gives a media type by its name, 0 to 1; 0 also where it does not name the type. */
export function acceptWeight(accept: string | undefined, type: string): number {
  for (const range of (accept ?? '').toLowerCase().split(',')) {
    const [name, ...parameters] = range.split(';').map((part) => part.trim());
    if (name !== type) continue;
    const weight = parameters.find((one) => one.startsWith('q='));
    const value = weight === undefined ? 1 : Number(weight.slice(2));
    return value >= 0 && value <= 1 ? value : 0;
  }
  return 0;
}
