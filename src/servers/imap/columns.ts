/** Rows of messages that have only the columns which a command needs. */

/** A column of a message. @throws Error where it was not read */
export function columnOf<Message extends { readonly uid: number }, Column extends keyof Message>(
  row: Message,
  column: Column,
): Exclude<Message[Column], undefined> {
  const value = row[column];
  if (value === undefined) throw new Error(`${String(column)} of message ${row.uid} was not read`);
  return value as Exclude<Message[Column], undefined>;
}
