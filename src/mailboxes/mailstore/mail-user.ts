/** Whose mail an operation is about, and who shares what is scarce with others. */
import type { Party } from '../../platform/net/net.ts';

/** Whose mail is meant; every operation is bound to one account. */
export interface MailUser {
  readonly accountId: number;
  readonly address: string;
  /** Whose account it is; absent where the caller has not asked. */
  readonly userId?: string | undefined;
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

/** Names the user whose account it is: by the domain where the caller has not asked. */
export function tenantOf({ address, userId }: MailUser): string {
  return `user ${userId ?? address.slice(address.lastIndexOf('@') + 1)}`;
}
