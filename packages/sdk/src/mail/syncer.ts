/** Brings mailboxes of the copy up to date, page by page; each page with the token that it leads to. */
import type { Sync } from '../api-types.ts';
import { ApiError, isPassing } from '../errors.ts';
import { applyPage, uidsOf } from './apply-page.ts';
import type { Copy } from './copy.ts';
import type { Due } from './due.ts';
import { placesOf } from './fold.ts';
import { settledIn } from './outbox.ts';
import type { Platform } from './platform.ts';
import {
  FIELDS,
  isSeen,
  type MailboxRow,
  type MessageRow,
  type OperationRow,
  put,
} from './rows.ts';
import type { MailServer } from './server.ts';
import type { Change } from './store.ts';

/** What the parts of a leader share. */
export interface Lead {
  readonly copy: Copy;
  readonly server: MailServer;
  readonly platform: Platform;
  readonly epoch: number;
  readonly due: Due;
  readonly received: (rows: readonly MessageRow[]) => void;
}

const FIRST_PAGE = 250;
const PAGE = 5000;
/** A change that was not answered for so long holds up no mailbox any more. */
const UNKNOWN_MS = 60_000;

export class Syncer {
  readonly #lead: Lead;
  /** Orders the answers to changes and the beginnings of syncs. */
  #tick = 0;
  /** When the sync began whose next page is due. */
  readonly #chains = new Map<number, number>();
  /** Changes that bring messages into a mailbox, by seq, until they are answered: whether the last attempt was not. */
  readonly #incoming = new Map<
    number,
    { readonly box: number; readonly until: number; readonly isLost: Promise<boolean> }
  >();
  /** When the answer to a change came; those of an earlier leader are not known. */
  readonly #answered = new Map<number, number>();

  constructor(lead: Lead) {
    this.#lead = lead;
  }

  /** Something that brings a sync begins now. */
  begin(): number {
    return ++this.#tick;
  }

  note(seq: number): void {
    this.#answered.set(seq, ++this.#tick);
  }

  /** A sync of the mailbox that gets messages waits for the answer: it would show them a second time. */
  bringing(operation: OperationRow, push: Promise<void>): Promise<void> {
    const { copy, platform } = this.#lead;
    const { kind, seq, to, sentAt = platform.now() } = operation;
    const box = placesOf(operation, copy.placeOf).at(-1);
    if ((kind !== 'append' && to === undefined) || typeof box !== 'number') return push;
    const isLost = push.then(() => false, isPassing);
    // By seq: the mailbox of the next attempt may be another one, where this one's was renamed.
    this.#incoming.set(seq, { box, until: sentAt + UNKNOWN_MS, isLost });
    void isLost.then((lost) => lost || this.#incoming.delete(seq));
    return push;
  }

  /** Reads the next page of a mailbox. */
  async sync(box: number): Promise<void> {
    const { copy, server, due, platform } = this.#lead;
    const row = copy.box(box);
    if (!row || row.gone) return;
    // What this tab did not see begin, says nothing of when it began.
    const began = this.#chains.get(box) ?? (row.paging ? 0 : this.begin());
    const ask = ({ uidvalidity, token }: Partial<MailboxRow>) => {
      const limit = token === undefined ? FIRST_PAGE : PAGE;
      const state = { mailbox: row.name, uidvalidity, token };
      return server.call('POST /mail/sync', {
        body: { ...state, limit, fields: FIELDS, order: 'newest' },
      });
    };
    // A store of another kind has other tokens: nothing that the copy knows can be compared.
    const askAnew = async (error: unknown): Promise<Sync> => {
      if (!isOfToken(error)) throw error;
      return { ...(await ask({})), reset: true };
    };
    try {
      const page = await ask(row).catch(askAnew);
      const incoming = [...this.#incoming.values()].filter((one) => one.box === box);
      const lost = await Promise.all(incoming.map(({ isLost }) => isLost));
      // Tried again by the timer, as the change is.
      if (incoming.some(({ until }, at) => lost[at] && platform.now() < until))
        throw new Error('a change has brought messages here, perhaps');
      await this.take(row, page, began);
    } catch (error) {
      if (!(error instanceof ApiError && error.code === 'mailbox_not_found')) throw error;
      due.add('list');
    }
  }

  /**
   * Writes a page, with what it settles: changes that the server had before the sync began are in the copy once it is
   * complete.
   *
   * @param asked the mailbox as it was when the page was asked for
   * @param own seqs of the changes in whose answer the page came
   */
  async take(
    { box, uidvalidity, token, paging }: MailboxRow,
    page: Sync,
    began: number,
    own?: ReadonlySet<number>,
  ): Promise<void> {
    const { copy, epoch, due } = this.#lead;
    let received: readonly MessageRow[] = [];
    const awaiting = () =>
      copy.operations.filter(({ state, awaits }) => state === 'acked' && awaits?.includes(box));
    const isIn = ({ seq }: OperationRow) => own?.has(seq) || (this.#answered.get(seq) ?? 0) < began;
    await copy.write(epoch, 'relaxed', async () => {
      const now = copy.box(box);
      if (!now || now.gone || now.token !== token || now.uidvalidity !== uidvalidity) return [];
      const { changes, ...applied } = applyPage(now, page, await copy.rows(box, uidsOf(page)));
      ({ received } = applied);
      const settled = page.hasMore ? [] : awaiting().filter(isIn);
      const over = settled.map((one): Change => put('operations', settledIn(one, box)));
      return [...changes, ...over];
    });
    if (page.hasMore) this.#chains.set(box, began);
    else this.#chains.delete(box);
    // The last page is of the time of the first one; and changes whose answer is younger than this sync wait for one more.
    if (page.hasMore || paging || awaiting().length > 0) due.add(box);
    this.#receive(received);
  }

  /** Tells of new mail: not of what the user moved or sent. */
  #receive(rows: readonly MessageRow[]): void {
    const { copy, received } = this.#lead;
    const own = new Set<string>();
    for (const { placed = [], toBox, box } of copy.operations) {
      for (const uid of placed) own.add(`${toBox ?? box}/${uid}`);
    }
    const fresh = rows.filter(({ box, uid, flags }) => !isSeen(flags) && !own.has(`${box}/${uid}`));
    if (fresh.length > 0) received(fresh);
  }
}

const isOfToken = (error: unknown) =>
  error instanceof ApiError && error.errors.some(({ field }) => field === 'token');
