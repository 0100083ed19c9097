import type { Kysely } from 'kysely';
import { Migrator } from 'kysely/migration';
import { type Engine, migrationsFor } from './migrations.ts';

/** Applies the steps that the database lacks; nodes that start together take turns (advisory lock). */
export async function migrate<T>(kysely: Kysely<T>, engine: Engine): Promise<void> {
  const migrator = new Migrator({ db: kysely, provider: migrationsFor(engine) });
  const { error } = await migrator.migrateToLatest();
  if (error) throw error;
}
