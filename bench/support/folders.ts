/** Where benchmarks put their files, and a database on PostgreSQL. */
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Client } from 'pg';

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

/** Where a service has its data: a folder, and a database of its own where a server was named. */
export interface Place {
  readonly dataDir: string;
  readonly databaseUrl: string | undefined;
  remove(): Promise<void>;
}

let databases = 0;

/** @param server URL of a PostgreSQL server; SQLite in the folder when left out */
export async function makePlace(server: string | undefined): Promise<Place> {
  const dataDir = makeFolder();
  if (server === undefined) {
    return { dataDir, databaseUrl: undefined, remove: async () => removeFolder(dataDir) };
  }
  const admin = new Client({ connectionString: server });
  await admin.connect();
  const name = `bench_${process.pid}_${databases++}`;
  await admin.query(`create database ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return {
    dataDir,
    databaseUrl: url.href,
    async remove() {
      removeFolder(dataDir);
      await admin.query(`drop database if exists ${name} with (force)`);
      await admin.end();
    },
  };
}
