/**
 * The client without its page: connects session, cache, sync and realtime channel. Any error either leads to a retry
 * or ends the session.
 */
import { Refused, Unreachable } from './api-call.js';
import { LiveChannel } from './live-channel.js';
import { SyncClient } from './sync-client.js';

/** @typedef {import('./live-channel.js').ChannelState} ChannelState */
/** @typedef {import('./live-channel.js').Hello} Hello */
/** @typedef {import('./live-channel.js').Tip} Tip */
/** @typedef {import('./sync-client.js').Message} Message */

/**
 * @typedef {object} InboxOptions
 * @property {string} origin
 * @property {import('./session.js').Session} session
 * @property {import('./mail-cache.js').MailCache | import('./memory-cache.js').MemoryCache} cache
 * @property {import('./protocol-log.js').ProtocolLog} log
 * @property {(state: ChannelState, retryInMs: number) => void} onState
 * @property {() => void} onMailboxes the list of mailboxes is here, or another one
 * @property {(mailbox: string) => void} onChange the cache of a mailbox has changed
 * @property {(mailbox: string, messages: Message[]) => void} onArrival messages that are news
 * @property {() => void} onSettled every mailbox is as the server said in hello
 * @property {(why: 'expired' | 'inactive') => void} onEnd nobody can get another token
 * @property {(detail: string) => void} onTrouble
 * @property {{ firstDelayMs?: number, maxDelayMs?: number, limit?: number }} [tuning]
 */

/** The uses of mailboxes (RFC 6154), by their usual names: valid until the server has answered. */
const USUAL_USES = ['Sent', 'Drafts', 'Junk', 'Trash', 'Archive'];

export class Inbox {
  /** @type {string[]} */
  mailboxes = [];
  /** What mailboxes are for, such as `\\Trash`. */
  #uses = new Map(USUAL_USES.map((name) => [name, `\\${name}`]));
  #options;
  #channel;
  /** @type {SyncClient | undefined} */
  #client;
  #stopped = false;
  /** The end of the list that is being processed. */
  #listTurn = Promise.resolve(true);

  /** @param {InboxOptions} options */
  constructor(options) {
    this.#options = options;
    const { origin, session, log, onState, tuning = {} } = options;
    this.#channel = new LiveChannel({
      origin,
      log,
      onState,
      token: () => session.token,
      onHello: (hello) => void this.#greeted(hello),
      onChange: (tip) => void this.#follow(tip),
      onListChange: () => void this.#inTurn(() => this.#attempt(() => this.#readList())),
      onRefused: (why) => void this.#refused(why),
      onUnopened: async () => {
        await this.#attempt((client) => client.sync(this.mailboxes[0] ?? 'INBOX'));
      },
      ...tuning,
    });
  }

  /** The address whose mail this is; empty before the first hello. */
  get account() {
    return this.#options.session.account;
  }

  /** Shows what is cached at once, and connects. */
  async start() {
    const { cache, onMailboxes } = this.#options;
    if (this.account !== '') {
      this.mailboxes = [...(await cache.mailboxes(this.account)).keys()];
      onMailboxes();
    }
    this.#channel.start();
  }

  /** @param {string} mailbox @returns {string | undefined} what it is for, such as `\\Trash` */
  useOf(mailbox) {
    return this.#uses.get(mailbox);
  }

  /** @param {string} use such as `\\Trash` */
  mailboxFor(use) {
    return this.mailboxes.find((mailbox) => this.useOf(mailbox) === use);
  }

  // #region change
  /**
   * Changes messages by one of the calls with `since`: /mail/flags, /mail/move, /mail/copy and /mail/delete. When
   * this is done, the change is in the cache.
   *
   * @param {string} path @param {string} mailbox @param {object} change members of the call
   * @returns {Promise<any>} the answer
   */
  change(path, mailbox, change) {
    const { session } = this.#options;
    return this.#clientOf(this.account).act(mailbox, (since) =>
      session.json(path, { method: 'POST', body: { mailbox, ...change, ...since } }),
    );
  }
  // #endregion change

  /**
   * Asks what is new in a mailbox for which no event may have come yet.
   *
   * @param {string} mailbox
   * @returns {Promise<boolean>} whether the cache has it
   */
  catchUp(mailbox) {
    return this.#attempt((client) => client.sync(mailbox));
  }

  /** @param {string} mailbox name of the new mailbox */
  async createMailbox(mailbox) {
    await this.#options.session.json('/mail/mailboxes/create', {
      method: 'POST',
      body: { mailbox },
    });
  }

  /** Reports nothing more, whatever is still under way. */
  stop() {
    this.#stopped = true;
    this.#channel.stop();
    this.#client?.stop();
  }

  /**
   * Called after a pause in which a connection may have died unnoticed: browsers do not show pings, so only a new
   * connection, and its hello, shows whether it works.
   */
  wake() {
    this.#channel.reconnect();
  }

  /** Ends it, and removes everything that this browser has stored. */
  async signOut() {
    this.stop();
    const { cache, session } = this.#options;
    const { account } = this;
    await Promise.all([session.forget(), cache.forgetAccount(account)]);
  }

  // #region hello
  /** @param {Hello} hello */
  async #greeted({ user, mailboxes }) {
    const { session, onSettled } = this.#options;
    if (session.account !== user) {
      this.#client = undefined;
      session.remember(user);
    }
    const isThere = await this.#inTurn(
      async () =>
        (await this.#takeList(mailboxes)) &&
        // Hello does not have the uses of mailboxes.
        (await this.#attempt(() => this.#readList())),
    );
    if (!isThere) return;
    this.#channel.settle();
    onSettled();
  }

  /**
   * Lists are processed one after the other: an older one would otherwise bring back mailboxes that a newer one no
   * longer has.
   *
   * @param {() => Promise<boolean>} take
   */
  #inTurn(take) {
    const taken = this.#listTurn.then(take);
    this.#listTurn = taken.catch(() => false);
    return taken;
  }

  /** @param {Tip[]} mailboxes all there are @returns whether the cache is where they are */
  async #takeList(mailboxes) {
    const { cache, onMailboxes } = this.#options;
    this.mailboxes = mailboxes.map(({ mailbox }) => mailbox);
    // Other mailboxes in the cache were deleted.
    for (const mailbox of (await cache.mailboxes(this.account)).keys()) {
      if (!this.mailboxes.includes(mailbox)) await cache.forgetMailbox(this.account, mailbox);
    }
    onMailboxes();
    for (const tip of mailboxes) {
      if (!(await this.#follow(tip))) return false;
    }
    return true;
  }

  async #readList() {
    const { mailboxes } = await this.#options.session.json('/mail/mailboxes');
    this.#uses.clear();
    for (const { mailbox, specialUse } of mailboxes) {
      if (specialUse !== undefined) this.#uses.set(mailbox, specialUse);
    }
    await this.#takeList(mailboxes);
  }

  /** @param {Tip} tip */
  async #follow(tip) {
    if (!this.mailboxes.includes(tip.mailbox)) {
      this.mailboxes.push(tip.mailbox);
      this.#options.onMailboxes();
    }
    const isDone = await this.#attempt((client) => client.catchUp(tip));
    // Another tab may have brought the cache to this state.
    this.#options.onChange(tip.mailbox);
    return isDone;
  }
  // #endregion hello

  /** @param {'expired' | 'inactive'} why */
  async #refused(why) {
    const { session, onEnd } = this.#options;
    // If there is no answer now, it counts as renewed: the next attempt is refused, and asks again.
    const goesOn = why === 'expired' && (await session.renew().catch(() => true));
    if (this.#stopped) return;
    if (goesOn) this.#channel.start();
    else onEnd(why);
  }

  // #region attempt
  /**
   * Runs a sync. After every temporary failure the way back is the same: the connection starts again after a pause,
   * and its hello shows what was missed.
   *
   * @param {(client: SyncClient) => Promise<void>} sync
   * @returns {Promise<boolean>} whether there is nothing left to do about it
   */
  async #attempt(sync) {
    const { onEnd, onTrouble } = this.#options;
    // Before the first hello the account of the cache is unknown; the call shows whether the token is valid.
    const client = this.account === '' ? undefined : this.#clientOf(this.account);
    // After a sign-out there is no token to ask with.
    if (this.#stopped) return false;
    try {
      if (client) await sync(client);
      else await this.#options.session.json('/mail/sync', { method: 'POST', body: { limit: 1 } });
      return true;
    } catch (error) {
      if (this.#stopped) return false;
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
        this.stop();
        onEnd(error.status === 401 ? 'expired' : 'inactive');
      } else if (error instanceof Refused && error.code === 'mailbox_not_found') {
        // It was deleted between the event and the sync; the next hello does not list it.
        return true;
      } else if (error instanceof Unreachable || error instanceof Refused) {
        if (this.#channel.state === 'live') this.#channel.retry();
        if (error instanceof Refused) onTrouble(error.message);
      } else {
        throw error;
      }
      return false;
    }
  }
  // #endregion attempt

  /** @param {string} account */
  #clientOf(account) {
    const { session, cache, onChange, onArrival, tuning } = this.#options;
    this.#client ??= new SyncClient({
      account,
      cache,
      ...(tuning?.limit !== undefined && { limit: tuning.limit }),
      ask: (body) => session.json('/mail/sync', { method: 'POST', body }),
      onPage: ({ mailbox, changes }, isCatchUp) => {
        onChange(mailbox);
        if (isCatchUp && changes.added.length > 0) onArrival(mailbox, changes.added);
      },
    });
    return this.#client;
  }
}
