/**
 * The offline cache: mailboxes in IndexedDB. Three stores, all by account and mailbox:
 * `positions` says how far a mailbox is synced, `messages` has what a sync told of each, `bodies`
 * what was read of it. Messages and bodies have UIDVALIDITY in their key, since a UID without it
 * names nothing.
 */
import { startsAnew } from './sync-client.js';

/** @typedef {import('./sync-client.js').Message} Message */
/** @typedef {import('./sync-client.js').Position} Position */
/** @typedef {import('./sync-client.js').SyncPage} SyncPage */
/** @typedef {import('./message-parts.js').Body} Body */

const DATABASE = 'postroom-inbox';
const STORES = ['positions', 'messages', 'bodies'];

/** @returns {Promise<MailCache>} rejects where the browser keeps nothing */
export function openMailCache() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => {
      for (const store of STORES) request.result.createObjectStore(store);
    };
    request.onerror = () => reject(request.error);
    request.onsuccess = () => resolve(new MailCache(request.result));
  });
}

export class MailCache {
  #database;

  /** @param {IDBDatabase} database */
  constructor(database) {
    this.#database = database;
    // A later version of this page may want to change the stores while this tab is open.
    database.onversionchange = () => database.close();
  }

  /**
   * @param {string} account
   * @param {string} mailbox
   * @returns {Promise<Position | undefined>}
   */
  async position(account, mailbox) {
    const transaction = this.#database.transaction('positions');
    return await result(transaction.objectStore('positions').get([account, mailbox]));
  }

  // #region apply
  /**
   * Takes a page of changes into the cache: all of it and its token, or nothing. A tab that is
   * closed in the middle leaves a cache that the next sync goes on from.
   *
   * @param {string} account
   * @param {Position | undefined} base where the cache stood when the page was asked for
   * @param {SyncPage} page
   * @returns {Promise<boolean>} false: another tab moved the cache on meanwhile
   */
  async apply(account, base, page) {
    const { mailbox, uidvalidity, token, changes } = page;
    const transaction = this.#database.transaction(STORES, 'readwrite');
    const [positions, messages, bodies] = stores(transaction);
    const here = await result(positions.get([account, mailbox]));
    if (here?.token !== base?.token || here?.uidvalidity !== base?.uidvalidity) return false;
    const keyOf = (/** @type {number} */ uid) => [account, mailbox, uidvalidity, uid];

    if (startsAnew(base, page)) {
      messages.delete(everythingBelow(account, mailbox));
      bodies.delete(everythingBelow(account, mailbox));
    }
    for (const message of changes.added) messages.put(message, keyOf(message.uid));
    for (const { uid, flags } of changes.updated) {
      const message = await result(messages.get(keyOf(uid)));
      if (message) messages.put({ ...message, flags }, keyOf(uid));
    }
    for (const { uid } of changes.removed) {
      messages.delete(keyOf(uid));
      bodies.delete(keyOf(uid));
    }
    positions.put({ uidvalidity, token }, [account, mailbox]);
    await done(transaction);
    return true;
  }
  // #endregion apply

  /**
   * @param {string} account
   * @returns {Promise<string[]>} names of the mailboxes that are cached
   */
  async mailboxes(account) {
    const transaction = this.#database.transaction('positions');
    const keys = transaction.objectStore('positions').getAllKeys(everythingBelow(account));
    const found = await result(keys);
    return found.map((key) => (Array.isArray(key) ? String(key[1]) : ''));
  }

  /**
   * @param {string} account
   * @param {string} mailbox
   * @param {number} count at most so many, the newest first
   * @returns {Promise<{ messages: Message[], total: number, opened: Set<number> }>} `opened` has the
   *   UIDs whose bodies are here
   */
  newest(account, mailbox, count) {
    const transaction = this.#database.transaction(STORES);
    const [, store, bodies] = stores(transaction);
    const range = everythingBelow(account, mailbox);
    return new Promise((resolve, reject) => {
      const counted = store.count(range);
      const read = bodies.getAllKeys(range);
      const walk = store.openCursor(range, 'prev');
      /** @type {Message[]} */
      const messages = [];
      walk.onerror = () => reject(walk.error);
      walk.onsuccess = () => {
        const cursor = walk.result;
        if (!cursor || messages.length === count) {
          const opened = new Set(read.result.map((key) => Number(Array.isArray(key) && key[3])));
          resolve({ messages, total: counted.result, opened });
          return;
        }
        messages.push(cursor.value);
        cursor.continue();
      };
    });
  }

  /**
   * @param {string} account
   * @param {string} mailbox
   * @param {number} uid
   * @returns {Promise<{ message: Message, body: Body | undefined } | undefined>}
   */
  async read(account, mailbox, uid) {
    const transaction = this.#database.transaction(STORES);
    const [positions, messages, bodies] = stores(transaction);
    const position = await result(positions.get([account, mailbox]));
    if (!position) return undefined;
    const key = [account, mailbox, position.uidvalidity, uid];
    const message = await result(messages.get(key));
    return message && { message, body: await result(bodies.get(key)) };
  }

  /**
   * @param {string} account
   * @param {string} mailbox
   * @param {string} uidvalidity
   * @param {number} uid
   * @param {Body} body
   */
  async keepBody(account, mailbox, uidvalidity, uid, body) {
    const transaction = this.#database.transaction(STORES, 'readwrite');
    const [, messages, bodies] = stores(transaction);
    const key = [account, mailbox, uidvalidity, uid];
    // It may have been removed while its body was on the way.
    if ((await result(messages.getKey(key))) !== undefined) bodies.put(body, key);
    await done(transaction);
  }

  /**
   * @param {string} account
   * @param {string} mailbox
   */
  async forgetMailbox(account, mailbox) {
    const transaction = this.#database.transaction(STORES, 'readwrite');
    const [positions, messages, bodies] = stores(transaction);
    positions.delete([account, mailbox]);
    messages.delete(everythingBelow(account, mailbox));
    bodies.delete(everythingBelow(account, mailbox));
    await done(transaction);
  }

  /** @param {string} account */
  async forgetAccount(account) {
    const transaction = this.#database.transaction(STORES, 'readwrite');
    for (const store of stores(transaction)) store.delete(everythingBelow(account));
    await done(transaction);
  }
}

/** @param {IDBTransaction} transaction */
function stores(transaction) {
  return /** @type {[IDBObjectStore, IDBObjectStore, IDBObjectStore]} */ (
    STORES.map((name) => transaction.objectStore(name))
  );
}

/**
 * Every key that begins so: in IndexedDB's order an empty array comes after all texts and numbers.
 *
 * @param {string[]} beginning
 */
function everythingBelow(...beginning) {
  return IDBKeyRange.bound(beginning, [...beginning, []]);
}

/**
 * @template T
 * @param {IDBRequest<T>} request
 * @returns {Promise<T>}
 */
function result(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/**
 * @param {IDBTransaction} transaction
 * @returns {Promise<void>}
 */
function done(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error);
  });
}
