/** Keeps a draft in the mailbox for drafts, and sends it. */
import { parseAddresses } from './address-list.js';
import { toBase64, writeDraftSource } from './draft-source.js';

/** @typedef {import('./draft.js').Draft} Draft */
/** @typedef {import('./draft.js').DraftFile} DraftFile */
/** @typedef {import('./draft.js').MessagePlace} MessagePlace */
/** @typedef {import('./inbox.js').Inbox} Inbox */
/** @typedef {import('./session.js').Session} Session */

/** Octets of all files of a message: the call that sends it takes 16 MiB of JSON, in base64. */
export const FILES_MAX = 11_000_000;
/** How long a message can be cancelled, unless a time to send it was chosen. */
const SECOND_THOUGHTS = 10;

/** @param {DraftFile[]} files */
export function sizeOf(files) {
  return files.reduce((sum, { size }) => sum + size, 0);
}

export class DraftKeeper {
  #session;
  #inbox;

  /**
   * @param {Session} session
   * @param {Inbox} inbox
   */
  constructor(session, inbox) {
    this.#session = session;
    this.#inbox = inbox;
  }

  // #region keep
  /**
   * Saves a draft: first the new one is added, then the old one removed, so that a lost connection leaves one too
   * many, never none.
   *
   * @param {Draft} draft
   * @returns {Promise<Draft>} with its place; its files are parts of it there
   */
  async keep(draft) {
    const mailbox = this.#inbox.mailboxFor('\\Drafts') ?? 'Drafts';
    const files = await Promise.all(draft.files.map((file) => this.#fetch(file)));
    const source = await writeDraftSource({ ...draft, files }, this.#session.account);
    const query = new URLSearchParams({ mailbox, flags: '\\Draft \\Seen' });
    const call = { method: 'POST', source };
    const { uid } = await this.#session.json(`/mail/append?${query}`, call);
    if (draft.kept) await this.discard(draft.kept);
    // Part 1 is the text. From here on the server knows the files: they need not be sent to it again.
    const placed = files.map((file, at) => ({
      ...file,
      from: { mailbox, uid, part: `${at + 2}` },
    }));
    return { ...draft, files: placed, kept: { mailbox, uid } };
  }
  // #endregion keep

  /** @param {MessagePlace} kept */
  async discard({ mailbox, uid }) {
    await this.#inbox.change('/mail/delete', mailbox, { uids: [uid] });
  }

  /** A draft contains its files: a part of another message is fetched. @param {DraftFile} file */
  async #fetch(file) {
    if (file.file || !file.from) return file;
    const query = new URLSearchParams({ ...file.from, uid: String(file.from.uid) });
    const response = await this.#session.request(`/mail/attachment?${query}`);
    return { ...file, file: await response.blob() };
  }

  // #region send
  /**
   * Sends a draft. If the call is repeated with the same key, after a lost connection, it is sent once.
   *
   * @param {Draft} draft
   * @param {string} key
   * @param {Date} [at] when it goes out; soon where left out
   * @returns {Promise<{ id: string }>}
   */
  async send(draft, key, at) {
    const { to, cc, bcc, subject, text, inReplyTo, kept } = draft;
    const attachments = await Promise.all(
      draft.files.map(async ({ filename, type, file, from }) =>
        file && !from
          ? { filename, contentType: type, content: await toBase64(file) }
          : { filename, ...from },
      ),
    );
    const body = {
      to: parseAddresses(to),
      cc: parseAddresses(cc),
      bcc: parseAddresses(bcc),
      ...{ subject, text, attachments },
      ...(inReplyTo && { inReplyTo }),
      ...(kept && { draft: kept }),
      ...(at ? { sendAt: at.toISOString() } : { delaySeconds: SECOND_THOUGHTS }),
    };
    return await this.#session.json('/mail/send', { method: 'POST', body, key });
  }

  /**
   * Cancels a message before any of it was sent.
   *
   * @param {string} id
   * @returns {Promise<MessagePlace>} where it is a draft again
   */
  async cancel(id) {
    const call = { method: 'POST', body: { id } };
    const { draft } = await this.#session.json('/mail/sends/cancel', call);
    return { mailbox: draft.mailbox, uid: draft.uid };
  }
  // #endregion send
}
