/** Rows of `bodies`: new ones, and those that nothing needs. */
import type { ExpressionBuilder } from 'kysely';
import type { NewRow, Schema } from '../../platform/database/database.ts';

/** The columns of a new row. */
export function bodyColumns({ size, content, file }: NewRow<'bodies'>) {
  return { size, content, file };
}

/** The row of a body that was read: its bytes in memory are in it, unless there are none beside its file. */
export function rowOf(body: { size: number; content: Buffer; file?: string }): NewRow<'bodies'> {
  const { size, content, file } = body;
  const inRow = content.length > 0 || file === undefined ? content : null;
  return { size, content: inRow, file: file ?? null };
}

/** A condition of queries on bodies: no message of any mailbox needs it. */
export function isInNoMailbox({ not, exists, selectFrom }: ExpressionBuilder<Schema, 'bodies'>) {
  const messages = selectFrom('messages').select('body_id');
  return not(exists(messages.whereRef('messages.body_id', '=', 'bodies.id')));
}
