/** The mailboxes of an account. */
import type { MailboxTip, RelocatedMessage, SenderResults, UpdatedMessage } from '../api-types.ts';
import type { VirtualClock } from './clock.ts';
import { FakeMailbox, readFlags, type StoredMail } from './mailbox.ts';
import { invalid, Refusal } from './refusal.ts';
import { type NewMail, readMail, writeMail } from './source.ts';

/** What an account needs of its server. */
export interface Surroundings {
  readonly clock: VirtualClock;
  /** A number that was not given before. */
  next(): number;
  /** Tells the sockets that a mailbox changed, or the list of mailboxes did. */
  tell(account: FakeMailboxes, changed: FakeMailbox | 'list'): void;
  deliver(address: string, source: Uint8Array): void;
}

/** An account that is made. */
export interface NewAccount {
  readonly address: string;
  readonly displayName?: string;
  readonly password?: string;
}

/** A message that comes in. */
export interface DeliverOptions {
  readonly flags?: readonly string[];
  /** Milliseconds since 1970; now when left out. */
  readonly arrived?: number;
  /** What the checks of its sender found. */
  readonly auth?: SenderResults;
}

/** Names a message; with `uidvalidity`, only while the mailbox still has it. */
export interface Place {
  readonly mailbox: string;
  readonly uid: number;
  readonly uidvalidity?: string;
}

const DEFAULTS = ['INBOX', 'Sent', 'Drafts', 'Junk', 'Trash', 'Archive'];

const canonical = (name: string) => (/^inbox$/i.test(name) ? 'INBOX' : name);

/** The mailboxes of a fake account. */
export class FakeMailboxes {
  readonly address: string;
  readonly displayName: string;
  readonly password: string;
  /** Every call is refused. Set by the server, which also closes the sockets. */
  suspended = false;
  readonly #around: Surroundings;
  #mailboxes: FakeMailbox[];

  constructor(around: Surroundings, { address, displayName = '', password = '' }: NewAccount) {
    this.#around = around;
    this.address = address;
    this.displayName = displayName;
    this.password = password;
    this.#mailboxes = DEFAULTS.map((name) =>
      this.#make(name, name === 'INBOX' ? undefined : `\\${name}`),
    );
  }

  get mailboxes(): readonly FakeMailbox[] {
    return this.#mailboxes;
  }

  get tips(): MailboxTip[] {
    return this.#mailboxes.map(({ state, id }) => ({ ...state, mailboxId: id }));
  }

  /** @throws Refusal mailbox_not_found */
  mailbox(name: string): FakeMailbox {
    const found = this.#mailboxes.find((one) => one.name === canonical(name));
    if (!found) throw new Refusal('mailbox_not_found', `there is no mailbox "${name}"`);
    return found;
  }

  /** @throws Refusal mailbox_not_found; uidvalidity_changed where it was made anew */
  checked({ mailbox, uidvalidity }: Pick<Place, 'mailbox' | 'uidvalidity'>): FakeMailbox {
    const found = this.mailbox(mailbox);
    if (uidvalidity === undefined || uidvalidity === found.uidvalidity) return found;
    throw new Refusal('uidvalidity_changed', `"${found.name}" was created again: sync it first`);
  }

  /** @throws Refusal mailbox_not_found, uidvalidity_changed, message_not_found */
  message(place: Place): StoredMail & { readonly uid: number } {
    const found = this.checked(place).find(place.uid);
    if (found) return found;
    throw new Refusal('message_not_found', `there is no message with the UID ${place.uid}`);
  }

  /** Puts mail into a mailbox, as if it had come from outside. @returns its UID */
  deliver(mailbox: string, mail: NewMail = {}, options: DeliverOptions = {}): number {
    const { clock, next } = this.#around;
    const from = { address: 'bob@sender.test', name: 'Bob' };
    const own = {
      from,
      to: [{ address: this.address }],
      date: clock.now(),
      messageId: `<${next()}@sender.test>`,
    };
    return this.append(mailbox, writeMail({ ...own, ...mail }), options);
  }

  /** @returns the UID of the message */
  append(
    mailbox: string,
    source: Uint8Array,
    { flags = [], arrived, auth }: DeliverOptions,
  ): number {
    const { clock, next } = this.#around;
    const target = this.mailbox(mailbox);
    const mail = readMail(source);
    const named = [...mail.references, mail.envelope.messageId ?? ''];
    const all = this.#mailboxes.flatMap((one) => one.existing(one.uids));
    const known = all.find(({ envelope: { messageId } }) => messageId && named.includes(messageId));
    const [uid = 0] = target.add([
      {
        ...mail,
        threadId: known?.threadId ?? `t${next()}`,
        emailId: `e${next()}`,
        flags: readFlags(flags),
        arrived: arrived ?? clock.now(),
        auth,
      },
    ]);
    this.#told(target);
    return uid;
  }

  /** @returns those that exist, with their flags now */
  flag(
    mailbox: string,
    uids: readonly number[],
    add: readonly string[],
    remove: readonly string[] = [],
  ): UpdatedMessage[] {
    const found = this.mailbox(mailbox);
    return this.#changing(found, () =>
      found.flag(uids, readFlags(add, 'add'), readFlags(remove, 'remove')),
    );
  }

  /** Deletes for good. @returns UIDs that existed */
  remove(mailbox: string, uids: readonly number[]): number[] {
    const found = this.mailbox(mailbox);
    return this.#changing(found, () => found.remove(uids));
  }

  relocate(
    mailbox: string,
    uids: readonly number[],
    to: string,
    moving: boolean,
  ): RelocatedMessage[] {
    const source = this.mailbox(mailbox);
    const target = this.mailbox(to);
    if (moving && source === target) throw invalid('to', 'must be another mailbox');
    const found = source.existing(uids);
    const made = this.#changing(target, () => target.add(found));
    if (moving) this.remove(mailbox, uids);
    return found.map(({ uid }, index) => ({ uid, toUid: made[index] ?? 0 }));
  }

  create(name: string): FakeMailbox {
    const made = this.#make(this.#free('mailbox', name));
    this.#mailboxes.push(made);
    return this.#toldList(made);
  }

  /** Those below it are renamed as well. */
  rename(name: string, to: string): FakeMailbox {
    const found = this.#unprotected(name);
    const from = found.name;
    const moved = this.#mailboxes.filter((one) => one === found || one.name.startsWith(`${from}/`));
    const nameOf = ({ name: old }: FakeMailbox) => to + old.slice(from.length);
    for (const one of moved) this.#free('to', nameOf(one));
    for (const one of moved) one.name = nameOf(one);
    return this.#toldList(found);
  }

  delete(name: string): FakeMailbox {
    const found = this.#unprotected(name);
    this.#mailboxes = this.#mailboxes.filter((one) => one !== found);
    return this.#toldList(found);
  }

  /** Makes a mailbox anew with the same messages: other UIDs, another UIDVALIDITY. */
  recreate(name: string): void {
    const old = this.mailbox(name);
    const made = this.#make(old.name, old.specialUse);
    made.add(old.existing(old.uids));
    this.#mailboxes = this.#mailboxes.map((one) => (one === old ? made : one));
    this.#told(made);
  }

  #make(name: string, specialUse?: string): FakeMailbox {
    return new FakeMailbox(name, String(1_795_244_400 + this.#around.next()), specialUse);
  }

  #free(field: string, name: string): string {
    if (/[\p{Cc}%*\\]|^\s|\s$|^\/|\/$|\/\//u.test(name)) throw invalid(field, 'must be a name');
    const taken = this.#mailboxes.find((one) => one.name.toLowerCase() === name.toLowerCase());
    if (taken) throw new Refusal('mailbox_exists', `there is a mailbox "${taken.name}" already`);
    return name;
  }

  #unprotected(name: string): FakeMailbox {
    if (!DEFAULTS.includes(canonical(name))) return this.mailbox(name);
    throw new Refusal('mailbox_protected', `"${canonical(name)}" cannot be renamed or deleted`);
  }

  /** Tells of a mailbox if the change made another state of it. */
  #changing<T>(mailbox: FakeMailbox, change: () => T): T {
    const { token } = mailbox.state;
    const made = change();
    if (mailbox.state.token !== token) this.#told(mailbox);
    return made;
  }

  #told(changed: FakeMailbox): void {
    this.#around.tell(this, changed);
  }

  #toldList(changed: FakeMailbox): FakeMailbox {
    this.#told(changed);
    this.#around.tell(this, 'list');
    return changed;
  }
}
