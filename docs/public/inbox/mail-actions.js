/**
 * Actions on messages: each is one call of the API, whose answer updates the cache. A move can be undone; a deletion
 * for good cannot.
 */
import { titleOf } from './mailbox-tabs.js';

/** @typedef {import('./inbox.js').Inbox} Inbox */

/**
 * @typedef {object} MailActionsOptions
 * @property {Inbox} inbox
 * @property {import('./notice-bar.js').NoticeBar} notice
 * @property {(question: string, button: string) => Promise<boolean>} confirm
 */

export class MailActions {
  #options;

  /** @param {MailActionsOptions} options */
  constructor(options) {
    this.#options = options;
  }

  /**
   * @param {string} mailbox
   * @param {number} uid
   * @param {string} flag such as `\Seen`
   * @param {boolean} isSet
   */
  async setFlag(mailbox, uid, flag, isSet) {
    const change = isSet ? { add: [flag] } : { remove: [flag] };
    await this.#attempt(() =>
      this.#options.inbox.change('/mail/flags', mailbox, { uids: [uid], ...change }),
    );
  }

  /**
   * Marks an opened message as read. Without a connection it stays unread, which does no harm: a message in the cache
   * can be read without one.
   *
   * @param {string} mailbox
   * @param {number} uid
   */
  async markRead(mailbox, uid) {
    const change = { uids: [uid], add: ['\\Seen'] };
    await this.#options.inbox.change('/mail/flags', mailbox, change).catch(() => undefined);
  }

  /**
   * To Trash; from there, for good.
   *
   * @param {string} mailbox
   * @param {number} uid
   * @returns {Promise<boolean>} whether it is gone
   */
  async delete(mailbox, uid) {
    const { inbox, notice, confirm } = this.#options;
    const trash = inbox.mailboxFor('\\Trash');
    if (trash !== undefined && trash !== mailbox) return this.move(mailbox, uid, trash);
    const isMeant = await confirm(
      'Delete this message for good? Nothing brings it back.',
      'Delete',
    );
    if (!isMeant) return false;
    const done = await this.#attempt(() => inbox.change('/mail/delete', mailbox, { uids: [uid] }));
    if (done) notice.show('Deleted for good.');
    return done !== undefined;
  }

  // #region move
  /**
   * @param {string} mailbox
   * @param {number} uid
   * @param {string} to
   * @param {boolean} [isNew] whether that mailbox is to be made first
   * @returns {Promise<boolean>} whether it was moved
   */
  async move(mailbox, uid, to, isNew = false) {
    const { inbox, notice } = this.#options;
    const answer = await this.#attempt(async () => {
      if (isNew) await inbox.createMailbox(to);
      return await inbox.change('/mail/move', mailbox, { uids: [uid], to });
    });
    const toUid = answer?.moved[0]?.toUid;
    if (toUid === undefined) return false;
    // It has another UID there.
    notice.show(`Moved to ${titleOf(to)}.`, {
      undo: () => void this.#moveBack(to, toUid, mailbox),
    });
    return true;
  }

  /**
   * @param {string} from
   * @param {number} uid
   * @param {string} to
   */
  async #moveBack(from, uid, to) {
    const { inbox, notice } = this.#options;
    const answer = await this.#attempt(() => inbox.change('/mail/move', from, { uids: [uid], to }));
    if (answer) {
      const isThere = answer.moved.length > 0;
      notice.show(isThere ? `Back in ${titleOf(to)}.` : 'It is not there any more.');
    }
  }
  // #endregion move

  /**
   * @template T
   * @param {() => Promise<T>} call
   * @returns {Promise<T | undefined>} undefined where it failed, which is said
   */
  async #attempt(call) {
    try {
      return await call();
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      this.#options.notice.show(`Nothing was changed. ${detail}`, { isError: true });
      return undefined;
    }
  }
}
