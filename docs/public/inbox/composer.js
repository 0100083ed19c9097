/**
 * Writing a message: it is saved as a draft while the user writes, and is sent once. For a few seconds it can
 * be cancelled after that, and is then in the form again.
 */
import { findBadAddress, parseAddresses } from './address-list.js';
import { ComposeView } from './compose-view.js';
import { confirmDialog } from './dialogs.js';
import { newDraft } from './draft.js';
import { FILES_MAX, sizeOf } from './draft-keeper.js';
import { randomKey } from './draft-source.js';
import { longDate } from './elements.js';

/** @typedef {import('./draft.js').Draft} Draft */

const TEXTS = /** @type {const} */ (['to', 'cc', 'bcc', 'subject', 'text']);

/** The pause after the last key before a draft is saved, and the least time between two saves. */
const PAUSE_MS = 2_000;
/** Each save takes three requests, and by default a server accepts 60 a minute. */
const SPACING_MS = 8_000;

/**
 * @typedef {object} ComposerOptions
 * @property {() => import('./draft-keeper.js').DraftKeeper} keeper of the account that is signed in
 * @property {import('./notice-bar.js').NoticeBar} notice
 * @property {() => void} onOpen the form is to be seen
 * @property {() => void} onClose it is not any more
 * @property {(kept: import('./draft.js').MessagePlace) => void} onKept where the draft is now
 * @property {(id: string, subject: string) => void} onSent the server has it
 * @property {(id: string) => void} onTakenBack it is a draft again
 */

export class Composer {
  #options;
  #view;
  /** What was last saved or opened, and where. @type {Draft | undefined} */
  #draft;
  #title = '';
  #key = '';
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #savedAt = 0;
  /** Whether the user was told about a failed save. */
  #hasFailed = false;
  /** Whether anything was saved since the form was opened. */
  #wasSaved = false;
  /** The saving that is under way. @type {Promise<boolean>} */
  #saving = Promise.resolve(true);
  /** The sending that is under way: whether it is sent. @type {Promise<boolean> | undefined} */
  #sending;

  /** @param {ComposerOptions} options */
  constructor(options) {
    this.#options = options;
    this.#view = new ComposeView({
      onChange: () => this.#changed(),
      onSend: () => this.#send(),
      onClose: () => void this.close(),
      onDiscard: () => void this.#discard(),
    });
    addEventListener('beforeunload', (event) => this.#isDirty() && event.preventDefault());
  }

  get isOpen() {
    return this.#draft !== undefined;
  }

  /** Where the content of the form was last saved. @returns {import('./draft.js').MessagePlace | undefined} */
  get kept() {
    return this.#draft?.kept;
  }

  /**
   * @param {string} title
   * @param {Draft} draft
   * @param {Draft} [saved] what is saved of it, where that is not all
   */
  async open(title, draft, saved = draft) {
    // The text before it becomes a draft; if that fails, the form stays as it is.
    if (!(await this.#settle())) return;
    this.#draft = saved;
    this.#wasSaved = false;
    this.#title = title;
    this.#key = randomKey();
    this.#options.onOpen();
    this.#view.open(title, draft);
    if (saved !== draft) this.#changed();
  }

  /** Saves what was written and closes the form. @returns {Promise<boolean>} false where that failed */
  async close() {
    if (!(await this.#settle())) return false;
    if (!this.isOpen) return true;
    if (this.#wasSaved) this.#options.notice.show('Draft saved.');
    this.#shut();
    return true;
  }

  /** Drops the content of the form: the user signs out. */
  drop() {
    if (this.isOpen) this.#shut();
  }

  #shut() {
    clearTimeout(this.#timer);
    this.#draft = undefined;
    this.#view.close();
    this.#options.onClose();
  }

  #isDirty() {
    if (!this.#draft) return false;
    const saved = this.#draft;
    const now = this.#view.read();
    const isSame = TEXTS.every((field) => now[field] === saved[field]);
    return !isSame || !haveSame(now.files, saved.files);
  }

  #changed() {
    this.#key = randomKey();
    this.#view.say('');
    clearTimeout(this.#timer);
    const wait = Math.max(PAUSE_MS, this.#savedAt + SPACING_MS - Date.now());
    this.#timer = setTimeout(() => void this.#settle(), wait);
  }

  /**
   * A message that is being sent is not saved: otherwise its draft would stay after it was sent.
   *
   * @returns {Promise<boolean>} whether it is sent or saved; else the form says why
   */
  async #settle() {
    if (this.#sending && !(await this.#sending)) return false;
    return await this.#save();
  }

  /** One save after the other, so that there is never more than one draft of a message. */
  #save() {
    clearTimeout(this.#timer);
    this.#saving = this.#saving.then(() => this.#saveNow());
    return this.#saving;
  }

  async #saveNow() {
    const before = this.#draft;
    if (!before || !this.#isDirty()) return true;
    const written = this.#view.read();
    if (sizeOf(written.files) > FILES_MAX) {
      this.#view.say('Not saved: the files are too large.');
      return false;
    }
    try {
      this.#view.say('Saving…');
      const kept = await this.#options.keeper().keep({ ...before, ...written });
      if (this.#draft !== before) return true;
      this.#draft = kept;
      this.#wasSaved = true;
      this.#savedAt = Date.now();
      // Text and files that were added meanwhile stay, and are saved next.
      const placed = new Map(written.files.map((file, at) => [file, kept.files[at]]));
      this.#view.replaceFiles(this.#view.read().files.map((file) => placed.get(file) ?? file));
      this.#view.say(this.#isDirty() ? '' : 'Draft saved');
      // The reason why it was not sent stays visible.
      if (this.#hasFailed) this.#view.fail('');
      this.#hasFailed = false;
      if (kept.kept) this.#options.onKept(kept.kept);
      return true;
    } catch (error) {
      this.#view.say('');
      this.#hasFailed = true;
      this.#view.fail(`The draft was not saved. ${reasonOf(error)}`);
      return false;
    }
  }

  /** Sends once, also when both key and button are used. */
  #send() {
    this.#sending ??= this.#sendNow().finally(() => {
      this.#sending = undefined;
    });
  }

  /** @returns {Promise<boolean>} whether it is sent */
  async #sendNow() {
    const { keeper, notice } = this.#options;
    const trouble = findTrouble(this.#view.read());
    this.#hasFailed = false;
    this.#view.fail(trouble?.why ?? '');
    if (trouble) {
      this.#view.focus(trouble.field);
      return false;
    }
    if (this.#view.read().subject.trim() === '') {
      const isMeant = await confirmDialog('Send this message without a subject?', 'Send it');
      if (!isMeant) this.#view.focus('subject');
      if (!isMeant || !this.#draft) return false;
    }
    this.#view.setBusy(true);
    clearTimeout(this.#timer);
    // A running save ends first: its result has the place of the draft and its files.
    await this.#saving;
    if (!this.#draft) return true;
    const draft = { ...this.#draft, ...this.#view.read() };
    const at = this.#view.sendAt;
    try {
      const { id } = await keeper().send(draft, this.#key, at);
      const title = this.#title;
      const told = at ? `It will be sent on ${longDate(at.toISOString())}.` : 'Sent.';
      this.#shut();
      this.#options.onSent(id, draft.subject);
      notice.show(told, { undo: () => void this.#takeBack(id, title, draft) });
      return true;
    } catch (error) {
      this.#view.fail(`It was not sent. ${reasonOf(error)}`);
      this.#view.setBusy(false);
      return false;
    }
  }

  /**
   * @param {string} id
   * @param {string} title
   * @param {Draft} draft
   */
  async #takeBack(id, title, draft) {
    const { keeper, notice } = this.#options;
    try {
      const kept = await keeper().cancel(id);
      this.#options.onTakenBack(id);
      await this.open(title, { ...draft, kept });
    } catch (error) {
      notice.show(`It was not cancelled. ${reasonOf(error)}`, { isError: true });
    }
  }

  async #discard() {
    const { keeper, notice } = this.#options;
    await this.#sending;
    await this.#saving;
    if (!this.#draft) return;
    const title = this.#title;
    const { kept, ...draft } = { ...this.#draft, ...this.#view.read() };
    this.#shut();
    try {
      if (kept) await keeper().discard(kept);
      notice.show('Draft thrown away.', {
        undo: () => void this.open(title, draft, { ...draft, ...newDraft() }),
      });
    } catch (error) {
      notice.show(`The draft was not deleted. ${reasonOf(error)}`, { isError: true });
    }
  }
}

/** @param {Pick<Draft, 'to' | 'cc' | 'bcc' | 'files'>} draft */
function findTrouble({ to, cc, bcc, files }) {
  for (const [field, text] of Object.entries({ to, cc, bcc })) {
    const bad = findBadAddress(text);
    if (bad !== undefined) return { field, why: `"${bad}" is not an address.` };
  }
  if ([to, cc, bcc].every((text) => parseAddresses(text).length === 0)) {
    return { field: 'to', why: 'Enter a recipient.' };
  }
  const most = Math.floor(FILES_MAX / 1_000_000);
  // Parts of other messages are only named, their bytes are not sent.
  return sizeOf(files.filter(({ from }) => !from)) > FILES_MAX
    ? { field: 'text', why: `The files are too large: ${most} MB at most.` }
    : undefined;
}

/**
 * @param {unknown[]} one
 * @param {unknown[]} other
 */
function haveSame(one, other) {
  return one.length === other.length && one.every((item, at) => item === other[at]);
}

/** @param {unknown} error */
function reasonOf(error) {
  return error instanceof Error ? error.message : String(error);
}
