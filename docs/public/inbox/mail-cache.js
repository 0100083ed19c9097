/**
 * The offline cache: mailboxes in IndexedDB. Three stores, all by account and mailbox: `positions` has the last synced
 * state of a mailbox, `messages` what syncs returned for each message, `bodies` what was read of it. Messages and
 * bodies have UIDVALIDITY in their key, since a UID without it identifies nothing.
 */
import { isUnread, startsAnew } from './sync-client.js';

/** @typedef {import('./sync-client.js').Message} Message */
/** @typedef {import('./sync-client.js').Position} Position */
/** @typedef {import('./sync-client.js').SyncPage} SyncPage */
/** @typedef {import('./message-parts.js').Body} Body */

const DATABASE = 'postroom-inbox';
const VERSION = 3;
const STORES = ['positions', 'messages', 'bodies'];

/** @returns {Promise<MailCache>} rejects where the browser keeps nothing */
export function openMailCache() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, VERSION);
    request.onupgradeneeded = () => {
      const database = request.result;
      // Data of an earlier version of this page is fetched again.
      for (const store of [...database.objectStoreNames]) database.deleteObjectStore(store);
      for (const store of STORES) database.createObjectStore(store);
      const messages = request.transaction?.objectStore('messages');
      messages?.createIndex('byArrival', 'order');
      messages?.createIndex('byMessageId', 'envelope.messageId');
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
    // A later version of this page may need to change the stores while this tab is open.
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
   * Writes a page of changes to the cache: all of it and its token, or nothing. If the tab is closed in the middle,
   * the next sync continues from the last page.
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
    const isAnew = startsAnew(base, page);
    if (isAnew) {
      messages.delete(everythingBelow(account, mailbox));
      bodies.delete(everythingBelow(account, mailbox));
    }
    let unread = isAnew ? 0 : (here?.unread ?? 0);
    /** @type {(uid: number, change: (before?: Message) => Message | undefined) => Promise<void>} */
    const change = async (uid, change) => {
      const key = [account, mailbox, uidvalidity, uid];
      const before = await result(messages.get(key));
      const after = change(before);
      unread += Number(isUnread(after)) - Number(isUnread(before));
      if (after) {
        const order = [account, mailbox, Date.parse(after.internalDate) || 0, uid];
        messages.put({ ...after, order }, key);
      } else for (const store of [messages, bodies]) store.delete(key);
    };
    await Promise.all([
      ...changes.added.map((message) => change(message.uid, () => message)),
      ...changes.updated.map(({ uid, flags }) =>
        change(uid, (before) => before && { ...before, flags }),
      ),
      ...changes.removed.map(({ uid }) => change(uid, () => undefined)),
    ]);
    positions.put({ uidvalidity, token, unread }, [account, mailbox]);
    await done(transaction);
    return true;
  }
  // #endregion apply

  /**
   * @param {string} account
   * @returns {Promise<Map<string, number>>} how many unread messages each cached mailbox has
   */
  async mailboxes(account) {
    const store = this.#database.transaction('positions').objectStore('positions');
    const range = everythingBelow(account);
    const [keys, positions] = await Promise.all([
      result(store.getAllKeys(range)),
      result(store.getAll(range)),
    ]);
    return new Map(
      keys.map((key, at) => [Array.isArray(key) ? String(key[1]) : '', positions[at].unread]),
    );
  }

  /**
   * @param {string} account
   * @param {string} mailbox
   * @param {number} count at most so many, those first that arrived last: what was moved back is
   *   where it was, although its UID is a new one
   * @returns {Promise<{ messages: Message[], total: number }>}
   */
  newest(account, mailbox, count) {
    const store = this.#database.transaction('messages').objectStore('messages').index('byArrival');
    const range = everythingBelow(account, mailbox);
    return new Promise((resolve, reject) => {
      const counted = store.count(range);
      const walk = store.openCursor(range, 'prev');
      /** @type {Message[]} */
      const messages = [];
      walk.onerror = () => reject(walk.error);
      walk.onsuccess = () => {
        const cursor = walk.result;
        if (!cursor || messages.length === count) {
          resolve({ messages, total: counted.result });
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
   * @param {string} messageId
   * @returns {Promise<{ mailbox: string, uid: number } | undefined>} where a message is
   */
  async find(account, messageId) {
    const store = this.#database.transaction('messages').objectStore('messages');
    const found = await result(store.index('byMessageId').getAll(messageId));
    const match = found.find(({ order }) => order[0] === account);
    return match && { mailbox: match.order[1], uid: match.uid };
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
    // It may have been removed while its body was fetched.
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
