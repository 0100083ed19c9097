/**
 * `\Recent` of IMAP4rev1 (RFC 3501 section 2.3.2): the first session that is told of a message shows it as recent, and no
 * other one. For each mailbox one number says up to which UID messages were told; it is stored when the last session
 * leaves. On several nodes two sessions may be the first, which the RFC allows.
 */
import { LRUCache } from 'lru-cache';
import type { ImapStore, OpenMailbox } from '../../mailboxes/mailstore/mailstore.ts';

interface Box {
  readonly id: number;
  /** Messages from here on were told to nobody. */
  next: number;
  stored: number;
  sessions: number;
}

/** Mailboxes whose numbers are known without their rows. */
const BOXES_KEPT = 10_000;

export class RecentMessages {
  /** Also of mailboxes that nobody has open: a row that was read before the last session left has an older number. */
  readonly #boxes = new LRUCache<number, Box>({ max: BOXES_KEPT });

  /** @param mailbox that a session has opened; it is closed once */
  open({ id, recent_uid }: OpenMailbox, isReadOnly: boolean): RecentOfSession {
    const box = this.#boxes.get(id) ?? { id, next: recent_uid, stored: recent_uid, sessions: 0 };
    box.next = Math.max(box.next, recent_uid);
    box.sessions++;
    this.#boxes.set(id, box);
    return new RecentOfSession(box, isReadOnly);
  }

  /** From which UID on messages of a mailbox are recent. */
  from({ id, recent_uid }: OpenMailbox): number {
    return Math.max(this.#boxes.get(id)?.next ?? 0, recent_uid);
  }

  /** Resolves when the number is stored; where it cannot be, messages are recent once more after a restart. */
  async close({ box }: RecentOfSession, imap: Pick<ImapStore, 'keepRecent'>): Promise<void> {
    if (--box.sessions > 0) return;
    try {
      if (box.next > box.stored) await imap.keepRecent(box.id, box.next);
      box.stored = box.next;
    } catch {
      // Nothing is lost.
    }
  }
}

/** The messages that one session shows as recent. */
export class RecentOfSession {
  readonly box: Box;
  readonly #isReadOnly: boolean;
  readonly #ranges: { from: number; to: number }[] = [];

  constructor(box: Box, isReadOnly: boolean) {
    this.box = box;
    this.#isReadOnly = isReadOnly;
  }

  /** The session is told of messages up to this UID. EXAMINE leaves them recent for others. */
  take(to: number): void {
    const last = this.#ranges.at(-1);
    const from = Math.max(this.box.next, (last?.to ?? 0) + 1);
    if (to < from) return;
    if (last && last.to + 1 === from) last.to = to;
    else this.#ranges.push({ from, to });
    if (!this.#isReadOnly) this.box.next = to + 1;
  }

  has(uid: number): boolean {
    return this.#ranges.some(({ from, to }) => uid >= from && uid <= to);
  }

  get ranges(): readonly { readonly from: number; readonly to: number }[] {
    return this.#ranges;
  }
}
