import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../test/support/any-character.ts';
import { writeAutodiscover, writeMobileconfig } from './settings-files.ts';

const server = { host: 'mail.test', port: 993, isSecure: true };
const servers = { imap: [server], smtp: [server] };

/** Tags that open and close in order: the text between them is plain or an entity. */
function assertWellFormed(xml: string): void {
  const open: string[] = [];
  const body = xml.replace(/^<\?xml[^>]*\?>\s*/, '').replace(/^<!DOCTYPE[^>]*>\s*/, '');
  for (const [, text = '', closing, name = '', empty] of body.matchAll(
    /([^<]*)<(\/?)([A-Za-z]+)(?: [^<>]*?)?(\/?)>/g,
  )) {
    assert.match(text, /^(?:[^&<>]|&(?:amp|lt|gt|quot|apos);)*$/);
    if (closing) assert.equal(open.pop(), name);
    else if (!empty) open.push(name);
  }
  assert.deepEqual(open, []);
}

test('no text of a user becomes markup', () => {
  const text = fc.string({ unit: anyCharacter, maxLength: 40 });
  const markup = fc.constantFrom(
    '</string>',
    '<!ENTITY a "b">',
    '&amp;',
    ']]>',
    '"\'',
    '\u0000\ufffe',
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(text, markup)), (parts) => {
      const given = parts.join('');
      assertWellFormed(writeAutodiscover(servers, given));
      const account = { address: given, displayName: given };
      assertWellFormed(writeMobileconfig([server, server], account));
    }),
  );
});

test('a profile has the same identifiers each time, and those of no other account', () => {
  const write = (address: string) =>
    writeMobileconfig([server, server], { address, displayName: 'Ada' }).match(
      /<string>[\da-f]{8}-[^<]*/g,
    );
  const [profile, account] = write('ada@acme.test') ?? [];
  assert.notEqual(profile, account);
  assert.deepEqual(write('ada@acme.test'), [profile, account]);
  assert.notDeepEqual(write('eve@acme.test'), [profile, account]);
});
