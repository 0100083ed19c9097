/** What a search asks of a mail store, and what it answers. */
import type { EpochMs } from '../../platform/time/time.ts';
import type { Envelope } from '../../protocols/message/message.ts';
import type { QueryTexts } from '../search/search.ts';

/** The filters of a search, in addition to its words. */
export interface SearchFilter {
  /** INTERNALDATE from this time on. */
  readonly since?: EpochMs;
  /** INTERNALDATE before that. */
  readonly before?: number;
  /** More octets than this. */
  readonly larger?: number;
  /** Fewer octets than this. */
  readonly smaller?: number;
  /** The message has all of them. */
  readonly flags?: readonly string[];
  /** The message has none of them. */
  readonly notFlags?: readonly string[];
  readonly hasAttachment?: boolean;
}

export interface SearchRequest extends SearchFilter {
  /** By default all mailboxes. */
  readonly mailbox?: string;
  readonly texts: QueryTexts;
  /** The most matches in one answer. */
  readonly limit: number;
  /** The cursor of the previous answer. */
  readonly cursor?: string;
}

export interface SearchMatch {
  readonly mailbox: string;
  readonly uid: number;
  readonly envelope: Envelope;
  readonly flags: readonly string[];
  /** RFC 3339, UTC. */
  readonly internalDate: string;
  /** The first words, on one line. */
  readonly preview: string;
  readonly threadId: string;
}

export interface SearchResult {
  /** Newest first. */
  readonly matches: readonly SearchMatch[];
  /** Leads to the next page; absent where there is none. */
  readonly cursor?: string;
  /** Some of the account's newest mail is not in the index yet. */
  readonly indexing?: true;
}
