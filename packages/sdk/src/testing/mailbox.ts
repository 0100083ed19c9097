/** One mailbox: its messages by UID, a MODSEQ for each change, and what a sync tells of them. */
import type {
  AddedMessage,
  Mailbox,
  MailboxState,
  SenderResults,
  Sync,
  SyncMailboxBody,
  UpdatedMessage,
} from '../api-types.ts';
import { invalid } from './refusal.ts';
import type { ReadMail } from './source.ts';

/** A message of an account. */
export interface StoredMail extends ReadMail {
  readonly emailId: string;
  readonly threadId: string;
  /** Milliseconds since 1970. */
  readonly arrived: number;
  readonly flags: readonly string[];
  /** What the checks of its sender found, where it came from outside. */
  readonly auth?: SenderResults | undefined;
}

/** A message in its mailbox. */
export interface PlacedMail extends StoredMail {
  readonly uid: number;
  /** The MODSEQ of its coming. */
  readonly created: number;
  readonly modseq: number;
}

type Field = NonNullable<SyncMailboxBody['fields']>[number];

/** Where a page of a sync begins: what the client has is between `base` and `snapshot`, up to or down to a UID. */
interface Window {
  readonly base: number;
  readonly snapshot: number;
  readonly afterUid: number;
  readonly newest: boolean;
}

/** A page with more than UIDs ends here also where the client set no limit. */
const PAGE_WITH_FIELDS = 1000;
const TOKEN = /^(\d{1,20})(?:\.(\d{1,20})\.(\d{1,10})(n)?)?$/;
const SYSTEM_FLAGS = ['\\Answered', '\\Deleted', '\\Draft', '\\Flagged', '\\Seen'];

/** A mailbox of a fake account. */
export class FakeMailbox {
  name: string;
  readonly specialUse: string | undefined;
  readonly uidvalidity: string;
  readonly #messages = new Map<number, PlacedMail>();
  readonly #removed = new Map<number, { readonly created: number; readonly modseq: number }>();
  #uidnext = 1;
  #modseq = 1;
  #forgotten = 0;

  constructor(name: string, uidvalidity: string, specialUse?: string) {
    this.name = name;
    this.uidvalidity = uidvalidity;
    this.specialUse = specialUse;
  }

  get state(): MailboxState {
    return { mailbox: this.name, uidvalidity: this.uidvalidity, token: String(this.#modseq) };
  }

  /** Stays the same when it is renamed. */
  get id(): string {
    return `m${this.uidvalidity}`;
  }

  get summary(): Mailbox {
    const unseen = [...this.#messages.values()].filter(({ flags }) => !flags.includes('\\Seen'));
    return {
      ...this.state,
      mailboxId: this.id,
      ...(this.specialUse !== undefined && { specialUse: this.specialUse }),
      messages: this.#messages.size,
      unseen: unseen.length,
    };
  }

  /** UIDs of its messages, upwards. */
  get uids(): number[] {
    return [...this.#messages.keys()];
  }

  readonly find = (uid: number): PlacedMail | undefined => this.#messages.get(uid);

  /** Those of these UIDs that it has, by UID. */
  existing(uids: readonly number[]): readonly PlacedMail[] {
    const ordered = [...new Set(uids)].sort((a, b) => a - b);
    return ordered.flatMap((uid) => this.#messages.get(uid) ?? []);
  }

  /** Adds messages with one MODSEQ. @returns their UIDs */
  add(messages: readonly StoredMail[]): number[] {
    if (messages.length === 0) return [];
    const modseq = ++this.#modseq;
    return messages.map((message) => {
      const uid = this.#uidnext++;
      this.#messages.set(uid, { ...message, uid, created: modseq, modseq });
      return uid;
    });
  }

  /** @returns those that exist, by UID, with their flags now */
  flag(
    uids: readonly number[],
    add: readonly string[],
    remove: readonly string[],
  ): UpdatedMessage[] {
    const gone = new Set(remove.map(keyOf));
    const found = this.existing(uids);
    const changed = found.flatMap((row) => {
      const flags = readFlags([...row.flags, ...add], 'add').filter(
        (flag) => !gone.has(keyOf(flag)),
      );
      return flags.join(' ') === row.flags.join(' ') ? [] : [{ ...row, flags }];
    });
    if (changed.length > 0) {
      const modseq = ++this.#modseq;
      for (const row of changed) this.#messages.set(row.uid, { ...row, modseq });
    }
    return this.existing(uids).map(updatedOf);
  }

  /** @returns those that existed, by UID */
  remove(uids: readonly number[]): number[] {
    const found = this.existing(uids);
    const modseq = found.length > 0 ? ++this.#modseq : 0;
    for (const { uid, created } of found) {
      this.#messages.delete(uid);
      this.#removed.set(uid, { created, modseq });
    }
    return found.map(({ uid }) => uid);
  }

  /** What was removed is not known any more: a token from before gets a reset. */
  forgetRemoved(): void {
    this.#removed.clear();
    this.#forgotten = this.#modseq;
  }

  sync({ uidvalidity, token, limit, fields = [], order }: SyncMailboxBody): Sync {
    const read = readToken(token, uidvalidity);
    const isSame = !uidvalidity || uidvalidity === this.uidvalidity;
    const isKnown = isSame && read !== undefined && this.#knows(read);
    const newest = order === 'newest';
    const anew = {
      base: 0,
      snapshot: this.#modseq,
      afterUid: newest ? Number.MAX_SAFE_INTEGER : 0,
      newest,
    };
    const opened =
      typeof read === 'number' ? { ...anew, base: read, afterUid: 0, newest: false } : read;
    const window = isKnown && opened ? opened : anew;
    const page = this.#page(window, limit ?? (fields.length > 0 ? PAGE_WITH_FIELDS : undefined));
    const isNew = ({ created }: PlacedMail) => created > window.base;
    return {
      ...this.state,
      token: page.cut === undefined ? String(window.snapshot) : formatCursor(window, page.cut),
      changes: {
        added: page.live.filter(isNew).map((row) => addedOf(row, fields)),
        updated: page.live.filter((row) => !isNew(row)).map(updatedOf),
        removed: page.gone.map((uid) => ({ uid })),
      },
      ...((read === undefined ? !isSame : !isKnown) && { reset: true }),
      ...(page.cut !== undefined && { hasMore: true }),
    };
  }

  /** Whether all changes after a token are known, and none of them is still to come. */
  #knows(token: number | Window): boolean {
    if (typeof token === 'number') {
      return token >= 1 && token >= this.#forgotten && token <= this.#modseq;
    }
    const { base, snapshot, newest } = token;
    if (newest && base !== 0) return false;
    return (base || snapshot) >= this.#forgotten && base < snapshot && snapshot <= this.#modseq;
  }

  #page({ base, snapshot, afterUid, newest }: Window, limit = Number.POSITIVE_INFINITY) {
    const compare = (a: number, b: number) => (newest ? b - a : a - b);
    const isIn = (uid: number) => compare(uid, afterUid) > 0;
    const live = [...this.#messages.values()]
      .filter((row) => row.modseq > base && row.created <= snapshot && isIn(row.uid))
      .sort((a, b) => compare(a.uid, b.uid));
    const gone = [...this.#removed]
      .filter(
        ([uid, { created, modseq }]) =>
          base > 0 && created <= base && modseq > base && modseq <= snapshot && isIn(uid),
      )
      .map(([uid]) => uid)
      .sort(compare);
    const all = [...live.map(({ uid }) => uid), ...gone].sort(compare);
    const cut = all.length > limit ? all[limit - 1] : undefined;
    const fits = (uid: number) => cut === undefined || compare(uid, cut) <= 0;
    return { live: live.filter(({ uid }) => fits(uid)), gone: gone.filter(fits), cut };
  }
}

/** @throws Refusal for a token that no sync returned */
export function readToken(
  token: string | undefined,
  uidvalidity: string | undefined,
): number | Window | undefined {
  if (!token) return undefined;
  const [, base, snapshot, uid, downwards] = TOKEN.exec(token) ?? [];
  if (base === undefined)
    throw invalid('token', 'must be a token that a sync of this mailbox returned');
  if (!uidvalidity) throw invalid('uidvalidity', 'is required together with token');
  if (snapshot === undefined) return Number(base);
  return {
    base: Number(base),
    snapshot: Number(snapshot),
    afterUid: Number(uid),
    newest: downwards !== undefined,
  };
}

function formatCursor({ base, snapshot, newest }: Window, uid: number): string {
  return `${base}.${snapshot}.${uid}${newest ? 'n' : ''}`;
}

const keyOf = (flag: string) => flag.toLowerCase();

/** Flags as they are stored: each once, system flags as RFC 3501 spells them, sorted. @throws Refusal */
export function readFlags(flags: readonly string[], field = 'flags'): string[] {
  const byKey = new Map<string, string>();
  for (const flag of flags) {
    const system = SYSTEM_FLAGS.find((known) => keyOf(known) === keyOf(flag));
    if (!system && !/^[!#$&'+,\-./0-9:;<=>?@A-Z[^_`a-z|}~]{1,64}$/.test(flag)) {
      throw invalid(
        field,
        `must be system flags (${SYSTEM_FLAGS.join(', ')}) or keywords: 1 to 64 characters of ASCII, no space and none of (){%*"\\]`,
      );
    }
    if (!byKey.has(keyOf(flag))) byKey.set(keyOf(flag), system ?? flag);
  }
  return [...byKey.values()].sort();
}

function updatedOf({ uid, modseq, flags }: PlacedMail): UpdatedMessage {
  return { uid, modseq: String(modseq), flags: [...flags] };
}

function addedOf(row: PlacedMail, fields: readonly Field[]): AddedMessage {
  const all: Required<Omit<AddedMessage, 'uid' | 'modseq' | 'bodyStructure'>> = {
    envelope: row.envelope,
    flags: [...row.flags],
    size: row.source.length,
    internalDate: new Date(row.arrived).toISOString(),
    preview: row.preview,
    threadId: row.threadId,
    emailId: row.emailId,
    hasAttachment: row.attachments.length > 0,
  };
  const wanted = Object.entries(all).filter(([field]) => fields.some((one) => one === field));
  const modseq = fields.includes('flags') ? { modseq: String(row.modseq) } : {};
  return { uid: row.uid, ...Object.fromEntries(wanted), ...modseq };
}
