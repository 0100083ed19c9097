/** From a forward-path to where its mail goes. */
import type { Account, Accounts } from '../accounts/accounts.ts';
import type { Bodies } from '../bodies/bodies.ts';
import type { ActiveDomain, Domains } from '../domains/domains.ts';
import { Refusal } from '../errors/errors.ts';
import type { MailUser } from '../mailstore/mailstore.ts';
import { parseAddress } from '../message/message.ts';
import type { SenderRewriting } from '../outbound/outbound.ts';

/** Where mail for one recipient goes. */
export type Destination =
  /** Into a mailbox of ours. */
  | { readonly kind: 'mailbox'; readonly user: MailUser }
  /** To the route's URL; `user` is whose mailbox may keep it as well. */
  | { readonly kind: 'webhook'; readonly domain: ActiveDomain; readonly user?: MailUser }
  /** On to the route's address. */
  | { readonly kind: 'forward'; readonly domain: ActiveDomain }
  /** A bounce of mail that we forwarded: back to who sent it first. */
  | { readonly kind: 'return'; readonly domain: ActiveDomain; readonly sender: string };

export interface RecipientSources {
  readonly domains: Domains;
  readonly accounts: Accounts;
  readonly senders: SenderRewriting;
  readonly bodies: Bodies;
}

interface Recipient {
  readonly forwardPath: string;
  readonly localPart: string;
  readonly domain: ActiveDomain;
}

/**
 * Finds where the mail of a forward-path goes.
 *
 * @param from reverse-path of the same transaction, `''` for the null sender
 * @returns the destination, or the refusal to answer with
 */
export async function resolveRecipient(
  sources: RecipientSources,
  forwardPath: string,
  from: string,
): Promise<Destination | Refusal> {
  // The database may be a foreign one: that it does not know a recipient says nothing.
  if (sources.bodies.mismatch) return new Refusal('unavailable', 'no mail is taken right now');
  const address = parseAddress(forwardPath);
  if (!address) return unparsable(forwardPath);
  const domain = await sources.domains.findActive(address.domain);
  if (!domain) {
    const state = await sources.domains.stateOf(address.domain);
    if (state === 'unknown' && !(await sources.domains.hasAny())) {
      return new Refusal('not_set_up', 'no domain is hosted here yet');
    }
    return refuseDomain(state, address.domain);
  }
  const returned = await resolveReturn(sources, address.local, domain, from);
  if (returned) return returned;
  const recipient = { forwardPath, localPart: mailboxLocalPart(address.local), domain };
  if (domain.route.forwardMode === 'forward_email') return { kind: 'forward', domain };
  const account = await findAccount(sources, recipient);
  if (domain.route.forwardMode === 'store') return resolveMailbox(recipient, account);
  // A webhook takes every local part. Nothing of a suspended account's mail may get lost either.
  return { kind: 'webhook', domain, ...(account && { user: userOf(account) }) };
}

/** `SRS0` and `SRS1` local parts are ours, and bounces alone may come to them. */
async function resolveReturn(
  { senders, accounts }: RecipientSources,
  local: string,
  domain: ActiveDomain,
  from: string,
): Promise<Destination | Refusal | undefined> {
  const reversed = senders.reverse(local, domain.name);
  if (reversed.kind === 'not_srs') return undefined;
  if (from !== '') return new Refusal('srs_invalid', 'this address takes bounces only');
  if (reversed.kind === 'original') return { kind: 'return', domain, sender: reversed.sender };
  if (reversed.kind === 'digest') {
    // A sender too long to be carried. The address is good, and far ends may call back to see that;
    // a bounce to it is for whoever looks after the domain.
    const account = await accounts.oldestOfDomain(domain.id);
    if (account) return { kind: 'mailbox', user: userOf(account) };
    return new Refusal('account_not_found', 'nobody takes bounces for this address');
  }
  if (reversed.kind === 'expired') return new Refusal('srs_invalid', 'this address has expired');
  return new Refusal('srs_invalid', 'this address is not one of ours');
}

async function findAccount(
  { accounts }: RecipientSources,
  { localPart, domain }: Recipient,
): Promise<Account | undefined> {
  const account = await accounts.findRecipient(localPart, domain.id);
  if (account) return account;
  // RFC 5321 section 4.5.1: postmaster is taken wherever mail is.
  return localPart === 'postmaster' ? accounts.oldestOfDomain(domain.id) : undefined;
}

function resolveMailbox(
  { forwardPath }: Recipient,
  account: Account | undefined,
): Destination | Refusal {
  if (!account) return new Refusal('account_not_found', `there is no mailbox ${forwardPath}`);
  if (account.status === 'suspended') {
    return new Refusal('account_inactive', `mailbox ${forwardPath} is suspended for now`);
  }
  return { kind: 'mailbox', user: userOf(account) };
}

function userOf({ id, address }: Account): MailUser {
  return { accountId: id, address };
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
