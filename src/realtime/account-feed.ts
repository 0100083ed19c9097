import type { AccessChange, Change, Changes } from '../changes/changes.ts';
import { type Connection, closings } from './connection.ts';
import { encodeChange } from './messages.ts';

/** How connections end when an account loses its access. */
const closingFor = {
  suspended: closings.inactive,
  deleted: closings.inactive,
  password_reset: closings.unauthorized,
} satisfies Record<AccessChange['reason'], unknown>;

/**
 * The connections of one account, on one subscription: a change is encoded once, however many
 * connections it goes to.
 */
export class AccountFeed {
  /** Open ones, and those whose closing handshake is under way. */
  readonly connections = new Set<Connection>();
  readonly #unsubscribe: () => void;

  constructor(accountId: number, changes: Pick<Changes, 'subscribe'>) {
    this.#unsubscribe = changes.subscribe(accountId, (change) => this.#pass(change));
  }

  stop(): void {
    this.#unsubscribe();
  }

  #pass(change: Change): void {
    if (change.kind === 'access') {
      for (const connection of this.connections) connection.end(closingFor[change.reason]);
      return;
    }
    const message = encodeChange(change);
    for (const connection of this.connections) connection.tell(change.mailbox, message);
  }
}
