/** What an index of either engine offers. */
import type { QueryTerm } from './terms.ts';

/** A part of a message that is text, as it stands in the source. */
export interface TextPart {
  readonly html: boolean;
  /** Content-Transfer-Encoding, as the structure has it. */
  readonly encoding: string;
  readonly charset: string | undefined;
  readonly bytes: Uint8Array;
}

/** What of one message is to be indexed. Plain data: it is handed to a thread. */
export interface SearchDocument {
  readonly accountId: number;
  readonly bodyId: number;
  /** INTERNALDATE, milliseconds since 1970. */
  readonly date: number;
  readonly subject: string;
  readonly from: string;
  /** To, Cc and Bcc. */
  readonly to: string;
  readonly attachmentNames: string;
  readonly parts: readonly TextPart[];
}

export type SearchChange =
  | { readonly kind: 'add'; readonly document: SearchDocument }
  /** The account has no message of this body any more. */
  | { readonly kind: 'remove'; readonly accountId: number; readonly bodyId: number }
  /** The account is gone. */
  | { readonly kind: 'forget'; readonly accountId: number };

/** A message that matches: whoever asks finds the mailboxes that hold its body. */
export interface Hit {
  readonly id: number;
  readonly bodyId: number;
  readonly date: number;
}

/** Where a page ended; hits come newest first, and of one date the latest id first. */
export type HitPlace = Pick<Hit, 'date' | 'id'>;

export interface FindRequest {
  readonly accountId: number;
  /** All must be in the message; at least one. */
  readonly terms: readonly QueryTerm[];
  /** Only hits behind this one. */
  readonly after?: HitPlace | undefined;
  readonly limit: number;
}

export interface SearchIndex {
  /**
   * Makes changes in their order. They are in the index when this resolves, and twice the same change
   * is as good as once.
   *
   * @param position of the last of them in the queue; kept in the index with them
   */
  apply(changes: readonly SearchChange[], position: number): Promise<void>;
  find(request: FindRequest): Promise<Hit[]>;
}
