import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pino } from 'pino';
import { readConfig } from '../config/config.ts';
import { startService } from './service.ts';

test('a wrong IMAP_DISABLE ends the start before anything is made', async () => {
  const started = (settings: Record<string, string>) => {
    const config = readConfig({ DATA_DIR: 'postroom-never-made', ...settings }, tmpdir());
    return startService(config, pino({ level: 'silent' }));
  };
  const MAILSTORE_URL = 'imaps://master:secret@mail.example.com';
  await assert.rejects(started({ IMAP_DISABLE: 'QRESYNC', MAILSTORE_URL }), {
    message:
      'IMAP_DISABLE: expected none where MAILSTORE_URL names a mail server, which announces its own extensions',
  });
  await assert.rejects(started({ IMAP_DISABLE: 'IMAP4rev1,foo' }), {
    message:
      'IMAP_DISABLE: expected extensions that are announced after a login, such as QRESYNC, got IMAP4REV1,FOO',
  });
  assert.ok(!existsSync(join(tmpdir(), 'postroom-never-made')));
});
