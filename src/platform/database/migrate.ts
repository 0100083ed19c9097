/** Migrates a database to the schema of this release, or refuses it with one line for the operator. */
import { type Kysely, sql } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import type { Engine, ReadDatabase } from './engine.ts';
import { first } from './migrations/0001.ts';
import { beforeSecond, laterThanSecond, second } from './migrations/0002.ts';
import { beforeThird, laterThanThird, third } from './migrations/0003.ts';
import { fourth, laterThanFourth } from './migrations/0004.ts';
import { fifth } from './migrations/0005.ts';
import { beforeSixth, laterThanSixth, sixth } from './migrations/0006.ts';
import { beforeSeventh, laterThanSeventh, seventh } from './migrations/0007.ts';
import { eighth } from './migrations/0008.ts';
import { beforeEleventh, eleventh, laterThanEleventh } from './migrations/0011.ts';
import { beforeTwelfth, laterThanTwelfth, twelfth } from './migrations/0012.ts';
import { laterThanThirteenth, thirteenth } from './migrations/0013.ts';
import { beforeFourteenth, fourteenth, laterThanFourteenth } from './migrations/0014.ts';
import { fifteenth } from './migrations/0015.ts';
import { sixteenth } from './migrations/0016.ts';
import { beforeEighteenth, eighteenth } from './migrations/0018.ts';
import { nineteenth } from './migrations/0019.ts';
import { twentieth } from './migrations/0020.ts';
import { beforeTwentyFirst, twentyFirst } from './migrations/0021.ts';
import { beforeTwentySecond, twentySecond } from './migrations/0022.ts';
import { twentyThird } from './migrations/0023.ts';
import { twentyFourth } from './migrations/0024.ts';
import { beforeTwentyFifth, twentyFifth } from './migrations/0025.ts';
import { beforeTwentySixth, laterThanTwentySixth, twentySixth } from './migrations/0026.ts';
import {
  alterBetweenOthers,
  applyBetweenOthers,
  findUnfinished,
  finish,
  type Later,
  nameOf,
  type OnStep,
  withLockTimeout,
  withMigrationLock,
} from './postgres/online.ts';
import { checkSchema, UNFINISHED_RESTORE_TABLE } from './schema-check.ts';

/** This release cannot use the database. */
export class UnfitDatabase extends Error {
  override readonly name = 'UnfitDatabase';
  /** What is wrong with it. */
  readonly found: string;
  /** What to do, where the database is the one of the service. */
  readonly advice: string;

  constructor(found: string, advice: string) {
    super(`${found}: ${advice}`);
    this.found = found;
    this.advice = advice;
  }
}

/**
 * The oldest version whose program may use the newest schema, stored in `settings` under {@link OLDEST}. A migration
 * that only adds things which an older program can ignore does not change it, so that nodes can be upgraded one after
 * the other. A migration that removes something, or changes its meaning, comes one release after the program stopped
 * to use it, and sets this to the version of that program.
 */
const OLDEST_VERSION = '2';
const OLDEST = 'oldest_version';

interface Step {
  /** @param isBegun whether `before` was done */
  readonly make: (engine: Engine, isBegun: boolean) => Migration;
  /** On PostgreSQL: changes of tables before the transaction of the migration. */
  readonly before?: readonly string[];
  /** On PostgreSQL: work after it. */
  readonly later?: Later;
}

/**
 * All migrations by name; each runs in one transaction. A name is a number of four digits: the version of the
 * database after it. A released migration is never edited (`migrations/released.json`).
 */
const STEPS: Readonly<Record<string, Step>> = {
  '0001': { make: first },
  '0002': { make: second, before: beforeSecond, later: laterThanSecond },
  '0003': { make: third, before: beforeThird, later: laterThanThird },
  '0004': { make: fourth, later: laterThanFourth },
  '0005': { make: () => fifth },
  '0006': { make: sixth, before: beforeSixth, later: laterThanSixth },
  '0007': { make: seventh, before: beforeSeventh, later: laterThanSeventh },
  '0008': { make: eighth },
  '0011': { make: eleventh, before: beforeEleventh, later: laterThanEleventh },
  '0012': { make: twelfth, before: beforeTwelfth, later: laterThanTwelfth },
  '0013': { make: thirteenth, later: laterThanThirteenth },
  '0014': { make: fourteenth, before: beforeFourteenth, later: laterThanFourteenth },
  '0015': { make: fifteenth },
  '0016': { make: sixteenth },
  '0018': { make: eighteenth, before: beforeEighteenth },
  '0019': { make: nineteenth },
  '0020': { make: twentieth },
  '0021': { make: () => twentyFirst, before: beforeTwentyFirst },
  '0022': { make: twentySecond, before: beforeTwentySecond },
  '0023': { make: twentyThird },
  '0024': { make: twentyFourth },
  '0025': { make: twentyFifth, before: beforeTwentyFifth },
  '0026': { make: twentySixth, before: beforeTwentySixth, later: laterThanTwentySixth },
};
/** Indexes that a later migration dropped: no start makes them again. */
const DROPPED = new Set(['deliveries_by_receiver']);
export const LATER: Later = {
  indexes: Object.values(STEPS)
    .flatMap(({ later }) => later?.indexes ?? [])
    .filter((statement) => !DROPPED.has(nameOf(statement))),
  checks: Object.assign({}, ...Object.values(STEPS).map(({ later }) => later?.checks)),
};
/** What of it may be missing or unfinished, by its name in the description of a schema. */
const OPEN = new Set([
  ...LATER.indexes.map((statement) => `index ${nameOf(statement)}`),
  ...Object.entries(LATER.checks).map(([table, name]) => `${table}.${name}`),
]);

/** Kysely's table of the migrations that a database has had. */
const APPLIED = 'kysely_migration';

/** On PostgreSQL: the work after the transaction of a version. */
export function laterThan(version: string): Later | undefined {
  return STEPS[version]?.later;
}

/** @param isBegun whether what comes before each transaction was done */
export function migrationsFor(engine: Engine, isBegun = false): Record<string, Migration> {
  const migrations = Object.fromEntries(
    Object.entries(STEPS).map(([name, { make }]) => [name, make(engine, isBegun)]),
  );
  return engine === 'sqlite' ? migrations : withLockTimeout(migrations);
}

/** What fills an empty database: nothing else may use it meanwhile. */
export type FillCommand = 'restore' | 'move';

/**
 * Which command fills a PostgreSQL database (`postgres/filling.ts`), by its note of how far it came: that of a move is
 * JSON. Undefined where none does.
 */
export async function readFilling<T>(
  kysely: Kysely<T>,
): Promise<{ readonly command: FillCommand; readonly note: string | null } | undefined> {
  if (!(await hasTable(kysely, 'postgres', UNFINISHED_RESTORE_TABLE))) return undefined;
  const { rows } = await sql<{ filled_from: string | null }>`
    select filled_from from ${sql.table(UNFINISHED_RESTORE_TABLE)}`.execute(kysely);
  const note = rows[0]?.filled_from ?? null;
  return { command: note?.startsWith('{') ? 'move' : 'restore', note };
}

/** Only the command that fills a PostgreSQL database may open it before it is full. @throws UnfitDatabase */
export async function refuseUnfinished<T>(kysely: Kysely<T>): Promise<void> {
  const filling = await readFilling(kysely);
  if (!filling) return;
  throw new UnfitDatabase(
    `a ${filling.command} into this database was interrupted, or is still running`,
    `when none is running, run "postroom ${filling.command}" again`,
  );
}

/**
 * Migrates a database. Its schema has to be that of its version before, and is that of this program afterwards.
 *
 * @param onStep called with each step that takes time, on PostgreSQL
 * @throws UnfitDatabase
 */
export async function migrate<T>(
  kysely: Kysely<T>,
  engine: Engine,
  onStep?: OnStep,
): Promise<void> {
  const version = versionOf(await readApplied(kysely, engine));
  if (version < newestSchema(engine)) await refuseDifference(kysely, engine);
  await applyMigrations(kysely, engine, onStep);
  await refuseDifference(kysely, engine, true);
}

/**
 * @param isFinished whether all is done that follows a migration on PostgreSQL, such as its indexes; a start may have been cut
 *   short before, or another node is at it
 * @throws UnfitDatabase where a database has another schema than its version; an empty one has none
 */
async function refuseDifference<T>(
  kysely: Kysely<T>,
  engine: Engine,
  isFinished = false,
): Promise<void> {
  const names = Object.keys(migrationsFor(engine));
  const applied = await readApplied(kysely, engine);
  const isNewer = await isOfNewer(kysely, engine, applied, names);
  const version = isNewer ? names.at(-1) : names[applied.length - 1];
  if (version === undefined) return;
  // On SQLite a migration is one transaction. On PostgreSQL it may have been cut short, or another node is at it now.
  const later = engine === 'postgres' ? names.filter((name) => name > version) : [];
  const open = engine === 'postgres' && !isFinished ? OPEN : new Set<string>();
  const difference = await checkSchema(kysely, engine, { version, isNewer, later, open });
  if (difference === undefined) return;
  throw new UnfitDatabase(
    `the schema differs from the one that this program makes (${difference})`,
    'restore a backup, or start with an empty database',
  );
}

/** The check of the start, for those that only read. @throws UnfitDatabase where the start would refuse the database */
export async function refuseUnfit({ engine, read }: ReadDatabase): Promise<void> {
  if (engine === 'postgres') await refuseUnfinished(read);
  await refuseDifference(read, engine);
}

/**
 * Applies the missing migrations. On PostgreSQL, nodes that start together take turns, and running nodes continue
 * meanwhile; the next start finishes what an interrupted one left. A database of a newer version stays as it is.
 */
async function applyMigrations<T>(
  kysely: Kysely<T>,
  engine: Engine,
  onStep: OnStep = () => {},
): Promise<void> {
  const names = Object.keys(migrationsFor(engine));
  const applied = await readApplied(kysely, engine);
  if (await isOfNewer(kysely, engine, applied, names)) return;
  if (engine === 'sqlite') {
    const newest = names.at(-1) ?? '';
    if (applied.length === names.length) return;
    await kysely.transaction().execute((tx) => apply(tx, migrationsFor(engine), newest));
    return;
  }
  const findLeft = () => findUnfinished(kysely, LATER);
  const { indexes, checks } = await findLeft();
  const isDone = indexes.length + Object.keys(checks).length === 0;
  if (applied.length === names.length && isDone) return;
  await withMigrationLock(kysely, onStep, async () => {
    // Another node may have done all of it meanwhile.
    const { length } = await readApplied(kysely, engine);
    const isEmpty = length === 0;
    if (length < names.length) {
      const before = names.slice(length).flatMap((name) => STEPS[name]?.before ?? []);
      if (!isEmpty) await alterBetweenOthers(kysely, onStep, before);
      const migrations = migrationsFor(engine, !isEmpty);
      // Several in one transaction would hold a table that mail waits for, while they wait for another that this mail has.
      const steps = isEmpty ? names.slice(-1) : names.slice(length);
      for (const name of steps) {
        await applyBetweenOthers(kysely, onStep, (tx) => apply(tx, migrations, name));
      }
    }
    await finish(kysely, await findLeft(), { isEmpty, onStep });
  });
}

/** @param upTo name of the last one to apply */
async function apply<T>(
  tx: Kysely<T>,
  migrations: Record<string, Migration>,
  upTo: string,
): Promise<void> {
  const provider = { getMigrations: async () => migrations };
  const { error } = await new Migrator({ db: tx, provider }).migrateTo(upTo);
  if (error) throw error;
  await sql`insert into settings (name, value) values (${OLDEST}, ${OLDEST_VERSION})
    on conflict (name) do update set value = excluded.value`.execute(tx);
}

/** The version of a database, and the newest one that this program knows. */
export async function schemaVersions({
  engine,
  read,
}: ReadDatabase): Promise<{ version: number; newest: number }> {
  const applied = await readApplied(read, engine);
  return { version: versionOf(applied), newest: newestSchema(engine) };
}

/** The version that this program migrates a database to. */
export function newestSchema(engine: Engine): number {
  return versionOf(Object.keys(migrationsFor(engine)));
}

function versionOf(migrations: readonly string[]): number {
  return Math.max(0, ...migrations.map(Number));
}

/** Names of the migrations that the database has had. */
async function readApplied<T>(kysely: Kysely<T>, engine: Engine): Promise<string[]> {
  if (!(await hasTable(kysely, engine, APPLIED))) return [];
  const { rows } = await sql<{ name: string }>`select name from ${sql.table(APPLIED)}`.execute(
    kysely,
  );
  return rows.map(({ name }) => name);
}

async function hasTable<T>(kysely: Kysely<T>, engine: Engine, name: string): Promise<boolean> {
  const found =
    engine === 'sqlite'
      ? sql`select 1 from sqlite_schema where name = ${name}`
      : sql`select 1 from pg_tables where schemaname = current_schema() and tablename = ${name}`;
  return (await found.execute(kysely)).rows.length > 0;
}

/**
 * Whether a newer program migrated the database, and allows this one to use it.
 *
 * @throws UnfitDatabase where this program may not
 */
async function isOfNewer<T>(
  kysely: Kysely<T>,
  engine: Engine,
  applied: readonly string[],
  known: readonly string[],
): Promise<boolean> {
  if (applied.some((name) => !/^\d{4}$/.test(name))) {
    throw new UnfitDatabase(
      'the database was made before the first release, 0.2.0, and cannot be migrated',
      'start with an empty database',
    );
  }
  const [version, newest] = [versionOf(applied), versionOf(known)];
  if (version <= newest) return false;
  if (await hasTable(kysely, engine, 'settings')) {
    const { rows } = await sql<{ value: string }>`
      select value from settings where name = ${OLDEST}`.execute(kysely);
    if (rows[0] && Number(rows[0].value) <= newest) return true;
  }
  throw new UnfitDatabase(
    `the database has schema version ${version}, but this program knows only versions up to ${newest}`,
    'start the newer program, or restore a backup',
  );
}
