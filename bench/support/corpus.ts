/**
 * Mail to search in: made from numbers, so that each run has the same. Words come as often as in a
 * natural language (Zipf), the most frequent are real ones, and each message has words that no other has.
 */

/** Where the words of an account's messages come from, of a hundred. */
const SHARES = { en: 34, de: 33, zh: 9, ja: 6, ko: 6, ru: 6, ar: 6 };
type Language = keyof typeof SHARES;

const FREQUENT: Record<Language, string> = {
  en: 'the of and to a in is you that it he was for on are as with his they data at be this have date from or one had by',
  de: 'der die und in den von zu das mit sich des auf für ist im dem nicht ein datei eine als auch es an werden aus er hat dass sie',
  zh: '文件 系统 文件系统 标准 输出 会议 我们 请 检查 今天 明天 公司 数据 可以 没有 这个 问题 时间 项目 报告',
  ja: 'ファイル 標準 エラー 出力 会議 は の に を が です ます こと 今日 明日 会社 データ 時間 報告 確認',
  ko: '파일 시스템 데이터 회의 오늘 내일 회사 시간 보고 확인 우리 그리고 있는 합니다 문제 프로젝트',
  ru: 'и в не на я что он с как это по но они мы её из за то все так был для файл данные сегодня счёт',
  ar: 'في من على أن إلى عن هذا كان التي مع هو ما كل بعد ملف بيانات اليوم غدا شركة تقرير',
};
const ALPHABETS: Record<Language, string> = {
  en: 'etaoinshrdlucmfwypvbgk',
  de: 'enisratdhulcgmobwfkzüäöß',
  zh: '的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可她里后小么心多天而能好都然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从动两长',
  ja: 'あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわをんアイウエオカキクケコサシスセソタチツテトナニネノハフホマミムメラリルレロン日本人年大会国中出時行見月分後前生間上東学高',
  ko: '가나다라마바사아자차카타파하고노도로모보소오조기니디리미비시이지그느드르므브스으즈한국사람정보전자대학생활',
  ru: 'оеаинтсрвлкмдпуяыьгзбчйхжшюцщ',
  ar: 'ابتثجحخدذرزسشصضطظعغفقكلمنهوي',
};
const WORDS = 20_000;
const SPACELESS = new Set<Language>(['zh', 'ja']);
const OCTETS: Record<Language, number> = { en: 1, de: 1, zh: 3, ja: 3, ko: 3, ru: 2, ar: 2 };

/** Octets of a text: from so many to twenty times that, 4.4 KB in the middle. */
const SHORTEST = 700;
const LONGEST_TIMES = 20;

/** Word that every so many-th message has. */
export const RARE = { word: 'quokkafish', every: 5_000 };
const WITH_ATTACHMENT = 10;

/** Mulberry32: numbers from 0 to 1 that look random, the same for the same seed. */
function randomFrom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function makeWords(language: Language, seed: number): string[] {
  const random = randomFrom(seed);
  const letters = [...ALPHABETS[language]];
  const words = new Set(FREQUENT[language].split(' '));
  const isShort = OCTETS[language] === 3;
  while (words.size < WORDS) {
    const length = isShort ? 2 + Math.floor(random() * 3) : 3 + Math.floor(random() * 9);
    let word = '';
    for (let at = 0; at < length; at++) {
      word += letters[Math.floor(random() ** 1.5 * letters.length)] ?? '';
    }
    words.add(word);
  }
  return [...words];
}

const languages = Object.keys(SHARES) as Language[];
const vocabulary = new Map(languages.map((name, seed) => [name, makeWords(name, seed)]));

function languageOf(random: () => number): Language {
  let left = random() * 100;
  for (const name of languages) {
    left -= SHARES[name];
    if (left < 0) return name;
  }
  return 'en';
}

function writeText(language: Language, octets: number, random: () => number): string {
  const words = vocabulary.get(language) ?? [];
  const between = SPACELESS.has(language) ? '' : ' ';
  let text = '';
  for (let column = 0; text.length * OCTETS[language] < octets; ) {
    // Rank r with a frequency of 1/r.
    const word = words[Math.floor(WORDS ** random()) - 1] ?? '';
    text += word + between;
    column += word.length + 1;
    if (column < 60) continue;
    text += between === '' ? '。\r\n' : '\r\n';
    column = 0;
  }
  return text;
}

/** Message `number` of a mailbox: text of 0.7 to 14 KB, some with an attachment. */
export function corpusMessage(number: number): Buffer {
  const random = randomFrom(number + 1_000);
  const language = languageOf(random);
  const subject = writeText(language, 30, random).replaceAll('\r\n', ' ').trim();
  const text = writeText(language, SHORTEST * LONGEST_TIMES ** random(), random);
  const order = Math.floor(random() * 1e9).toString(36);
  const rare = number % RARE.every === 0 ? `${RARE.word}\r\n` : '';
  const body = `${text}\r\n${rare}Order ${order}, https://shop.test/track/${order}${number}\r\n`;
  const contact = Math.floor(200 ** random());
  const head =
    `From: Contact ${contact} <c${contact}@shop.test>\r\nTo: Ann <ann@bench.test>\r\n` +
    `Subject: ${subject}\r\nDate: Mon, 5 Jan 2026 10:00:00 +0000\r\n` +
    `Message-ID: <${number}@shop.test>\r\nMIME-Version: 1.0\r\n`;
  const type = 'Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n';
  if (number % WITH_ATTACHMENT !== 0) return Buffer.from(head + type + body);
  const outer = 'Content-Type: multipart/mixed; boundary="=_b"\r\n\r\n';
  const file = `Content-Type: text/csv\r\nContent-Disposition: attachment; filename="order-${order}.csv"\r\n\r\na,b\r\n`;
  return Buffer.from(`${head}${outer}--=_b\r\n${type}${body}--=_b\r\n${file}--=_b--\r\n`);
}
