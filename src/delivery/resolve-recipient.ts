/** From a forward-path to whose mailbox is meant. */
import type { Accounts } from '../accounts/accounts.ts';
import type { Domains } from '../domains/domains.ts';
import { Refusal } from '../errors/errors.ts';
import type { MailUser } from '../mailstore/mailstore.ts';
import { parseAddress } from '../message/message.ts';

export interface Recipient {
  readonly user: MailUser;
}

export interface RecipientSources {
  readonly domains: Domains;
  readonly accounts: Accounts;
}

/**
 * Finds the account that a forward-path means.
 *
 * @returns the recipient, or the refusal to answer with
 */
export async function resolveRecipient(
  { domains, accounts }: RecipientSources,
  forwardPath: string,
): Promise<Recipient | Refusal> {
  const address = parseAddress(forwardPath);
  if (!address) return unparsable(forwardPath);
  const domain = await domains.findActive(address.domain);
  if (!domain) return refuseDomain(await domains.stateOf(address.domain), address.domain);
  const localPart = mailboxLocalPart(address.local);
  const account =
    (await accounts.findRecipient(localPart, domain.id)) ??
    // RFC 5321 section 4.5.1: postmaster is taken wherever mail is.
    (localPart === 'postmaster' ? await accounts.oldestOfDomain(domain.id) : undefined);
  if (!account) return unknownRecipient(forwardPath, domain.route.forwardMode);
  if (account.status === 'suspended') {
    return new Refusal('account_inactive', `mailbox ${forwardPath} is suspended for now`);
  }
  return { user: { accountId: account.id, address: account.address } };
}

/** Case and `+tag` are not part of the mailbox's name. */
function mailboxLocalPart(local: string): string {
  const lower = local.toLowerCase();
  const plus = lower.indexOf('+');
  return plus > 0 ? lower.slice(0, plus) : lower;
}

function unparsable(forwardPath: string): Refusal {
  // RFC 5321 section 4.1.1.3 lets clients write `postmaster` alone; no account of ours is meant.
  if (forwardPath.toLowerCase() === 'postmaster') {
    return new Refusal('account_not_found', 'write to postmaster at one of the hosted domains');
  }
  return new Refusal('relay_denied', `${forwardPath} is not an address of a domain hosted here`);
}

function refuseDomain(state: string, domain: string): Refusal {
  if (state === 'lapsed') {
    return new Refusal('domain_suspended', `${domain} does not take mail for now`);
  }
  if (state === 'pending' || state === 'expired') {
    return new Refusal('domain_not_active', `${domain} does not take mail`);
  }
  return new Refusal('relay_denied', `${domain} is not hosted here`);
}

function unknownRecipient(forwardPath: string, forwardMode: string): Refusal {
  if (forwardMode === 'store') {
    return new Refusal('account_not_found', `there is no mailbox ${forwardPath}`);
  }
  // The route wants this mail elsewhere, where it cannot be brought yet: the sender keeps it.
  return new Refusal('unavailable', `mail for ${forwardPath} cannot be passed on right now`);
}
