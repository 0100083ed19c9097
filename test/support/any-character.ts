import fc from 'fast-check';

const SURROGATES = { first: 0xd800, count: 0x800 };

/**
 * Any character of Unicode. What fast-check's unit `binary` draws from, without the table of them all
 * that it makes first, which takes a second of each test file.
 */
export const anyCharacter: fc.Arbitrary<string> = fc.nat(0x10ffff - SURROGATES.count).map(
  (index) => String.fromCodePoint(index < SURROGATES.first ? index : index + SURROGATES.count),
  (character) => {
    const point = typeof character === 'string' ? character.codePointAt(0) : undefined;
    if (point === undefined || character !== String.fromCodePoint(point)) {
      throw new Error('expected one character');
    }
    return point < SURROGATES.first ? point : point - SURROGATES.count;
  },
);
