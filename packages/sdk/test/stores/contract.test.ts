/** The contract of stores, on those that run in Node; test/servers/browser has it on IndexedDB. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { memoryStore } from '../../src/mail/memory-store.ts';
import { fileStore } from '../../src/stores/file.ts';
import { sqliteStore } from '../../src/stores/sqlite.ts';
import { contract, type Subject } from './contract.ts';

const folder = mkdtempSync(join(tmpdir(), 'postroom-stores-'));
after(() => rmSync(folder, { recursive: true }));

const subjects: Readonly<Record<string, (name: string) => Subject>> = {
  memory: () => ({ open: async () => memoryStore(), stays: false, isShared: false }),
  sqlite: (name) => ({ open: async () => sqliteStore(name), stays: true, isShared: true }),
  file: (name) => ({ open: async () => fileStore(name), stays: true, isShared: false }),
};

for (const [kind, subject] of Object.entries(subjects)) {
  suite(`the ${kind} store`, () => {
    for (const [index, [what, check]] of Object.entries(contract).entries()) {
      test(what, () => check(subject(join(folder, `${kind}-${index}`))));
    }
  });
}
