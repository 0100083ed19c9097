/**
 * 12 kills on PostgreSQL, or as many as CRASH_ROUNDS says: fewer, since a kill leaves a server that
 * goes on, and so there is less that it can tear apart.
 */
import { after } from 'node:test';
import { declareCrashTest } from './crash.ts';
import { findPostgres, startPostgres } from './postgres.ts';

// A server of its own: what a killed process left in the middle is this test's alone.
const postgres = await startPostgres(findPostgres() ?? '');
after(() => postgres.stop());

declareCrashTest({
  rounds: Number(process.env.CRASH_ROUNDS ?? '12'),
  databaseUrl: postgres.url,
});
