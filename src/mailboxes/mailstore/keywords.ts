/**
 * The keywords of a mailbox (RFC 9051 section 2.3.2): a mail program learns of them when it opens the mailbox. The first
 * spelling of one is that of all its messages, by whichever way a later one comes.
 */
import type { Queries } from '../../platform/database/database.ts';
import { flagsFromText, flagsToText } from './syntax.ts';

/** Keywords that a mailbox lists; messages may have others. */
const KEYWORDS_MAX = 200;

export function hasKeyword(flags: readonly string[]): boolean {
  return flags.some((flag) => !flag.startsWith('\\'));
}

/**
 * Adds keywords to those of a mailbox whose row the transaction has locked.
 *
 * @param flags in stored form
 * @returns the same, each keyword as the mailbox spells it
 */
export async function keepKeywords(
  tx: Queries,
  mailboxId: number,
  flags: readonly string[],
): Promise<string[]> {
  if (!hasKeyword(flags)) return [...flags];
  const row = await tx
    .selectFrom('mailboxes')
    .select('keywords')
    .where('id', '=', mailboxId)
    .executeTakeFirst();
  // Not collected yet: no mail program has opened the mailbox.
  if (typeof row?.keywords !== 'string') return [...flags];
  const known = new Map(flagsFromText(row.keywords).map((one) => [one.toLowerCase(), one]));
  const before = known.size;
  const spelled = flags.map((flag) => {
    if (flag.startsWith('\\')) return flag;
    const key = flag.toLowerCase();
    if (!known.has(key) && known.size < KEYWORDS_MAX) known.set(key, flag);
    return known.get(key) ?? flag;
  });
  if (known.size > before) await writeKeywords(tx, mailboxId, [...known.values()]);
  return spelled.sort();
}

/** Collects the keywords of a mailbox from its messages, once. @returns them */
export async function collectKeywords(tx: Queries, mailboxId: number): Promise<string> {
  // Locked: no keyword is set meanwhile.
  const row = await tx
    .updateTable('mailboxes')
    .set((eb) => ({ keywords: eb.ref('keywords') }))
    .where('id', '=', mailboxId)
    .returning('keywords')
    .executeTakeFirst();
  if (typeof row?.keywords === 'string') return row.keywords;
  const rows = await tx
    .selectFrom('messages')
    .select('flags')
    .distinct()
    .where('mailbox_id', '=', mailboxId)
    .execute();
  const found = new Map<string, string>();
  for (const flag of rows.flatMap(({ flags }) => flagsFromText(flags))) {
    const key = flag.toLowerCase();
    if (!flag.startsWith('\\') && !found.has(key) && found.size < KEYWORDS_MAX) {
      found.set(key, flag);
    }
  }
  return writeKeywords(tx, mailboxId, [...found.values()]);
}

async function writeKeywords(tx: Queries, id: number, all: readonly string[]): Promise<string> {
  const keywords = flagsToText(all);
  await tx.updateTable('mailboxes').set({ keywords }).where('id', '=', id).execute();
  return keywords;
}
