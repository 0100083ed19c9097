/**
 * Messages from before 0.3.0 have no preview, no thread and no attachment flag in their rows: these are read
 * from the source when they are requested.
 */
import type { Row } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import {
  type Envelope,
  hasAttachments,
  type MessagePart,
  readHeader,
  readPreview,
  readReferences,
} from '../../protocols/message/message.ts';
import type { Bodies } from '../bodies/bodies.ts';
import type { OpaqueIds } from './opaque-ids.ts';
import { formatThreadId, threadByHeader, threadHeaders } from './stage-message.ts';
import type { Description } from './store.ts';

/** What a row has stored about its message; null in one from before 0.3.0. */
export type StoredDescription = Pick<Row<'messages'>, 'preview' | 'thread_id' | 'has_attachment'>;

/** Where sources are read, and the ids of messages without a Message-ID. */
export interface Sources {
  readonly bodies: Pick<Bodies, 'find' | 'read'>;
  readonly ids: OpaqueIds;
}

type OlderRow = Pick<Row<'messages'>, 'body_id' | 'envelope' | 'structure'>;

/** What a row has stored about its message; undefined where the source has to be read. */
export function readStored({
  preview,
  thread_id,
  has_attachment,
}: StoredDescription): Description | undefined {
  if (preview === null || thread_id === null || has_attachment === null) return undefined;
  return {
    preview,
    threadId: formatThreadId(thread_id),
    hasAttachment: has_attachment === 1,
  };
}

/** The description of a message, from its row, or else from its source. */
export async function describeRow(
  sources: Sources,
  row: StoredDescription & OlderRow,
): Promise<Description> {
  return readStored(row) ?? describeOlder(sources, row);
}

export async function describeOlder({ bodies, ids }: Sources, row: OlderRow): Promise<Description> {
  const structure = JSON.parse(row.structure) as MessagePart;
  const { messageId } = JSON.parse(row.envelope) as Envelope;
  const { preview, references } = await readSource(bodies, row.body_id, structure);
  const thread = threadByHeader(threadHeaders(messageId, references), () =>
    ids.nameBody(row.body_id),
  );
  return {
    preview,
    threadId: formatThreadId(thread),
    hasAttachment: hasAttachments(structure),
  };
}

/** A missing source must not prevent the sync of the other messages. */
async function readSource(
  bodies: Sources['bodies'],
  bodyId: number,
  structure: MessagePart,
): Promise<{ preview: string; references: string[] }> {
  const body = await bodies.find(bodyId);
  if (!body) return { preview: '', references: [] };
  try {
    const { fields } = await readHeader(bodies.read(body));
    const preview = await readPreview(structure, (range) => bodies.read(body, range));
    return { preview, references: readReferences(fields) };
  } catch (error) {
    if (error instanceof Refusal) return { preview: '', references: [] };
    throw error;
  }
}
