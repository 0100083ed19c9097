import type { Change, ChangeListener, Changes } from './change.ts';

/** Changes told within this process; enough for one node. */
export class InProcessChanges implements Changes {
  readonly #listeners = new Map<number, Set<ChangeListener>>();

  publish(change: Change): void {
    // A copy, because a listener may end its own subscription while it is told.
    for (const listener of [...(this.#listeners.get(change.accountId) ?? [])]) listener(change);
  }

  subscribe(accountId: number, listener: ChangeListener): () => void {
    const listeners = this.#listeners.get(accountId) ?? new Set();
    this.#listeners.set(accountId, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#listeners.get(accountId) === listeners) {
        this.#listeners.delete(accountId);
      }
    };
  }
}
