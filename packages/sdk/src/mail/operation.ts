/** What an app holds of a change: whether the server has it, and how it is taken back. */
import type { CancelSendAnswer } from '../api-types.ts';
import { ApiError } from '../errors.ts';
import type { Operation, SendOperation, TakenBack } from './client.ts';
import type { Copy } from './copy.ts';
import { inverse, isOver, takerOf } from './outbox.ts';
import { makeId, type Platform } from './platform.ts';
import { bySeq, isWaiting, localId, type OperationRow, type StoredError } from './rows.ts';
import type { MailServer } from './server.ts';

/** Calls again whenever what is stored changed, until it answers true. */
export type WaitUntil = (isSo: () => boolean) => Promise<void>;

export interface OperationTools {
  readonly copy: Copy;
  readonly server: MailServer;
  readonly platform: Platform;
  readonly waitUntil: WaitUntil;
  /** Puts changes of the user into the queue. */
  readonly change: Copy['add'];
}

/** One call may have made several rows, a thousand messages each; or none, where there was nothing to do: it is over. */
export class StoredOperation implements Operation {
  readonly id: string;
  readonly kind: Operation['kind'];
  /** Private, as all that is not for the app: who logs a change sees the change, not the whole client. */
  readonly #tools: OperationTools;
  readonly #rows: readonly OperationRow[];

  /** @param kind where there are no rows */
  constructor(
    tools: OperationTools,
    rows: readonly OperationRow[],
    kind: Operation['kind'] = 'flag',
  ) {
    const [first] = rows;
    this.#tools = tools;
    this.id = first?.group ?? makeId();
    this.kind = first?.kind ?? kind;
    this.#rows = rows;
  }

  protected get tools(): OperationTools {
    return this.#tools;
  }

  get applied(): Promise<void> {
    return this.#wait();
  }

  async #wait(): Promise<void> {
    const { copy, waitUntil } = this.tools;
    await waitUntil(() => !copy.row || !this.rows().some(isWaiting));
    if (!copy.row) throw new Error('signed out');
    for (const { state, error } of this.rows()) {
      if (error) throw toError(error);
      if (state === 'cancelled') throw new Error('taken back before it went');
    }
  }

  async undo(): Promise<void> {
    this.checkKept();
    await this.#takeBack((row) => (!isOver(row) || (row.mail && row.error) ? inverse(row) : []));
  }

  async forget(): Promise<void> {
    // The leader ends it as what makes a draft of it, but without one: the one of both that came first counts.
    await this.#takeBack((row) =>
      row.error && row.state !== 'done' ? inverse({ ...row, mail: undefined }) : [],
    );
  }

  async #takeBack(inverseOf: typeof inverse): Promise<void> {
    const { copy, change } = this.tools;
    const left = this.rows().filter(({ seq }) => !takerOf(seq, copy.operations));
    const inverses = left.reverse().flatMap(inverseOf);
    if (inverses.length > 0) await change(() => inverses);
  }

  /** @throws where the text of one that was refused is gone */
  protected checkKept(): void {
    const { operations } = this.tools.copy;
    const isGone = ({ seq, error }: OperationRow) => error && !bySeq(seq, operations);
    if (this.rows().some(isGone)) throw new Error('It is not kept any more.');
  }

  /**
   * As they are now. One that is not kept any more ended long ago. One that ended knows no more what its messages looked
   * like: undo shows them again.
   */
  protected rows(): OperationRow[] {
    const { operations } = this.tools.copy;
    const now = (row: OperationRow) => bySeq(row.seq, operations);
    return this.#rows.map((row) => ({ ...row, state: 'done', ...now(row) }));
  }
}

export class StoredSend extends StoredOperation implements SendOperation {
  get sendId(): Promise<string> {
    return this.applied.then(() => this.rows()[0]?.sendId ?? '');
  }

  /** As `cancel`. */
  override async undo(): Promise<void> {
    await this.cancel();
  }

  async cancel(): Promise<TakenBack | undefined> {
    this.checkKept();
    const [row] = this.rows();
    if (!row || row.state === 'cancelled') return undefined;
    const { copy, change, waitUntil } = this.tools;
    const [cancelling] = (await change(() => inverse(row))) as [OperationRow];
    let now: OperationRow | undefined;
    await waitUntil(() => {
      now = bySeq(cancelling.seq, copy.operations);
      return now?.kind !== 'send' || !isWaiting(now);
    });
    if (now?.error) throw toError(now.error);
    if (now?.kind !== 'append') return takenBack(now?.cancelled);
    return { draft: { mailbox: now.mailbox, id: localId(now.seq, 0) } };
  }
}

/** The server's answer. */
export function takenBack(answer: CancelSendAnswer | undefined): TakenBack | undefined {
  return answer && { draft: { ...answer.draft, id: answer.draft.uid } };
}

export function toOperation(tools: OperationTools, rows: readonly OperationRow[]): StoredOperation {
  return rows[0]?.kind === 'send' ? new StoredSend(tools, rows) : new StoredOperation(tools, rows);
}

/** Changes that have not reached the server, oldest first. */
export function pendingOf(tools: OperationTools): Operation[] {
  const waiting = tools.copy.operations.filter(isWaiting);
  const groups = [...new Set(waiting.map(({ group }) => group))];
  const rowsOf = (one: string) => waiting.filter(({ group }) => group === one);
  return groups.map((one) => toOperation(tools, rowsOf(one)));
}

export function toError({ requestId, ...problem }: StoredError): ApiError {
  const text = JSON.stringify({ ...problem, request_id: requestId });
  return new ApiError(new Response(null, { status: problem.status }), text, 1);
}
