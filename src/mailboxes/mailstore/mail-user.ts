/** Whose mail an operation is about, and who shares what is scarce with others. */
import { enterTurn, type Party, takeTurn } from '../../platform/net/net.ts';

/** Whose mail is meant; every operation is bound to one account. */
export interface MailUser {
  readonly accountId: number;
  readonly address: string;
  /** Whose account it is; absent where the caller has not asked. */
  readonly userId?: string | undefined;
  /** Whether the client that asks is gone: nobody waits for what is read for it. Absent where that changes nothing. */
  readonly hasLeft?: () => boolean;
}

/** Who shares what is scarce with others: the account, and the user it belongs to (or its domain). */
export function partiesOf(
  user: MailUser,
  most: { readonly account: number; readonly tenant: number },
): readonly Party[] {
  return [
    { name: `account ${user.accountId}`, most: most.account },
    { name: tenantOf(user), most: most.tenant },
  ];
}

/**
 * Milliseconds of a turn of the event loop. A hundred requests of one account, each of a few milliseconds, would hold
 * everybody else for the sum.
 */
export const OF_A_TURN = { account: 5, tenant: 10 };

/** Begins a request on mail. @returns what to wait for where the account or its user has used its share of this turn */
export function enterTurnOf(user: MailUser): Promise<void> | undefined {
  return enterTurn(partiesOf(user, OF_A_TURN));
}

/** Waits between two pieces of long work: until others had their turn, and the account and its user have a share again. */
export function takeTurnOf(user: MailUser): Promise<void> {
  return takeTurn(partiesOf(user, OF_A_TURN));
}

/** Names the user whose account it is: by the domain where the caller has not asked. */
export function tenantOf({ address, userId }: MailUser): string {
  return `user ${userId ?? address.slice(address.lastIndexOf('@') + 1)}`;
}
