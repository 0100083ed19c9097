/**
 * Carries one batch of the user's changes to the server. `inflight` is stored with the request before it goes, so that
 * after a crash the same request goes again, under the same key. Each attempt follows at once on a write of the leader: a tab
 * that was frozen meanwhile would do again what the user has taken back by another one.
 */
import { ApiError, endsSession, isForeign, isPassing } from '../errors.ts';
import { startsAnew } from './apply-page.ts';
import { writeMail } from './compose.ts';
import type { Copy } from './copy.ts';
import { placesOf } from './fold.ts';
import { moverOf } from './named.ts';
import { acked, ended, endings, isUnsettled, nextBatches, outdated, takerOf } from './outbox.ts';
import { buildRequest, type PushAnswer, readAnswer, type StoredRequest, toCall } from './push.ts';
import {
  blobsOf,
  bySeq,
  isWaiting,
  locateIn,
  type MailboxRow,
  type OperationRow,
  put,
  type Reading,
  removal,
  type StoredMail,
} from './rows.ts';
import type { Change } from './store.ts';
import type { Lead, Syncer } from './syncer.ts';

/** After this time the server may have forgotten a key; that of a send it finds as long as it knows the send. */
const KEY_MS = 24 * 3_600_000;

/** A message that mail names is not there any more: it was moved or deleted, or its mailbox is another one. */
const GONE = ['message_not_found', 'mailbox_not_found', 'uidvalidity_changed'];

export class Pusher {
  readonly #lead: Lead;
  readonly #syncer: Syncer;

  constructor(lead: Lead, syncer: Syncer) {
    this.#lead = lead;
    this.#syncer = syncer;
  }

  /**
   * @param isOwner whether the answer may bring the copy of the mailbox up to date
   * @throws ApiError, ConnectionError where it has to be tried again
   */
  async push(batch: readonly OperationRow[], isOwner: boolean): Promise<void> {
    const { copy, server, platform } = this.#lead;
    const isAgain = batch[0]?.state === 'inflight';
    const began = this.#syncer.begin();
    await server.ready();
    const going = isAgain ? await this.#again(batch) : await this.#begin(batch, isOwner);
    const [first] = going;
    if (!first) return;
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
          await toCall(request, first, copy),
        )) as PushAnswer;
    } catch (error) {
      if (!wasMade(first, error, isAgain)) {
        await this.#refused(going, error, isAgain);
        return;
      }
      answer = {};
    }
    await this.#answer(going, request, answer, isOwner ? began : 0);
  }

  /** @throws StaleEpochError where another tab leads */
  async #again(batch: readonly OperationRow[]): Promise<readonly OperationRow[]> {
    const { copy, epoch } = this.#lead;
    await copy.write(epoch, 'relaxed', () =>
      batch.slice(0, 1).map((one) => put('operations', one)),
    );
    return batch;
  }

  /** Stores that it goes. What was taken back, or is gone already, does not. */
  async #begin(batch: readonly OperationRow[], isOwner: boolean): Promise<readonly OperationRow[]> {
    const { copy, epoch, platform } = this.#lead;
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
      if (!request)
        return this.#end(still.map((one) => acked(one, { placed: one.ids.map(() => 0) }, [])));
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
    { body }: StoredRequest,
    answer: PushAnswer,
    began: number,
  ): Promise<void> {
    const { copy, epoch, due } = this.#lead;
    const seqs = new Set(batch.map(({ seq }) => seq));
    await copy.write(epoch, 'strict', () => {
      for (const seq of seqs) this.#syncer.note(seq);
      // One that is on its way may be from before the answer.
      if (batch[0]?.kind === 'mailbox') due.add('list');
      return this.#end(
        batch.map((one) => acked(one, readAnswer(one, answer, copy), this.#awaits(one))),
      );
    });
    const { sync } = answer;
    const row = batch[0] && homeOf(batch[0], copy);
    // One that begins anew is asked for by itself.
    if (sync && body?.since && row && began > 0 && !startsAnew(row, sync))
      await this.#syncer.take({ ...row, ...body.since }, sync, began, seqs);
    for (const { seq, awaits = [] } of copy.operations) if (seqs.has(seq)) due.add(...awaits);
    // A mail that is sent is in Sent, and a draft goes.
    if (batch[0]?.kind !== 'send') return;
    for (const { box, specialUse = '', token } of copy.mailboxes)
      if (token !== undefined && ['\\Sent', '\\Drafts'].includes(specialUse)) due.add(box);
  }

  /** @throws the error, where the same request may succeed later */
  async #refused(batch: readonly OperationRow[], error: unknown, isAgain: boolean): Promise<void> {
    const { copy, epoch, due } = this.#lead;
    if (!isRefusal(error)) throw error;
    const [first] = batch;
    const { status, code, detail, errors, requestId } = error;
    const { draft, inReplyTo, attachments = [] } = first?.mail ?? {};
    if (first?.mail && GONE.includes(code)) {
      const named = [inReplyTo, ...attachments.map(({ from }) => from)];
      // Where a move of the user brings it, is known soon.
      if (named.some((one) => one && moverOf(one, copy)?.state === 'inflight')) throw error;
      const { request, ...again } = first;
      const { body } = request as StoredRequest;
      const isMoved = JSON.stringify(writeMail(first, copy)) !== JSON.stringify(body);
      if (isMoved || draft || inReplyTo) {
        const mail = isMoved ? first.mail : alone(first.mail);
        await copy.write(epoch, 'strict', () => [
          put('operations', { ...again, state: 'queued', mail }),
        ]);
        return;
      }
    }
    // Only what was sent is looked for by its key.
    const isUnknown = isAgain && code === 'send_not_found' && first?.inverseOf === undefined;
    const state = isUnknown ? 'uncertain' : 'rejected';
    const refusal = { status, code, detail, errors, requestId };
    await copy.write(epoch, 'strict', () =>
      this.#end(batch.map((one) => ended(one, state, refusal))),
    );
    for (const one of batch) {
      const row = homeOf(one, copy);
      if (row?.token !== undefined) due.add(row.box);
    }
    if (code === 'mailbox_not_found' || first?.kind === 'mailbox') due.add('list');
  }

  /** Others have nothing to wait for. */
  #awaits(operation: OperationRow): Reading[] {
    const { copy, due } = this.#lead;
    if (operation.kind === 'mailbox') return ['list'];
    if (operation.kind === 'send') return [];
    const places = placesOf(operation, copy.placeOf);
    const rows = copy.mailboxes.filter((row) => due.isWanted(row) && places.includes(row.box));
    return rows.map(({ box }) => box);
  }

  #end(batch: readonly OperationRow[]): Change[] {
    return [...this.#over(batch), ...this.#prune()];
  }

  /**
   * Their files are not needed any more; but what was refused, or whose fate is not known, can be a draft yet.
   */
  #over(rows: readonly OperationRow[]): Change[] {
    return rows.flatMap((one) => [
      put('operations', one),
      ...(one.error ? [] : this.#filesOf(one)),
    ]);
  }

  /** Ends what was taken back before it went, and what can never go. */
  endings(): Change[] {
    return endings(this.#lead.copy).flatMap((one) => this.#cancel(one));
  }

  /** It never goes. What takes back a mail that was to be sent becomes its draft: nothing written is lost, unless it is forgotten. */
  #cancel(operation: OperationRow): Change[] {
    const { needs: _, ...taker } = operation;
    const { copy } = this.#lead;
    const { operations } = copy;
    const target = bySeq(taker.inverseOf, operations);
    // Taken back twice, it is one draft.
    if (target && taker.kind === 'send' && takerOf(target.seq, operations) === operation)
      return taker.mail
        ? [put('operations', { ...taker, kind: 'append', mail: instead(taker.mail, target, copy) })]
        : [put('operations', { ...taker, state: 'done' }), ...this.#filesOf(target)];
    return this.#over([{ ...ended(operation, 'cancelled'), ...stayed(operation, copy) }]);
  }

  /**
   * Its files go with it: they are at the server, or nobody asks for them any more. Those stay that another change has, too:
   * one that takes the mail back makes a draft of it, where the mail does not go.
   */
  #filesOf(operation: OperationRow): Change[] {
    const { account, seq } = operation;
    const { operations } = this.#lead.copy;
    const others = operations.filter(
      (one) => one.seq !== seq && (isWaiting(one) || isUnsettled(one, operations)),
    );
    const needed = others.flatMap(blobsOf);
    const files = blobsOf(operation).filter((blob) => !needed.includes(blob));
    return files.map((blob) => ({ remove: 'blobs', key: [account, blob] }));
  }

  #prune(): Change[] {
    const { copy, platform } = this.#lead;
    return outdated(copy.operations, platform.now()).flatMap((row) => [
      removal('operations', row),
      // Of a mail that did not go they were kept until now.
      ...this.#filesOf(row),
    ]);
  }
}

/** The mailbox whose messages a change is of. */
export const homeOf = ({ kind, mailbox, box }: OperationRow, copy: Copy): MailboxRow | undefined =>
  kind === 'send' || kind === 'mailbox' ? undefined : copy.home(mailbox, box);

/** Whether the server refused it for good: what is no refusal may succeed later. */
const isRefusal = (error: unknown): error is ApiError =>
  error instanceof ApiError && !endsSession(error) && !isPassing(error) && !isForeign(error);

/** Whether the first attempt changed the mailbox, and its answer was lost. */
const wasMade = ({ kind }: OperationRow, error: unknown, isAgain: boolean) =>
  isAgain &&
  kind === 'mailbox' &&
  error instanceof ApiError &&
  ['mailbox_exists', 'mailbox_not_found'].includes(error.code);

/** Messages that a move was to bring back are where they were: another tab may have named them by it meanwhile. */
function stayed({ kind, inverseOf }: OperationRow, { operations }: Copy): Partial<OperationRow> {
  const target = bySeq(inverseOf, operations);
  if (kind !== 'move' || !target) return {};
  const { uids, uidvalidity } = locateIn(target.ids, operations, target.uidvalidity);
  return { placed: uids, placedIn: uidvalidity };
}

/** A draft that was refused comes in place of the one that it was to replace. */
function instead(mail: StoredMail, { seq }: OperationRow, { operations }: Copy): StoredMail {
  const replacing = operations.find(({ kind, needs }) => kind === 'delete' && needs === seq);
  const [id] = replacing?.ids ?? [];
  if (!replacing || id === undefined || mail.draft) return mail;
  const { mailbox, uidvalidity } = replacing;
  return { ...mail, draft: { mailbox, id, uidvalidity } };
}

/** A mail that goes without what it answers; or, where it answers nothing, without its draft. */
const alone = ({ inReplyTo, draft, ...rest }: StoredMail): StoredMail =>
  inReplyTo ? { ...rest, draft } : rest;
