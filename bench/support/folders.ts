/** Where benchmarks put their files. */
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

/** File system types that live in memory, where an fsync costs nothing (statfs(2)). */
const MEMORY = new Set([0x01021994, 0x858458f6]);

/** A new folder on a disk. */
export function makeFolder(): string {
  const onDisk = !MEMORY.has(statfsSync(tmpdir()).type);
  const parent = onDisk ? tmpdir() : resolve('.bench-data');
  if (!onDisk) {
    mkdirSync(parent, { recursive: true });
    writeFileSync(join(parent, '.gitignore'), '*\n');
  }
  return mkdtempSync(join(parent, 'postroom-bench-'));
}

export function removeFolder(path: string): void {
  rmSync(path, { recursive: true, force: true });
}
