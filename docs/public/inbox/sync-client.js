/**
 * Keeps a cache of mailboxes up to date by `POST /mail/sync`. Knows neither the page nor the
 * socket: whoever thinks that something changed calls `sync`.
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

/** What each added message carries, so that a list needs no call per message. */
const FIELDS = ['envelope', 'flags', 'size', 'internalDate', 'bodyStructure'];
/** Changes of one answer: a page of this size is shown at once and is cheap to ask for again. */
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
  /** @type {Map<string, { again: boolean, done: Promise<void> }>} */
  #running = new Map();

  /** @param {SyncOptions} options */
  constructor(options) {
    this.#options = options;
  }

  // #region hint
  /**
   * An event or `hello` says where a mailbox stands. That is a hint and no more: if we stand there
   * already there is nothing to ask; else we ask with the token of our own last sync.
   *
   * @param {{ mailbox: string } & Position} tip
   */
  async catchUp(tip) {
    const here = await this.#options.cache.position(this.#options.account, tip.mailbox);
    if (here?.token === tip.token && here.uidvalidity === tip.uidvalidity) return;
    await this.sync(tip.mailbox);
  }
  // #endregion hint

  // #region once
  /**
   * Brings one mailbox up to date. While a sync is under way, more calls ask for one more after it:
   * ten events in a row make two syncs.
   *
   * @param {string} mailbox
   * @returns {Promise<void>}
   */
  sync(mailbox) {
    const running = this.#running.get(mailbox);
    if (running) {
      running.again = true;
      return running.done;
    }
    const run = { again: true, done: Promise.resolve() };
    run.done = (async () => {
      while (run.again && !this.#stopped) {
        run.again = false;
        await this.#pull(mailbox);
      }
    })().finally(() => this.#running.delete(mailbox));
    this.#running.set(mailbox, run);
    return run.done;
  }
  // #endregion once

  // #region pull
  /** @param {string} mailbox */
  async #pull(mailbox) {
    const { account, cache, ask, limit = PAGE, onPage } = this.#options;
    let isCatchUp = true;
    for (let hasMore = true; hasMore && !this.#stopped; ) {
      const base = await cache.position(account, mailbox);
      const page = await ask({ mailbox, ...base, limit, fields: FIELDS });
      if (this.#stopped) return;
      // Another tab may have been faster: then this page starts from where the cache is no more.
      if (!(await cache.apply(account, base, page))) continue;
      if (!base || startsAnew(base, page)) isCatchUp = false;
      onPage?.(page, isCatchUp);
      hasMore = page.hasMore === true;
    }
  }
  // #endregion pull

  /** Nothing is asked or written after this. */
  stop() {
    this.#stopped = true;
  }
}

// #region anew
/**
 * Whether everything that is cached of a mailbox has to go: its UIDs mean other messages now, or the
 * server does not know any more what changed since our token.
 *
 * @param {Position | undefined} base
 * @param {SyncPage} page
 */
export function startsAnew(base, page) {
  return page.reset === true || (base !== undefined && base.uidvalidity !== page.uidvalidity);
}
// #endregion anew
