/**
 * Whether a text is what it shows: names and addresses without hidden characters, and without characters that change
 * the order in which the others are shown (Unicode UTR 36 section 2, UAX 9).
 */

/**
 * Joiners between letters of scripts that are written with them (UAX 31 section 2.3): Persian has U+200C within
 * words, Sinhala U+200D within letters.
 */
const JOINED =
  /(?<=[\p{scx=Arab}\p{scx=Syrc}\p{scx=Mong}\p{scx=Nkoo}\p{scx=Adlm}\p{scx=Deva}\p{scx=Beng}\p{scx=Guru}\p{scx=Gujr}\p{scx=Orya}\p{scx=Taml}\p{scx=Telu}\p{scx=Knda}\p{scx=Mlym}\p{scx=Sinh}\p{scx=Tibt}\p{scx=Khmr}\p{scx=Mymr}])(?<!\p{Default_Ignorable_Code_Point})[\u200c\u200d]/gu;
/** The parts of one emoji (UTS 51 section 2.2), and the regional flags of section 2.6.2. */
const EMOJI_JOINED =
  /(?<=\p{Extended_Pictographic}[\ufe0f\p{Emoji_Modifier}]?)\u200d(?=\p{Emoji})/gu;
const EMOJI_FLAG = /(?<=\u{1f3f4})[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{3,6}\u{e007f}/gu;
/** Variants of the character before: of emoji, Chinese and Japanese names, and Mongolian letters. */
const VARIATION =
  /(?<=[\p{Emoji}\p{scx=Han}])[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]|(?<=\p{scx=Mong})[\u180b-\u180d\u180f]/gu;
/** They order punctuation between words; in a text from left to right they would only be hidden. */
const DIRECTION_MARK = /[\u061c\u200e\u200f]/gu;
const RIGHT_TO_LEFT =
  /[\p{scx=Hebr}\p{scx=Arab}\p{scx=Syrc}\p{scx=Thaa}\p{scx=Nkoo}\p{scx=Adlm}\p{scx=Samr}\p{scx=Mand}]/u;

/** Characters that are invisible, change the order of the others, or end a line. */
const HIDDEN = /[\p{Default_Ignorable_Code_Point}\p{Cs}\p{Zl}\p{Zp}\ufff9-\ufffb]/u;

/**
 * Whether a text has an invisible character, or one that changes the order in which others are shown. What languages
 * need is allowed: joiners in scripts that join, the parts of emoji, variants of characters, and direction marks
 * beside letters that run from right to left.
 */
export function hasHidden(text: string): boolean {
  if (!HIDDEN.test(text)) return false;
  let rest = text;
  for (const allowed of [JOINED, EMOJI_JOINED, EMOJI_FLAG, VARIATION]) {
    // Only the mark next to its letter is removed: another mark after it stays, and counts as hidden.
    rest = rest.replace(allowed, '');
  }
  if (RIGHT_TO_LEFT.test(rest)) rest = rest.replace(DIRECTION_MARK, '');
  return HIDDEN.test(rest);
}
