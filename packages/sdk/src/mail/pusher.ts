/**
 * Carries one batch of the user's changes to the server. `inflight` is stored with the request before it goes, so that
 * after a crash the same request goes again, under the same key.
 */
import { ApiError, isForeign, isPassing } from '../errors.ts';
import { applyPage, startsAnew, uidsOf } from './apply-page.ts';
import { endsSession } from './attempts.ts';
import type { Copy } from './copy.ts';
import type { Due } from './due.ts';
import { placesOf } from './fold.ts';
import { acked, ended, endings, nextBatches, outdated, settledIn } from './outbox.ts';
import type { Platform } from './platform.ts';
import { buildRequest, type PushAnswer, readAnswer, type StoredRequest, toCall } from './push.ts';
import {
  blobsOf,
  isWaiting,
  type MessageRow,
  type OperationRow,
  placedIn,
  put,
  removal,
  uidOf,
} from './rows.ts';
import type { MailServer } from './server.ts';
import type { Change } from './store.ts';
import type { Syncer } from './syncer.ts';

export interface PusherOptions {
  readonly copy: Copy;
  readonly server: MailServer;
  readonly platform: Platform;
  readonly epoch: number;
  readonly syncer: Syncer;
  readonly due: Due;
}

/** What is to be done after a push. */
export interface Pushed {
  /** Boxes to be synced. */
  readonly boxes: readonly number[];
  /** The box whose sync the answer began; its further pages are due. */
  readonly continues?: number | undefined;
  readonly received: readonly MessageRow[];
  readonly listChanged: boolean;
}

const NOTHING: Pushed = { boxes: [], received: [], listChanged: false };
/** After this time the server may have forgotten a key; that of a send it finds as long as it knows the send. */
const KEY_MS = 24 * 3_600_000;

export class Pusher {
  readonly #options: PusherOptions;

  constructor(options: PusherOptions) {
    this.#options = options;
  }

  /**
   * @param began its place among answers and beginnings of syncs
   * @param isOwner whether the answer may bring the copy of the mailbox up to date
   * @throws ApiError, ConnectionError where it has to be tried again
   */
  async push(batch: readonly OperationRow[], began: number, isOwner: boolean): Promise<Pushed> {
    const isAgain = batch[0]?.state === 'inflight';
    const going = isAgain ? batch : await this.#begin(batch, isOwner);
    const [first] = going;
    if (!first) return NOTHING;
    const { copy, server, platform } = this.#options;
    const request = first.request as StoredRequest;
    let answer: PushAnswer;
    try {
      const isOld =
        isAgain && first.kind === 'send' && platform.now() - (first.sentAt ?? 0) > KEY_MS;
      if (isOld && first.inverseOf === undefined)
        answer = await server.call('GET /mail/sends', { query: { key: first.id } });
      else
        answer = (await server.call(
          request.route,
          await toCall(request, first, copy, server),
        )) as PushAnswer;
    } catch (error) {
      return await this.#refused(going, error, isAgain);
    }
    return await this.#answer(going, request, answer, isOwner ? began : 0);
  }

  /** Stores that it goes. What was taken back, or is gone already, does not. */
  async #begin(batch: readonly OperationRow[], isOwner: boolean): Promise<OperationRow[]> {
    const { copy, epoch, platform } = this.#options;
    let going: OperationRow[] = [];
    await copy.write(epoch, 'strict', () => {
      const seqs = new Set(batch.map(({ seq }) => seq));
      const still = nextBatches(copy)
        .flat()
        .filter((one) => seqs.has(one.seq) && one.state === 'queued');
      const [first] = still;
      if (!first) return [];
      const mailbox = copy.home(first.mailbox, first.box);
      const since =
        isOwner && mailbox?.token !== undefined && !mailbox.paging ? mailbox : undefined;
      const request = buildRequest(still, copy, since);
      if (!request) return this.#end(still, 'done');
      going = still.map((one) => {
        const sent = { state: 'inflight', batch: first.id, sentAt: platform.now() } as const;
        return { ...one, ...sent, request: one === first ? request : undefined };
      });
      return going.map((one) => put('operations', one));
    });
    return going;
  }

  async #answer(
    batch: readonly OperationRow[],
    request: StoredRequest,
    answer: PushAnswer,
    began: number,
  ): Promise<Pushed> {
    const { copy, epoch, syncer } = this.#options;
    let received: readonly MessageRow[] = [];
    let continues: number | undefined;
    let boxes: number[] = [];
    let anew: number | undefined;
    await copy.write(epoch, 'strict', async () => {
      let after = batch.map((one) => acked(one, readAnswer(one, answer, copy), this.#awaits(one)));
      const changes: Change[] = [];
      const row = batch[0] && homeOf(batch[0], copy);
      const box = row?.box;
      const { sync } = answer;
      const { since } = request;
      const fits = since && row?.token === since.token && row?.uidvalidity === since.uidvalidity;
      if (sync && box !== undefined && row && fits && began > 0) {
        const applied = applyPage(row, sync, await copy.rows(box, uidsOf(sync)));
        changes.push(...applied.changes);
        ({ received } = applied);
        if (startsAnew(row, sync)) anew = box;
        if (sync.hasMore) continues = box;
        else {
          after = after.map((one) => settledIn(one, box));
          changes.push(...syncer.settle(box, began));
        }
      }
      for (const { seq } of batch) syncer.noteAnswer(seq);
      boxes = after.flatMap(({ awaits }) => awaits ?? []);
      return [
        ...changes,
        ...after.flatMap((one) => [put('operations', one), ...this.filesOf(one)]),
        ...this.#prune(),
      ];
    });
    const [{ kind } = {}] = batch;
    // A mail that is sent is in Sent, and a draft goes; a mailbox that is not in the copy has other numbers.
    const touched = copy.mailboxes.filter(
      ({ specialUse = '', token }) =>
        kind === 'send' && token !== undefined && ['\\Sent', '\\Drafts'].includes(specialUse),
    );
    return {
      boxes: [...boxes, ...touched.map((one) => one.box), ...(anew !== undefined ? [anew] : [])],
      continues,
      received,
      listChanged: kind === 'mailbox',
    };
  }

  /** @throws the error, where the same request may succeed later */
  async #refused(
    batch: readonly OperationRow[],
    error: unknown,
    isAgain: boolean,
  ): Promise<Pushed> {
    const { copy, epoch } = this.#options;
    if (!(error instanceof ApiError) || endsSession(error) || isPassing(error) || isForeign(error))
      throw error;
    const [first] = batch;
    const { status, code, detail } = error;
    if (code === 'uidvalidity_changed' && (first?.mail?.draft || first?.mail?.inReplyTo)) {
      await copy.write(epoch, 'strict', () => [put('operations', sendAlone(first))]);
      return NOTHING;
    }
    // The first attempt made it, and its answer was lost.
    const wasDone =
      isAgain &&
      first?.kind === 'mailbox' &&
      (code === 'mailbox_exists' || code === 'mailbox_not_found');
    const isUnknown =
      isAgain &&
      first?.kind === 'send' &&
      code === 'send_not_found' &&
      first.inverseOf === undefined;
    const state = wasDone ? 'done' : isUnknown ? 'uncertain' : 'rejected';
    await copy.write(epoch, 'strict', () => this.#end(batch, state, { status, code, detail }));
    const boxes = batch.flatMap((one) => {
      const row = homeOf(one, copy);
      return row?.token === undefined ? [] : [row.box];
    });
    return {
      ...NOTHING,
      boxes,
      listChanged: code === 'mailbox_not_found' || first?.kind === 'mailbox',
    };
  }

  /** Others have nothing to wait for. */
  #awaits(operation: OperationRow): number[] {
    const { copy, due } = this.#options;
    if (operation.kind === 'send' || operation.kind === 'mailbox') return [];
    const places = placesOf(operation, copy.placeOf);
    const rows = copy.mailboxes.filter((row) => due.isWanted(row) && places.includes(row.box));
    return rows.map(({ box }) => box);
  }

  #end(
    batch: readonly OperationRow[],
    state: 'done' | 'rejected' | 'uncertain',
    error?: OperationRow['error'],
  ): Change[] {
    const over = batch.map(
      (one): OperationRow =>
        state === 'done'
          ? acked(one, { placed: one.ids.map(() => 0) }, [])
          : ended(one, state, error),
    );
    return [
      ...over.flatMap((one) => [
        put('operations', one),
        ...(state === 'uncertain' ? [] : this.filesOf(one)),
      ]),
      ...this.#prune(),
    ];
  }

  /** Ends what was taken back before it went, and what can never go. */
  endings(): Change[] {
    return endings(this.#options.copy).flatMap((one) => this.#cancel(one));
  }

  /** It never goes. What takes back a mail that was to be sent becomes its draft: nothing written is lost. */
  #cancel(operation: OperationRow): Change[] {
    const { inverseOf, needs: _, ...draft } = operation;
    if (draft.kind === 'send' && inverseOf !== undefined && draft.mail)
      return [put('operations', { ...draft, kind: 'append' })];
    const over = { ...ended(operation, 'cancelled'), ...stayed(operation, this.#options.copy) };
    return [put('operations', over), ...this.filesOf(operation)];
  }

  /**
   * Its files go with it: they are at the server, or nobody asks for them any more. Those stay that another change has, too:
   * one that takes the mail back makes a draft of it, where the mail does not go.
   */
  filesOf(operation: OperationRow): Change[] {
    const { account, seq } = operation;
    const { operations } = this.#options.copy;
    const others = operations.filter((one) => one.seq !== seq && isWaiting(one));
    const needed = new Set(others.flatMap(blobsOf));
    const files = blobsOf(operation).filter((blob) => !needed.has(blob));
    return files.map((blob) => ({ remove: 'blobs', key: [account, blob] }));
  }

  #prune(): Change[] {
    const { copy, platform } = this.#options;
    return outdated(copy.operations, platform.now()).flatMap((row) => [
      removal('operations', row),
      // Of a send whose fate is not known they were kept until now.
      ...this.filesOf(row),
    ]);
  }
}

const homeOf = ({ kind, mailbox, box }: OperationRow, copy: Copy) =>
  kind === 'send' || kind === 'mailbox' ? undefined : copy.home(mailbox, box);

/** Messages that a move was to bring back are where they were: another tab may have named them by it meanwhile. */
function stayed({ kind, inverseOf }: OperationRow, { operations }: Copy): Partial<OperationRow> {
  const target = operations.find(({ seq }) => seq === inverseOf);
  if (kind !== 'move' || !target) return {};
  const { ids, uidvalidity } = target;
  const placed = ids.map((id) => uidOf(id, operations));
  const named = ids.map((id) => placedIn(id, operations) ?? uidvalidity);
  // As for a request: of two mailboxes, the one that was made anew since.
  return { placed, placedIn: named.find((one) => one !== uidvalidity) ?? uidvalidity };
}

/** A mail that goes without the messages it names: their mailbox was made anew, and they are gone. */
function sendAlone({ request: _, mail = {}, ...kept }: OperationRow): OperationRow {
  const { draft: _draft, inReplyTo: _answered, ...rest } = mail;
  return { ...kept, state: 'queued', mail: rest };
}
