import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../test/support/any-character.ts';
import { type InboundEnvelope, received, returnPath } from './stage-mail.ts';

const stamp = { hostname: 'mx.test', at: Date.UTC(2026, 10, 1, 8, 5, 9) };

function traceHeaders(inbound: InboundEnvelope, at: typeof stamp): Buffer {
  return Buffer.concat([returnPath(inbound), received(inbound, at)]);
}

function envelope(more: Partial<InboundEnvelope>, arrival: object = {}): InboundEnvelope {
  return {
    id: 'id-1',
    from: 'bob@example.test',
    to: ['ann@acme.test'],
    arrival: {
      protocol: 'ESMTP',
      heloName: 'client.test',
      remoteAddress: '192.0.2.1',
      sessionId: 's',
      ...arrival,
    },
    ...more,
  };
}

test('the headers name sender, client, ourselves, and a single recipient', () => {
  assert.equal(
    traceHeaders(envelope({}), stamp).toString(),
    'Return-Path: <bob@example.test>\r\n' +
      'Received: from client.test ([192.0.2.1])\r\n by mx.test with ESMTP id id-1\r\n' +
      ' for <ann@acme.test>; Sun, 01 Nov 2026 08:05:09 +0000\r\n',
  );
});

test('the null sender is empty, IPv6 is tagged, several recipients are not named', () => {
  const text = traceHeaders(
    envelope({ from: '', to: ['a@acme.test', 'b@acme.test'] }, { remoteAddress: '2001:db8::1' }),
    stamp,
  ).toString();
  assert.match(text, /^Return-Path: <>\r\n/);
  assert.match(text, /\(\[IPv6:2001:db8::1\]\)/);
  assert.ok(!text.includes('acme.test'));
});

test('nothing a client says can break out of its line', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: anyCharacter }),
      fc.string({ unit: anyCharacter }),
      (hostile, path) => {
        const text = traceHeaders(
          envelope({ from: path, to: [path] }, { heloName: hostile, tls: hostile }),
          stamp,
        ).toString('latin1');
        const lines = text.split('\r\n');
        assert.equal(lines.pop(), '');
        // Every line but the first of each field is a continuation, and no bare CR or LF is left.
        assert.ok(!/[\r\n]/.test(lines.join('')));
        const fields = lines.filter((line) => !line.startsWith(' '));
        assert.deepEqual(
          fields.map((line) => line.slice(0, line.indexOf(':'))),
          ['Return-Path', 'Received'],
        );
      },
    ),
  );
});
