/**
 * Keeps a cache of mailboxes up to date by `POST /mail/sync`. It knows neither the page nor the socket: call `sync`
 * when something may have changed.
 */

/**
 * @typedef {object} Address
 * @property {string} [name]
 * @property {string} [address]
 */

/**
 * @typedef {object} Envelope
 * @property {string} [date] RFC 3339
 * @property {string} subject
 * @property {Address[]} [from]
 * @property {Address[]} [replyTo]
 * @property {Address[]} [to]
 * @property {Address[]} [cc]
 * @property {Address[]} [bcc]
 * @property {string} [messageId] in angle brackets
 * @property {string} [inReplyTo] that of the message which is answered
 */

/**
 * @typedef {object} BodyStructure one MIME part
 * @property {string} [part] its number; absent on a multipart that is the whole message
 * @property {string} type
 * @property {Record<string, string>} [parameters]
 * @property {string} [encoding]
 * @property {number} [size] octets in the transfer encoding
 * @property {string} [id] Content-ID, in angle brackets
 * @property {string} [disposition]
 * @property {Record<string, string>} [dispositionParameters]
 * @property {BodyStructure[]} [childNodes]
 */

/**
 * @typedef {object} Message what the cache has of a message
 * @property {number} uid
 * @property {Envelope} envelope
 * @property {string[]} flags
 * @property {number} size octets of the source
 * @property {string} internalDate when it arrived, RFC 3339
 * @property {BodyStructure} bodyStructure
 * @property {string} [preview] the first words of its text
 * @property {string} [threadId] of its conversation
 */

/**
 * @typedef {object} Position how far the cache of a mailbox is
 * @property {string} uidvalidity
 * @property {string} token
 */

/**
 * @typedef {object} SyncPage an answer of /mail/sync
 * @property {string} mailbox
 * @property {string} uidvalidity
 * @property {string} token
 * @property {boolean} [reset]
 * @property {boolean} [hasMore]
 * @property {{ added: Message[], updated: { uid: number, flags: string[] }[], removed: { uid: number }[] }} changes
 */

/**
 * @typedef {object} Cache where mailboxes are kept; see mail-cache.js and memory-cache.js
 * @property {(account: string, mailbox: string) => Promise<Position | undefined>} position
 * @property {(account: string, base: Position | undefined, page: SyncPage) => Promise<boolean>} apply
 *   all of a page or nothing; false where the cache does not stand at `base` any more
 */

/** The fields of each added message, so that a list needs no call per message. */
const FIELDS = [
  'envelope',
  'flags',
  'size',
  'internalDate',
  'bodyStructure',
  'preview',
  'threadId',
];
/** Changes in one answer: a page of this size is shown at once and is cheap to request again. */
const PAGE = 500;

/**
 * @typedef {object} SyncOptions
 * @property {string} account
 * @property {Cache} cache
 * @property {(body: object) => Promise<SyncPage>} ask calls POST /mail/sync
 * @property {number} [limit]
 * @property {(page: SyncPage, isCatchUp: boolean) => void} [onPage] a page was applied; `isCatchUp`
 *   says that its added messages are news, not the first sight of an old mailbox
 */

export class SyncClient {
  #options;
  #stopped = false;
  /** What was asked for last of each mailbox; it ends after all that was asked for before. @type {Map<string, Promise<unknown>>} */
  #turns = new Map();
  /** Syncs that have not begun. @type {Map<string, Promise<void>>} */
  #waiting = new Map();

  /** @param {SyncOptions} options */
  constructor(options) {
    this.#options = options;
  }

  // #region hint
  /**
   * An event or `hello` names the state of a mailbox. That is only a hint: if we have that state already, there is
   * nothing to do; otherwise we sync with the token of our own last sync.
   *
   * @param {{ mailbox: string } & Position} tip
   */
  async catchUp(tip) {
    // The event of our own change comes before its answer, which has everything that a sync would return.
    await this.#turns.get(tip.mailbox)?.catch(() => undefined);
    const here = await this.#options.cache.position(this.#options.account, tip.mailbox);
    if (here?.token === tip.token && here.uidvalidity === tip.uidvalidity) return;
    await this.sync(tip.mailbox);
  }
  // #endregion hint

  // #region once
  /**
   * Brings one mailbox up to date. Calls during a sync cause one more sync after it: ten events in a row make two
   * syncs.
   *
   * @param {string} mailbox
   * @returns {Promise<void>}
   */
  sync(mailbox) {
    const waiting = this.#waiting.get(mailbox);
    if (waiting) return waiting;
    const done = this.#inTurn(mailbox, () => {
      this.#waiting.delete(mailbox);
      return this.#pull(mailbox);
    });
    this.#waiting.set(mailbox, done);
    return done;
  }
  // #endregion once

  // #region act
  /**
   * Makes a change. The call sends the state of the cache as `since`, so that its answer has the result of a sync: the
   * change costs one request, and only sync writes to the cache.
   *
   * @template {{ sync?: SyncPage }} Answer
   * @param {string} mailbox
   * @param {(ask: { uidvalidity?: string, since: Partial<Position>, fields: string[] }) => Promise<Answer>} call
   * @returns {Promise<Answer>}
   */
  act(mailbox, call) {
    return this.#inTurn(mailbox, async () => {
      const { account, cache } = this.#options;
      const base = await cache.position(account, mailbox);
      const since = base ? { uidvalidity: base.uidvalidity, token: base.token } : {};
      const answer = await call({
        // Refused where these UIDs stand for other messages now.
        ...(base && { uidvalidity: base.uidvalidity }),
        since,
        fields: FIELDS,
      });
      const isTaken = answer.sync !== undefined && (await this.#take(base, answer.sync, false));
      if (!isTaken || answer.sync?.hasMore) await this.#pull(mailbox);
      return answer;
    });
  }
  // #endregion act

  /**
   * Runs work on a mailbox after all earlier work on it.
   *
   * @template T
   * @param {string} mailbox
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  #inTurn(mailbox, work) {
    const before = this.#turns.get(mailbox) ?? Promise.resolve();
    const turn = before.catch(() => undefined).then(work);
    this.#turns.set(mailbox, turn);
    return turn;
  }

  // #region pull
  /** @param {string} mailbox */
  async #pull(mailbox) {
    const { account, cache, ask, limit = PAGE } = this.#options;
    let isCatchUp = true;
    for (let hasMore = true; hasMore && !this.#stopped; ) {
      const base = await cache.position(account, mailbox);
      const since = base && { uidvalidity: base.uidvalidity, token: base.token };
      // In a large mailbox that is new here, the first page has what the user looks for.
      const page = await ask({ mailbox, ...since, limit, fields: FIELDS, order: 'newest' });
      if (!base || startsAnew(base, page)) isCatchUp = false;
      // Another tab may have been faster: then this page starts from a state that the cache no longer has.
      if (await this.#take(base, page, isCatchUp)) hasMore = page.hasMore === true;
    }
  }

  /**
   * @param {Position | undefined} base
   * @param {SyncPage} page
   * @param {boolean} isCatchUp
   * @returns {Promise<boolean>} whether the page is in the cache
   */
  async #take(base, page, isCatchUp) {
    const { account, cache, onPage } = this.#options;
    if (this.#stopped || !(await cache.apply(account, base, page))) return false;
    onPage?.(page, isCatchUp);
    return true;
  }
  // #endregion pull

  /** Nothing is asked or written after this. */
  stop() {
    this.#stopped = true;
  }
}

/** @param {Message | undefined} message */
export function isUnread(message) {
  return message !== undefined && !message.flags.includes('\\Seen');
}

// #region anew
/**
 * Whether the whole cache of a mailbox must be dropped: its UIDs stand for other messages now, or the server no longer
 * knows what changed since our token.
 *
 * @param {Position | undefined} base
 * @param {SyncPage} page
 */
export function startsAnew(base, page) {
  return page.reset === true || (base !== undefined && base.uidvalidity !== page.uidvalidity);
}
// #endregion anew
