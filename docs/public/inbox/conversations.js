/** Conversations: the messages of a mailbox by their thread, the one with the newest message first. */

/** @typedef {import('./mailbox-view.js').Entry} Entry */

/**
 * @typedef {object} Thread what the row of a conversation's newest message says of the others
 * @property {string} id
 * @property {number} count
 * @property {boolean} hasUnread
 * @property {boolean} isOpen whether they stand below it
 */

// #region group
/**
 * The server says which thread a message belongs to. Each thread becomes one row, that of its newest message;
 * the others follow where it is open.
 *
 * @param {Entry[]} entries the newest first
 * @param {ReadonlySet<string>} open ids of threads
 * @returns {Entry[]}
 */
export function groupByThread(entries, open) {
  const threads = Map.groupBy(
    entries,
    ({ mailbox, message }) => message.threadId ?? `${mailbox}/${message.uid}`,
  );
  return [...threads].flatMap(([id, [newest, ...others]]) => {
    if (!newest) return [];
    if (others.length === 0) return [newest];
    const isOpen = open.has(id);
    const thread = {
      id,
      isOpen,
      count: others.length + 1,
      hasUnread: others.some(({ message }) => !message.flags.includes('\\Seen')),
    };
    const within = others.map((entry) => ({ ...entry, isWithin: true }));
    return [{ ...newest, thread }, ...(isOpen ? within : [])];
  });
}
// #endregion group

const STORED_AS = 'postroom-inbox-single';

/** Whether messages are shown by conversation, and which conversations are open. */
export class Conversations {
  #storage;
  /** @type {Set<string>} */
  #open = new Set();

  /** @param {Storage} storage keeps that somebody wants single messages */
  constructor(storage) {
    this.#storage = storage;
  }

  get isOn() {
    return this.#storage.getItem(STORED_AS) === null;
  }

  /** Shows single messages, or conversations again. */
  switch() {
    if (this.isOn) this.#storage.setItem(STORED_AS, 'yes');
    else this.#storage.removeItem(STORED_AS);
  }

  /** @param {string} id of a thread */
  toggle(id) {
    if (!this.#open.delete(id)) this.#open.add(id);
  }

  /** @param {Entry[]} entries the newest first */
  arrange(entries) {
    return this.isOn ? groupByThread(entries, this.#open) : entries;
  }
}
