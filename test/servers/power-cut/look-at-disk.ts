/** Opens what a power cut left, as a start does. */
import { rmSync, writeFileSync } from 'node:fs';
import { sql } from 'kysely';
import { openSqlite } from '../../../src/platform/database/database.ts';
import type { CutDisk } from './cut-power.ts';

/**
 * What is wrong with a disk, or undefined.
 *
 * @param path where its files are put
 */
export async function findLoss(path: string, disk: CutDisk): Promise<string | undefined> {
  for (const suffix of ['-wal', '-shm']) rmSync(path + suffix, { force: true });
  writeFileSync(path, disk.database);
  if (disk.log) writeFileSync(`${path}-wal`, disk.log);
  try {
    return await lookAt(path, disk.acknowledged);
  } catch (error) {
    return `damage: ${String(error)}`;
  }
}

async function lookAt(path: string, acknowledged: number): Promise<string | undefined> {
  const database = await openSqlite({ path });
  try {
    const { read } = database;
    const counter = await read.selectFrom('counters').select('value').executeTakeFirstOrThrow();
    const bodies = await read.selectFrom('bodies').select(['size', 'content']).execute();
    const check = await sql<{ integrity_check: string }>`pragma integrity_check`.execute(read);
    const said = check.rows.map((row) => row.integrity_check).join();
    if (said !== 'ok') return `damage: ${said}`;
    if (counter.value < acknowledged) return `lacks ${counter.value + 1} to ${acknowledged}`;
    if (bodies.length !== counter.value)
      return `damage: ${bodies.length} of ${counter.value} bodies`;
    const wrong = bodies.find(({ size, content }) => !isBody(size, content));
    return wrong && `damage: body ${wrong.size} is another one`;
  } finally {
    await database.close();
  }
}

/** Octets that tell which body it is: those of writer.ts. */
export function contentOf(number: number): Buffer {
  return Buffer.alloc(500 + (number % 7) * 2_000, String(number));
}

function isBody(number: number, content: Uint8Array | null): boolean {
  return content !== null && contentOf(number).equals(content);
}
