/**
 * What a client wants to be told of at any time (RFC 5465), and what it was told last of each mailbox. There is no queue of
 * news: what was told is compared with what is there now. So a lost event is made up for within a minute.
 */
import { type OpenMailbox, SEPARATOR } from '../../mailboxes/mailstore/mailstore.ts';
import type { FetchRequest } from './parse-fetch.ts';

/** The events that are known (RFC 5465 section 5), as BADEVENT lists them. */
export const EVENTS = [
  'MessageNew',
  'MessageExpunge',
  'FlagChange',
  'MailboxName',
  'SubscriptionChange',
] as const;
export type NotifyEvent = (typeof EVENTS)[number];

/** Events of the mailbox that is selected, whichever it is. New and removed messages are among them. */
export interface SelectedEvents {
  /** Whether removals are told only where a command allows it, so that sequence numbers stay. */
  readonly isDelayed: boolean;
  readonly tellsFlags: boolean;
  /** What is told of a new message; undefined for its number alone. */
  readonly fetch: FetchRequest | undefined;
}

/** Which mailboxes, and what of them. */
export interface Watch {
  readonly of: 'PERSONAL' | 'INBOXES' | 'SUBSCRIBED' | 'SUBTREE' | 'MAILBOXES';
  /** Of a subtree, or of mailboxes. */
  readonly names: ReadonlySet<string>;
  readonly events: ReadonlySet<NotifyEvent>;
}

export interface NotifyRequest {
  /** Whether the state of all mailboxes is told at once. */
  readonly tellsStatus: boolean;
  /** Undefined where nothing of the selected mailbox is told. */
  readonly selected: SelectedEvents | undefined;
  readonly watches: readonly Watch[];
}

/** NOTIFY NONE. */
export const NOTHING: NotifyRequest = { tellsStatus: false, selected: undefined, watches: [] };

/** A name as it was told last. */
export interface Told
  extends Pick<
    OpenMailbox,
    'id' | 'uidvalidity' | 'uidnext' | 'messages' | 'unseen' | 'highestmodseq'
  > {
  readonly isSubscribed: boolean;
}

/** For a name that is only subscribed, and for a mailbox of which nothing was told. */
export const UNTOLD: Told = {
  ...{ id: 0, uidvalidity: 0, uidnext: 1, messages: 0, unseen: 0, highestmodseq: 0 },
  isSubscribed: false,
};

export class Watches {
  readonly request: NotifyRequest;
  /** By name; undefined until mailboxes were read for the first time. */
  told: ReadonlyMap<string, Told> | undefined;
  /** Mailboxes with a new state. */
  readonly #changed = new Set<string>();
  #isListBehind = false;
  /** What this client itself wrote since mailboxes were read last. */
  readonly #own = new Set<string>();
  readonly #tellsNames: boolean;

  constructor(request: NotifyRequest) {
    this.request = request;
    this.#tellsNames = request.watches.some(
      ({ events }) => events.has('MailboxName') || events.has('SubscriptionChange'),
    );
  }

  /** Whether there may be something to tell. */
  get isBehind(): boolean {
    return this.#isListBehind || this.#changed.size > 0;
  }

  /** @param mailbox undefined where any may have changed, or their list @returns whether the client waits for it */
  onChange(mailbox?: string): boolean {
    if (this.request.watches.length === 0) return false;
    // While mailboxes are read for the first time, nobody knows which state that finds.
    if (mailbox === undefined || !this.told) this.#isListBehind = true;
    else if (this.told.has(mailbox)) this.#changed.add(mailbox);
    else return false;
    return true;
  }

  /** The client is not told of what it did itself (RFC 5465 section 5). */
  wrote(mailbox: string): void {
    if (this.told) this.#own.add(mailbox);
  }

  /** Takes what has to be read: nothing is left after it. @returns `mailboxes` undefined where it is all of them */
  take(): { readonly mailboxes: readonly string[] | undefined; readonly own: ReadonlySet<string> } {
    const mailboxes = this.#isListBehind ? undefined : [...this.#changed];
    const own = new Set(this.#own);
    this.#isListBehind = false;
    this.#changed.clear();
    this.#own.clear();
    return { mailboxes, own };
  }

  /** Whether what is told of a name has to be kept. */
  keeps(name: string, isSubscribed: boolean): boolean {
    return this.#tellsNames || this.request.watches.some((one) => matches(one, name, isSubscribed));
  }

  /** Whether one of the watches wants an event of a name. */
  wants(event: NotifyEvent, name: string, isSubscribed: boolean): boolean {
    return this.request.watches.some(
      (one) => one.events.has(event) && matches(one, name, isSubscribed),
    );
  }
}

/** RFC 5465 section 6. Mail arrives in INBOX and in Junk, and filters of programs may move it anywhere. */
function matches({ of, names }: Watch, name: string, isSubscribed: boolean): boolean {
  if (of === 'PERSONAL' || of === 'INBOXES') return true;
  if (of === 'SUBSCRIBED') return isSubscribed;
  if (of === 'MAILBOXES') return names.has(name);
  for (let above = name; above !== ''; above = parentOf(above)) if (names.has(above)) return true;
  return false;
}

/** The name that a name is below; `''` where there is none. */
export function parentOf(name: string): string {
  return name.slice(0, Math.max(0, name.lastIndexOf(SEPARATOR)));
}
