/** Brings mailboxes of the copy up to date, page by page; each page with the token that it leads to. */
import { ApiError } from '../errors.ts';
import { applyPage, FIELDS, uidsOf } from './apply-page.ts';
import type { Copy } from './copy.ts';
import { placesOf } from './fold.ts';
import { settledIn } from './outbox.ts';
import { isSeen, type MessageRow, type OperationRow, put } from './rows.ts';
import type { MailServer } from './server.ts';
import type { Change } from './store.ts';

export interface SyncerOptions {
  readonly copy: Copy;
  readonly server: MailServer;
  readonly epoch: number;
  /** Orders the answers to changes and the beginnings of syncs. */
  readonly tick: () => number;
  readonly isActive: () => boolean;
  readonly wrote: () => void;
  readonly received: (rows: readonly MessageRow[]) => void;
}

const FIRST_PAGE = 250;
const PAGE = 5000;

export class Syncer {
  readonly #options: SyncerOptions;
  /** When the sync began whose next page is due. */
  readonly #chains = new Map<number, number>();
  /** Changes under way that bring messages into a mailbox. */
  readonly #incoming = new Map<number, Set<Promise<void>>>();
  /** When the answer to a change came; those of an earlier leader are not known. */
  readonly #answered = new Map<number, number>();

  constructor(options: SyncerOptions) {
    this.#options = options;
  }

  noteAnswer(seq: number): void {
    this.#answered.set(seq, this.#options.tick());
  }

  /** An answer to a change began a sync; its further pages are due. */
  goOn(box: number, began: number): void {
    this.#chains.set(box, began);
  }

  /** A sync of the mailbox that gets messages waits for the answer: it would show them a second time. */
  bringing(operation: OperationRow, push: Promise<void>): Promise<void> {
    const { kind } = operation;
    const target = placesOf(operation, this.#options.copy.placeOf).at(-1);
    const brings = kind === 'append' || kind === 'move' || kind === 'copy';
    if (!brings || typeof target !== 'number') return push;
    const incoming = this.#incoming.get(target) ?? new Set();
    const isOver = push.catch(() => undefined);
    this.#incoming.set(target, incoming.add(isOver));
    void isOver.then(() => incoming.delete(isOver));
    return push;
  }

  /** @returns what is to be done then: `again`, or `relist` where there is no such mailbox any more */
  async sync(box: number): Promise<'again' | 'relist' | undefined> {
    const { copy, tick, isActive } = this.#options;
    // What this tab did not see begin, says nothing of when it began.
    const isResumed = copy.box(box)?.paging === true;
    const began = this.#chains.get(box) ?? (isResumed ? 0 : tick());
    try {
      for (let hasMore = true; hasMore && isActive(); ) hasMore = await this.#readPage(box, began);
    } catch (error) {
      if (error instanceof ApiError && error.code === 'mailbox_not_found') return 'relist';
      throw error;
    } finally {
      this.#chains.delete(box);
    }
    // Changes whose answer is younger than this sync wait for one more.
    const isAwaited = copy.operations.some(
      (one) => one.state === 'acked' && one.awaits?.includes(box),
    );
    return isAwaited ? 'again' : undefined;
  }

  async #readPage(box: number, began: number): Promise<boolean> {
    const { copy, server, epoch, wrote } = this.#options;
    const row = copy.box(box);
    if (!row || row.gone) return false;
    const { name, uidvalidity, token } = row;
    const limit = token === undefined ? FIRST_PAGE : PAGE;
    const body = { mailbox: name, uidvalidity, token, limit, fields: FIELDS, order: 'newest' };
    const page = await server.call('POST /mail/sync', { body });
    let received: readonly MessageRow[] = [];
    await Promise.all([...(this.#incoming.get(box) ?? [])]);
    await copy.write(epoch, 'relaxed', async () => {
      const now = copy.box(box);
      if (!now || now.gone || now.token !== token || now.uidvalidity !== uidvalidity) return [];
      const applied = applyPage(now, page, await copy.rows(box, uidsOf(page)));
      ({ received } = applied);
      return [...applied.changes, ...(page.hasMore ? [] : this.settle(box, began))];
    });
    wrote();
    this.receive(received);
    return page.hasMore === true;
  }

  /** Changes that the server had before a sync began are in the copy once it is complete. */
  settle(box: number, began: number): Change[] {
    return this.#options.copy.operations
      .filter(({ state, awaits }) => state === 'acked' && awaits?.includes(box))
      .filter(({ seq }) => (this.#answered.get(seq) ?? 0) < began)
      .map((operation) => put('operations', settledIn(operation, box)));
  }

  /** Tells of new mail: not of what the user moved or sent. */
  receive(rows: readonly MessageRow[]): void {
    const { copy, received } = this.#options;
    const own = new Set<string>();
    for (const { placed = [], toBox, box } of copy.operations) {
      for (const uid of placed) own.add(`${toBox ?? box}/${uid}`);
    }
    const fresh = rows.filter(({ box, uid, flags }) => !isSeen(flags) && !own.has(`${box}/${uid}`));
    if (fresh.length > 0) received(fresh);
  }
}
