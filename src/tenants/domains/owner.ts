/** Whose things a call is about. */

/** A user, and, where the caller may see no others, one of the organizations that domains were claimed for. */
export interface Owner {
  readonly userId: string;
  /** Only domains that were claimed with this `organization_id`, and their accounts. */
  readonly organizationId: string | undefined;
}

/** An owner, or all things of a user. */
export type Whose = Owner | string;

export function toOwner(whose: Whose): Owner {
  return typeof whose === 'string' ? { userId: whose, organizationId: undefined } : whose;
}
