/**
 * Tells whether a node that still counts as running was killed: its process is not there any more. That can be
 * seen of the processes of this machine alone. A host name does not say which machine it is, since machines
 * that were made from one image, and containers, may have the same one.
 */
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Row } from '../database/database.ts';

/**
 * The run of the system that this process is on, and the set of process numbers that it is in, as a text. Two
 * processes with equal texts see each other by their numbers. Both are empty where the system does not tell.
 */
export const thisMachine = `${tell(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'))} ${tell(() => readlinkSync('/proc/self/ns/pid'))}`;

function tell(read: () => string): string {
  try {
    return read().trim();
  } catch {
    return '';
  }
}

/**
 * Whether the process of a node is surely gone, though its heartbeat is fresh.
 *
 * @param now by the database's clock
 */
export function wasKilledHere(
  { host, machine, pid, started_at }: Row<'nodes'>,
  now: number,
): boolean {
  // Another container of this machine may have our host name and our number, and run.
  if (host !== hostname() || machine !== thisMachine) return false;
  if (pid !== process.pid) return !isRunning(pid);
  return started_at < now - process.uptime() * 1000 - 1_000;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH');
  }
}
