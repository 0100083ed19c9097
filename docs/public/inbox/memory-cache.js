/**
 * A cache in memory, as long as the page is open, for browsers that store nothing (and for tests). It has the same
 * interface as mail-cache.js.
 */
import { isUnread, startsAnew } from './sync-client.js';

/** @typedef {import('./sync-client.js').Message} Message */
/** @typedef {import('./sync-client.js').Position} Position */
/** @typedef {import('./sync-client.js').SyncPage} SyncPage */
/** @typedef {import('./message-parts.js').Body} Body */

/**
 * @typedef {object} CachedMailbox
 * @property {Position} position
 * @property {Map<number, Message>} messages
 * @property {Map<number, Body>} bodies
 */

export class MemoryCache {
  /** @type {Map<string, Map<string, CachedMailbox>>} */
  #accounts = new Map();

  /**
   * @param {string} account
   * @param {string} mailbox
   * @returns {Promise<Position | undefined>}
   */
  async position(account, mailbox) {
    return this.#find(account, mailbox)?.position;
  }

  /**
   * @param {string} account
   * @param {Position | undefined} base
   * @param {SyncPage} page
   */
  async apply(account, base, page) {
    const found = this.#find(account, page.mailbox);
    if (found?.position.token !== base?.token) return false;
    const { uidvalidity, token } = page;
    const kept = startsAnew(base, page) ? undefined : found;
    const messages = kept?.messages ?? new Map();
    const bodies = kept?.bodies ?? new Map();
    for (const message of page.changes.added) messages.set(message.uid, message);
    for (const { uid, flags } of page.changes.updated) {
      const message = messages.get(uid);
      if (message) messages.set(uid, { ...message, flags });
    }
    for (const { uid } of page.changes.removed) {
      messages.delete(uid);
      bodies.delete(uid);
    }
    const mailboxes = this.#accounts.get(account) ?? new Map();
    mailboxes.set(page.mailbox, { position: { uidvalidity, token }, messages, bodies });
    this.#accounts.set(account, mailboxes);
    return true;
  }

  /**
   * @param {string} account
   * @returns {Promise<Map<string, number>>}
   */
  async mailboxes(account) {
    const mailboxes = [...(this.#accounts.get(account) ?? [])];
    return new Map(
      mailboxes.map(([name, { messages }]) => [
        name,
        [...messages.values()].filter(isUnread).length,
      ]),
    );
  }

  /**
   * @param {string} account
   * @param {string} mailbox
   * @param {number} count
   */
  async newest(account, mailbox, count) {
    const found = this.#find(account, mailbox);
    const messages = [...(found?.messages.values() ?? [])];
    messages.sort(
      (one, other) =>
        Date.parse(other.internalDate) - Date.parse(one.internalDate) || other.uid - one.uid,
    );
    return { messages: messages.slice(0, count), total: messages.length };
  }

  /**
   * @param {string} account
   * @param {string} mailbox
   * @param {number} uid
   * @returns {Promise<{ message: Message, body: Body | undefined } | undefined>}
   */
  async read(account, mailbox, uid) {
    const found = this.#find(account, mailbox);
    const message = found?.messages.get(uid);
    return message && { message, body: found?.bodies.get(uid) };
  }

  /**
   * @param {string} account
   * @param {string} messageId
   * @returns {Promise<{ mailbox: string, uid: number } | undefined>}
   */
  async find(account, messageId) {
    for (const [mailbox, { messages }] of this.#accounts.get(account) ?? []) {
      const found = [...messages.values()].find(({ envelope }) => envelope.messageId === messageId);
      if (found) return { mailbox, uid: found.uid };
    }
    return undefined;
  }

  /**
   * @param {string} account
   * @param {string} mailbox
   * @param {string} uidvalidity
   * @param {number} uid
   * @param {Body} body
   */
  async keepBody(account, mailbox, uidvalidity, uid, body) {
    const found = this.#find(account, mailbox);
    if (found?.position.uidvalidity === uidvalidity && found.messages.has(uid)) {
      found.bodies.set(uid, body);
    }
  }

  /**
   * @param {string} account
   * @param {string} mailbox
   */
  async forgetMailbox(account, mailbox) {
    this.#accounts.get(account)?.delete(mailbox);
  }

  /** @param {string} account */
  async forgetAccount(account) {
    this.#accounts.delete(account);
  }

  /**
   * @param {string} account
   * @param {string} mailbox
   */
  #find(account, mailbox) {
    return this.#accounts.get(account)?.get(mailbox);
  }
}
