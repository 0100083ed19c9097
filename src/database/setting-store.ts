import type { Database } from './engine.ts';

/** One text that the first writer sets for good; every node on the database reads the same one. */
export interface SettingStore {
  read(): Promise<string | undefined>;
  /** Stores the text unless there is one already; answers what is stored now. */
  create(text: string): Promise<string>;
}

/** Keeps a text in table `settings` under `name`. */
export function settingStore(database: Database, name: string): SettingStore {
  const read = async () => {
    const row = await database.read
      .selectFrom('settings')
      .select('value')
      .where('name', '=', name)
      .executeTakeFirst();
    return row?.value;
  };
  return {
    read,
    async create(text) {
      await database.write((tx) =>
        tx
          .insertInto('settings')
          .values({ name, value: text })
          .onConflict((conflict) => conflict.column('name').doNothing())
          .execute(),
      );
      const stored = await read();
      if (stored === undefined) throw new Error(`setting ${name} was stored but is not there`);
      return stored;
    },
  };
}
