/** What the staging thread and the one that asks it say to each other. */
import type { WrittenMessage } from '../../message/message.ts';
import type { ArrivedMail } from './staging.ts';

export interface StagingQuestion {
  readonly id: number;
  readonly mail: ArrivedMail;
  readonly content: Uint8Array<ArrayBuffer>;
}

export type StagingAnswer =
  /** Said once, before all others. */
  | { readonly kind: 'ready' }
  | {
      readonly kind: 'staged';
      readonly id: number;
      readonly message: WrittenMessage;
      /** JSON of the verdicts, which takes less time than a structured clone. */
      readonly verdicts?: string;
      /** The source with our trace headers in front, alone in its memory. */
      readonly content: Uint8Array<ArrayBuffer>;
    }
  | { readonly kind: 'failed'; readonly id: number; readonly bug: string };

/** The bytes in memory that holds nothing else, so that it can be handed over instead of copied. */
export function ownMemory(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteLength } = bytes;
  const isOwn = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength;
  return isOwn ? new Uint8Array(buffer) : new Uint8Array(bytes);
}
