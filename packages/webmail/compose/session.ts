/**
 * One message that is being written, without its form: it is saved as a draft at each pause, and sent once. For some
 * seconds it can be taken back after that, and is in the form again then.
 */
import { type Ref, reactive, ref } from 'vue';
import { ApiError } from '../../sdk/src/errors.ts';
import type { MessageId, Operation, SendOperation } from '../../sdk/src/mail/client.ts';
import type { Account } from '../state/parts.ts';
import { formatFull, reasonOf } from '../ui/format.ts';
import { FILES_MAX, findMissingFile, findTrouble, uploadSize } from './checks.ts';
import {
  type ComposeContent,
  type ComposeFile,
  isUnwritten,
  type TextOf,
  toOutgoing,
} from './content.ts';

/** The pause after the last key before a draft is saved. */
const PAUSE_MS = 2_000;

/** Without an answer in this time somebody asks whether anything happens. */
const TOLD_AFTER_MS = 1_000;

/** What the page does for a session. */
export interface SessionPage {
  readonly textOf: TextOf;
  /** Asks before it is sent. */
  ask(question: string, yes: string): Promise<boolean>;
  /** The form goes: it is sent, saved or thrown away. */
  close(): void;
  /** Opens the form with this again, as the user wants it. */
  reopen(content: ComposeContent): void;
  /** The same once nothing else is written: the server refused it. */
  comeBack(content: ComposeContent): void;
  /** @returns takes it away */
  say(text: string, undo?: () => void): () => void;
  sayFailure(what: string, error: unknown): void;
}

export interface SessionOptions {
  readonly account: Pick<Account, 'client' | 'settle'>;
  readonly content: ComposeContent;
  readonly signature: string;
  readonly page: SessionPage;
  /** Seconds in which a sent message can be taken back. */
  readonly undoSeconds: number;
  readonly pauseMs?: number;
}

/** Of the parts of its form. */
export interface SessionProps {
  readonly session: ComposeSession;
}

export class ComposeSession {
  readonly content: ComposeContent;
  /** "Draft saved", or nothing. */
  readonly status: Ref<string> = ref('');
  /** Why it was not sent or saved. */
  readonly trouble: Ref<string | undefined> = ref();
  readonly isSending: Ref<boolean> = ref(false);
  readonly #options: SessionOptions;
  #version = 0;
  #savedVersion = 0;
  #isEnded = false;
  /** Another text has taken its place in the page. */
  #isLeft = false;
  /** Of the last save that failed: it is over once one works. */
  #saveTrouble: string | undefined;
  #asked = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** One save after the other, so that there is never more than one draft of a message. */
  #saving: Promise<boolean> = Promise.resolve(true);

  constructor(options: SessionOptions) {
    this.#options = options;
    this.content = reactive(options.content);
  }

  /** Another one after whoever writes had to sign in again. */
  get client() {
    return this.#options.account.client;
  }

  /** Whether something would be lost if the page went now. */
  get isDirty(): boolean {
    return this.#version !== this.#savedVersion && !this.#isEnded;
  }

  change(changes: Partial<ComposeContent>): void {
    Object.assign(this.content, changes);
    this.changed();
  }

  /** Adds files of this device. */
  attach(files: Iterable<File>): void {
    const added = [...files].map((file) => ({
      filename: file.name || 'file',
      contentType: file.type || 'application/octet-stream',
      size: file.size,
      content: file,
    }));
    if (added.length > 0) this.change({ files: [...this.content.files, ...added] });
  }

  /** Something was written. */
  changed(): void {
    if (this.#isEnded) return;
    this.#version++;
    this.status.value = '';
    this.trouble.value = undefined;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.save(), this.#options.pauseMs ?? PAUSE_MS);
  }

  /** @returns whether all is saved; else `trouble` says why not */
  save(): Promise<boolean> {
    clearTimeout(this.#timer);
    this.#saving = this.#saving.then(() => this.#saveNow());
    return this.#saving;
  }

  async #saveNow(): Promise<boolean> {
    const { page, signature } = this.#options;
    // While it is sent no draft is saved: it would stay after the mail is gone.
    if (!this.isDirty || this.isSending.value) return true;
    if (!this.content.kept && isUnwritten(this.content, signature)) {
      this.#savedVersion = this.#version;
      return true;
    }
    if (uploadSize(this.content.files) > FILES_MAX) {
      this.#saveFailed('The files are too large.');
      return false;
    }
    const version = this.#version;
    try {
      const saved = [...this.content.files];
      const { draft, ...mail } = toOutgoing(this.content, page.textOf);
      const { mailbox, id, attachments, operation } = await this.client.saveDraft(mail, draft);
      const before = this.content.kept;
      this.content.kept = { mailbox, id };
      // The server has them: the next save names them.
      this.content.files = this.content.files.map((file) => {
        const { from } = attachments[saved.indexOf(file)] ?? file;
        return { ...file, from };
      });
      await this.#stored();
      this.#savedVersion = version;
      if (this.trouble.value === this.#saveTrouble) this.trouble.value = undefined;
      this.status.value = this.isDirty ? '' : 'Draft saved';
      operation.applied.catch((error: unknown) => this.#saveRefused(error, operation, id, before));
      return true;
    } catch (error) {
      this.#saveFailed(reasonOf(error));
      return false;
    }
  }

  #saveFailed(reason: string): void {
    this.#saveTrouble = `The draft was not saved. ${reason}`;
    this.trouble.value = this.#saveTrouble;
  }

  /** All of it is elsewhere, or not wanted any more. */
  async #stored(): Promise<void> {
    const { forget } = this.content;
    this.content.forget = undefined;
    await forget?.();
  }

  #saveRefused(
    error: unknown,
    operation: Operation,
    id: MessageId,
    before: ComposeContent['kept'],
  ): void {
    if (!(error instanceof ApiError)) return;
    const forget = () => this.#options.account.settle(operation, 'forget');
    // A save of later stores all of it, too; and whoever took it back wants it no more.
    if (this.isSending.value || this.content.kept?.id !== id) {
      void forget();
      return;
    }
    // That one is there still, and the next save takes its place.
    Object.assign(this.content, { kept: before, forget, files: withBytes(error, this.content) });
    if (this.#isEnded || this.#isLeft) {
      this.#options.page.comeBack({ ...this.content });
      // Once: of what was saved before it nothing is told.
      this.content.kept = undefined;
      return;
    }
    this.status.value = '';
    this.#saveFailed(reasonOf(error));
    // The next save stores all of it again.
    this.#savedVersion = -1;
  }

  /** Its form goes, as another text is written: it is saved. */
  leave(): void {
    this.#isLeft = true;
    void this.save();
  }

  /** Saves it, and closes the form. */
  async close(): Promise<void> {
    if (this.isSending.value || !(await this.save()) || this.#isEnded) return;
    // It was refused at once, or somebody wrote on.
    if (this.isDirty) return;
    const { kept } = this.content;
    this.#end();
    if (kept) this.#options.page.say('Draft saved');
  }

  /** Throws it away, the saved draft too. */
  async discard(): Promise<void> {
    const { page } = this.#options;
    if (this.isSending.value) return;
    clearTimeout(this.#timer);
    await this.#saving;
    const { kept } = this.content;
    this.content.kept = undefined;
    await this.#stored();
    const content = { ...this.content };
    this.#end();
    try {
      // Into Trash: its files are there, if it is wanted again.
      if (kept) await this.client.mailbox(kept.mailbox).delete([kept.id]);
      page.say('Draft thrown away', () => page.reopen(content));
    } catch (error) {
      page.sayFailure('The draft was not deleted', error);
    }
  }

  /**
   * Sends it, once.
   *
   * @param sendAt RFC 3339; soon where left out
   */
  async send(sendAt?: string): Promise<void> {
    const { page, undoSeconds } = this.#options;
    if (this.isSending.value || this.#isEnded || !(await this.#mayBeSent())) return;
    if (this.isSending.value || this.#isEnded) return;
    // A cancel keeps the draft as it is: what was written after the last save would be lost with the form.
    if (sendAt && this.content.kept && !(await this.save())) return;
    this.isSending.value = true;
    clearTimeout(this.#timer);
    // A save under way ends first: its result is the draft that the mail takes the place of.
    await this.#saving;
    try {
      const mail = { ...toOutgoing(this.content, page.textOf), ...(sendAt && { sendAt }) };
      const sent = await this.client.send(mail, sendAt ? {} : { undoSeconds });
      await this.#stored();
      const content = { ...this.content };
      this.#end();
      this.#follow(sent, content, sendAt);
    } catch (error) {
      this.isSending.value = false;
      this.trouble.value = `It was not sent. ${reasonOf(error)}`;
    }
  }

  async #mayBeSent(): Promise<boolean> {
    const { page } = this.#options;
    const text =
      this.content.html === undefined ? this.content.text : page.textOf(this.content.html);
    const message = { ...this.content, text };
    this.trouble.value = findTrouble(message);
    if (this.trouble.value) return false;
    const word = findMissingFile(message);
    if (message.subject.trim() === '' && !(await this.#askOnce('Send it without a subject?'))) {
      this.trouble.value = 'The subject is empty.';
      return false;
    }
    return (
      word === undefined ||
      (await this.#askOnce(`The text says "${word}", and no file is attached. Send it?`))
    );
  }

  /** Each question once: who wants it so need not say it twice. */
  async #askOnce(question: string): Promise<boolean> {
    if (this.#asked.has(question)) return true;
    const isYes = await this.#options.page.ask(question, 'Send');
    this.#asked.add(question);
    return isYes;
  }

  /** Tells what becomes of it, and takes it back if the user wants it. */
  #follow(sent: SendOperation, content: ComposeContent, sendAt: string | undefined): void {
    const { account, page } = this.#options;
    let isTakenBack = false;
    const takeBack = async () => {
      isTakenBack = true;
      const told = setTimeout(page.say, TOLD_AFTER_MS, 'It is taken back once the server answers');
      try {
        const { mailbox, id } = (await sent.cancel())?.draft ?? {};
        page.reopen({ ...content, kept: mailbox && id ? { mailbox, id } : content.kept });
      } catch (error) {
        isTakenBack = false;
        page.sayFailure('It was not taken back', error);
      } finally {
        clearTimeout(told);
      }
    };
    const text = sendAt ? `It will be sent on ${formatFull(sendAt)}` : 'Sent';
    const unsay = page.say(text, () => void takeBack());
    sent.applied.catch((error: unknown) => {
      unsay();
      // The page tells of refusals. What another tab took back is a draft there.
      if (!isTakenBack && error instanceof ApiError)
        page.comeBack({
          ...content,
          files: withBytes(error, content),
          forget: () => account.settle(sent, 'forget'),
        });
    });
  }

  #end(): void {
    clearTimeout(this.#timer);
    this.#isEnded = true;
    this.#options.page.close();
  }
}

/** Files that are not at the server any more are sent again, where they were chosen here: another device removed the draft. */
function withBytes({ code }: ApiError, { files }: ComposeContent): ComposeFile[] {
  if (code !== 'message_not_found' && code !== 'part_not_found') return files;
  return files.map(({ from, ...file }) => (file.content ? file : { ...file, from }));
}
