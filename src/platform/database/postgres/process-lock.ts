/**
 * A lock that the server frees as soon as this process ends, however it ends: a session holds it, on a connection that
 * is used for nothing else.
 *
 * A pooler gives the session to others, and ends it when it likes. So the lock is taken only where the server itself
 * has got a parameter that we connect with: a pooler refuses it, or keeps it from the server.
 */
import { sql } from 'kysely';
import { advisoryLocks, type ProcessLock, type Queries } from '../engine.ts';
import { Connections } from './connections.ts';
import type { Lease } from './lease.ts';

/** For a statement, and to connect; a number that nobody sets as a server's default. */
const TIMEOUT_MS = 4_321;

const SERVER_TIMEOUT = `select setting from pg_settings where name = 'statement_timeout'`;
const TAKE = `select pg_try_advisory_lock(${advisoryLocks.nodes}, hashtext($1)) as taken`;

/** @param urls the same database by each of its hosts */
export function processLock(urls: readonly string[], key: string): ProcessLock {
  const connections = new Connections({ urls, poolSize: 1, timeoutMs: TIMEOUT_MS });
  let held: Lease | undefined;
  let isPooled = false;
  let closed: Promise<void> | undefined;
  const take = async (lease: Lease): Promise<boolean> => {
    const { rows: settings } = await lease.query(SERVER_TIMEOUT);
    isPooled = settings[0]?.setting !== String(TIMEOUT_MS);
    if (isPooled) return false;
    const { rows } = await lease.query(TAKE, [key]);
    return rows[0]?.taken === true;
  };
  return {
    async isHeld() {
      if (isPooled) return false;
      try {
        if (held) await held.query('select 1');
        else {
          const lease = await connections.acquire();
          held = lease;
          if (await take(lease)) return true;
          held = undefined;
          lease.release();
        }
      } catch {
        // With its connection the lock is gone.
        held?.release();
        held = undefined;
      }
      return held !== undefined;
    },
    async release() {
      held?.release();
      held = undefined;
      closed ??= connections.close();
      await closed;
    },
  };
}

/** Whether nobody holds the lock of that key: then it stays free until the end of the transaction. */
export async function isProcessLockFree(tx: Queries, key: string): Promise<boolean> {
  const { rows } = await sql<{ free: boolean }>`
    select pg_try_advisory_xact_lock(${sql.lit(advisoryLocks.nodes)}, hashtext(${key})) as free`.execute(
    tx,
  );
  return rows[0]?.free === true;
}
