/**
 * A search: its matches, page by page. If the cache has a match, its data is shown, so that a star or a deletion shows
 * there too.
 */
import { readQuery } from './search-query.js';

/** @typedef {import('./mailbox-view.js').Entry} Entry */

/**
 * @typedef {object} Match
 * @property {string} mailbox
 * @property {number} uid
 * @property {import('./sync-client.js').Envelope} envelope
 * @property {string[]} flags
 * @property {string} internalDate
 * @property {string} preview
 */

const PAGE = 50;
/** Defaults for a match that no sync has returned yet. */
const NOT_SYNCED = { size: 0, bodyStructure: { type: 'text/plain' } };

export class Search {
  query;
  #session;
  /** @type {Match[]} */
  #matches = [];
  /** @type {string | undefined} */
  #cursor;
  /** Whether the index lags: there may be more. */
  isIndexing = false;
  /** Whether the server has answered: before that, it is unknown whether there are matches. */
  isAnswered = false;

  /**
   * @param {import('./session.js').Session} session
   * @param {string} query
   */
  constructor(session, query) {
    this.#session = session;
    this.query = query;
  }

  get hasMore() {
    return this.#cursor !== undefined;
  }

  // #region search
  /**
   * Fetches one more page.
   *
   * @param {AbortSignal} signal
   * @throws {import('./api-call.js').Refused | import('./api-call.js').Unreachable}
   */
  async load(signal) {
    const cursor = this.#cursor;
    const body = { ...readQuery(this.query), limit: PAGE, ...(cursor && { cursor }) };
    const answer = await this.#session.json('/mail/search', { method: 'POST', body, signal });
    this.#matches.push(...answer.matches);
    this.#cursor = answer.cursor;
    this.isIndexing = answer.indexing === true;
    this.isAnswered = true;
  }
  // #endregion search

  /**
   * @param {import('./mail-cache.js').MailCache | import('./memory-cache.js').MemoryCache} cache
   * @param {string} account
   * @param {boolean} isSynced whether what the cache does not have is gone
   * @returns {Promise<Entry[]>}
   */
  async entries(cache, account, isSynced) {
    const found = await Promise.all(
      this.#matches.map(async ({ mailbox, uid, ...match }) => {
        const read = await cache.read(account, mailbox, uid);
        if (!read && isSynced) return [];
        return [{ mailbox, message: read?.message ?? { uid, ...NOT_SYNCED, ...match } }];
      }),
    );
    return found.flat();
  }
}
