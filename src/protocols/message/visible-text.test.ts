import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { hasHidden } from './visible-text.ts';

const shown = (text: string) =>
  [...text].map((one) => `U+${one.codePointAt(0)?.toString(16)}`).join(' ');

suite('texts that hide nothing', () => {
  for (const text of [
    'Ada Lovelace',
    'Zoë, e\u0301',
    'علی می\u200cخواهم',
    'ශ\u0dca\u200dරී',
    'क\u094d\u200dष',
    '👩🏽\u200d💻 Ada',
    '👨\u200d👩\u200d👧\u200d👦',
    '🏳\ufe0f\u200d🌈',
    '1\ufe0f\u20e3 ❤\ufe0f',
    '🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}',
    '葛\u{e0100}',
    'אבי (IT)\u200e',
  ]) {
    test(shown(text), () => assert.equal(hasHidden(text), false));
  }
});

suite('texts that hide something', () => {
  for (const text of [
    'txt.\u202eexe',
    'א\u202eב',
    '\u2066a\u2069',
    '\u200bAda',
    'a\u00adb',
    'a\ufeff',
    'a\u2060b',
    'a\u3164b',
    'a\u2028b',
    'a\u2029b',
    'a\u200cb',
    'A\u200dB',
    'علی\u200c\u200cx',
    '👩\u200d',
    'a\u200eb',
    'a\ufe0f',
    'a\u{e0041}',
    '🏴\u{e0041}',
    'a\ud800b',
  ]) {
    test(shown(text), () => assert.equal(hasHidden(text), true));
  }
});
