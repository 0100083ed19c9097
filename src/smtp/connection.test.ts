/**
 * Fails when smtp-server changes under us. Then read what changed in its smtp-connection.js,
 * smtp-stream.js and smtp-server.js, above all around the members named here, and raise READ_AGAINST.
 */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { SMTPConnection } from 'smtp-server/lib/smtp-connection.js';
import { SMTPStream } from 'smtp-server/lib/smtp-stream.js';
import { Connection, READ_AGAINST } from './connection.ts';
import { LineParser } from './line-parser.ts';

test('the library is the version that was read', () => {
  const { version } = createRequire(import.meta.url)('smtp-server/package.json');
  assert.equal(version, READ_AGAINST);
});

test('what we override is there to be overridden', () => {
  const ours = {
    connection: new Set(['constructor', 'taking', 'refuse', 'drain', 'destroy']),
    parser: new Set(['constructor', 'pipelined', 'startMessage']),
  };
  for (const name of Object.getOwnPropertyNames(Connection.prototype)) {
    if (!ours.connection.has(name)) assert.ok(name in SMTPConnection.prototype, name);
  }
  for (const name of Object.getOwnPropertyNames(LineParser.prototype)) {
    if (!ours.parser.has(name)) assert.ok(name in SMTPStream.prototype, name);
  }
});
