/**
 * Resolves each forward-path to where its mail goes, checks that the accounts have room for it by their quotas, and
 * groups the recipients of one message by target.
 */
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import { fits, type MailUser, quotaExceeded } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { parseAddress } from '../../protocols/message/message.ts';
import {
  type Accounts,
  findRecipient,
  mailLocalPart,
  type Recipient,
} from '../../tenants/accounts/accounts.ts';
import { type ActiveDomain, type Domains, hasDomains } from '../../tenants/domains/domains.ts';
import { REWRITTEN, type SenderRewriting } from '../outbound/outbound.ts';
import type { MailboxStorage } from './mailbox-storage.ts';

/** Where mail for one recipient goes. */
export type Target =
  /** Into a mailbox of ours. */
  | { readonly kind: 'mailbox'; readonly user: MailUser; readonly isLimited: boolean }
  /** To the route's URL; `user` is the account whose mailbox may store it as well. */
  | { readonly kind: 'webhook'; readonly domain: ActiveDomain; readonly user?: MailUser }
  /** On to the route's address; `user` is the account that a bounce came to: it may be about mail that it sent. */
  | { readonly kind: 'forward'; readonly domain: ActiveDomain; readonly user?: MailUser }
  /** A bounce of mail that we forwarded: back to its first sender. */
  | { readonly kind: 'return'; readonly domain: ActiveDomain; readonly sender: string };

export interface RecipientSources {
  readonly database: Database;
  readonly domains: Domains;
  readonly accounts: Accounts;
  readonly senders: SenderRewriting;
  readonly bodies: Bodies;
  /** Has the quotas of accounts. */
  readonly storage: Pick<MailboxStorage, 'quotas'>;
  /** Our own name, which nobody can claim as a domain. */
  readonly hostname: string;
}

/** What the recipients of one message have in common. */
export interface ResolvedMail {
  /** Reverse-path, `''` for the null sender. */
  readonly from: string;
  /** Octets that an account needs room for, as far as they are known: at least 1. */
  readonly octets: number;
}

/**
 * Finds where the mail of a forward-path goes.
 *
 * @returns the target, or the refusal to answer with
 */
export async function resolveRecipient(
  sources: RecipientSources,
  forwardPath: string,
  { from, octets }: ResolvedMail,
): Promise<Target | Refusal> {
  // If the bodies belong to another database, this one may be the wrong one: an unknown recipient says nothing.
  if (sources.bodies.mismatch) return new Refusal('unavailable', 'no mail is accepted right now');
  const address = parseAddress(forwardPath);
  if (!address) {
    return new Refusal('relay_denied', `${forwardPath} is not an address of a domain hosted here`);
  }
  const { read } = sources.database;
  const found = (await findRecipient(read, address)) ?? (await findOperator(sources, address));
  if (!found) {
    const state = await sources.domains.stateOf(address.domain);
    if (state === 'unknown' && !(await hasDomains(read))) {
      return new Refusal('not_set_up', 'no domain is hosted here yet');
    }
    return refuseDomain(state, address.domain);
  }
  const { domain } = found;
  if (REWRITTEN.test(address.local)) return resolveReturn(sources, address.local, domain, from);
  if (domain.isSuspended) return refuseDomain('lapsed', domain.name);
  const { forwardMode } = domain.route;
  if (forwardMode === 'forward_email' && from !== '') return { kind: 'forward', domain };
  const account = found.account ?? (await findPostmaster(sources, address.local, domain));
  // What only a webhook gets is stored when the webhook fails. It was accepted then, so a quota no longer counts.
  const isStored = forwardMode === 'store' || forwardMode === 'webhook_then_store';
  if (isStored && account?.status === 'active') {
    const refusal = await refuseWithoutRoom(sources, account, octets);
    if (refusal) return refusal;
  }
  if (forwardMode === 'store') return resolveMailbox(sources, forwardPath, account);
  // Both accept every local part. Mail of a suspended account must not get lost either.
  const kind = forwardMode === 'forward_email' ? 'forward' : 'webhook';
  return { kind, domain, ...(account && { user: userOf(account) }) };
}

/** `SRS0` and `SRS1` local parts are ours; they accept bounces only. */
async function resolveReturn(
  { senders, accounts }: RecipientSources,
  local: string,
  domain: ActiveDomain,
  from: string,
): Promise<Target | Refusal> {
  const reversed = senders.reverse(local, domain.name);
  if (from !== '') return new Refusal('srs_invalid', 'this address accepts bounces only');
  if (reversed.kind === 'original') return { kind: 'return', domain, sender: reversed.sender };
  if (reversed.kind === 'digest') {
    // The sender was too long to be encoded. The address is valid, and far ends may call back to verify it;
    // a bounce to it goes to the oldest account of the domain.
    const account = await accounts.oldestOfDomain(domain.id);
    if (account) return { kind: 'mailbox', user: userOf(account), isLimited: false };
    return new Refusal('account_not_found', 'bounces to this address are not accepted');
  }
  if (reversed.kind === 'expired') return new Refusal('srs_invalid', 'this address has expired');
  return new Refusal('srs_invalid', 'this address is not one of ours');
}

/**
 * Postmaster at our own name, who is also the one that a client writes without a domain (RFC 5321 section 4.5.1): the
 * postmaster of the closest domain above it that is hosted here. Whoever proved to own that one owns our name, too.
 */
async function findOperator(
  { database, hostname }: RecipientSources,
  { local, domain }: { readonly local: string; readonly domain: string },
): Promise<Awaited<ReturnType<typeof findRecipient>>> {
  if (mailLocalPart(local) !== 'postmaster' || domain !== hostname) return undefined;
  const labels = domain.split('.');
  for (let at = 1; at < labels.length; at++) {
    const above = { local, domain: labels.slice(at).join('.') };
    const found = await findRecipient(database.read, above);
    if (found) return found;
  }
  return undefined;
}

async function findPostmaster(
  { accounts }: RecipientSources,
  localPart: string,
  domain: ActiveDomain,
): Promise<Recipient | undefined> {
  // RFC 5321 section 4.5.1: postmaster is accepted for every domain that has mail.
  return mailLocalPart(localPart) === 'postmaster' ? accounts.oldestOfDomain(domain.id) : undefined;
}

function resolveMailbox(
  sources: RecipientSources,
  forwardPath: string,
  account: Recipient | undefined,
): Target | Refusal {
  if (!account) return new Refusal('account_not_found', `there is no mailbox ${forwardPath}`);
  if (account.status === 'suspended') {
    return new Refusal('account_inactive', `mailbox ${forwardPath} does not accept mail for now`);
  }
  return { kind: 'mailbox', user: userOf(account), isLimited: isLimited(sources, account) };
}

function userOf({ id, address }: Recipient): MailUser {
  return { accountId: id, address };
}

function refuseDomain(state: string, domain: string): Refusal {
  if (state === 'lapsed') {
    return new Refusal('domain_suspended', `${domain} does not accept mail for now`);
  }
  if (state === 'pending' || state === 'expired') {
    return new Refusal('domain_not_active', `${domain} does not accept mail`);
  }
  return new Refusal('relay_denied', `${domain} is not hosted here`);
}

/* Whether accounts have room for a message. */

/** Whether the quota of the account limits this message. */
function isLimited({ storage }: Pick<RecipientSources, 'storage'>, account: Recipient): boolean {
  return storage.quotas?.isLimited(account.quotaBytes) ?? false;
}

/**
 * Checks what is stored now; the transaction that stores the message checks again.
 *
 * @param octets of the message, as far as they are known
 */
async function refuseWithoutRoom(
  sources: RecipientSources,
  account: Recipient,
  octets: number,
): Promise<Refusal | undefined> {
  const { database, storage } = sources;
  if (!storage.quotas || !isLimited(sources, account)) return undefined;
  const { id, address } = account;
  const [room] = await storage.quotas.rooms(database.read, [id]);
  return room && !fits(room, octets) ? quotaExceeded(address) : undefined;
}

/* Groups the recipients of one message by target. */

export interface ResolvedRecipient {
  readonly forwardPath: string;
  readonly target: Target;
}

/** An account, and the forward-path that named it. */
interface Addressee extends MailUser {
  readonly recipient: string;
}

/** What goes to the URL or the address of a route: one for each domain, which does not get the recipients of another. */
export interface PlannedRoute {
  readonly domain: ActiveDomain;
  /** Forward-paths at this domain, at least one. */
  readonly recipients: string[];
  /** Accounts among them: whose mailbox may store it as well, or that a bounce came to. */
  readonly users: Map<number, Addressee>;
  /** The other forward-paths. */
  readonly strangers: string[];
}

export interface DeliveryPlan {
  /** Mailboxes by account: two forward-paths of one account bring one copy. */
  readonly users: Map<number, Addressee>;
  /** Those of them that have a quota. */
  readonly limited: Set<number>;
  readonly webhooks: Map<number, PlannedRoute>;
  readonly forwards: Map<number, PlannedRoute>;
  /** Bounces on their way back, by the address they go to. */
  readonly returns: Map<string, ActiveDomain>;
}

/** Whether the message has to reach somebody outside. */
export function leavesHost({ webhooks, forwards, returns }: DeliveryPlan): boolean {
  return webhooks.size + forwards.size + returns.size > 0;
}

export function planDelivery(recipients: readonly ResolvedRecipient[]): DeliveryPlan {
  const plan: DeliveryPlan = {
    users: new Map(),
    limited: new Set(),
    webhooks: new Map(),
    forwards: new Map(),
    returns: new Map(),
  };
  for (const { forwardPath, target } of recipients) {
    if (target.kind === 'mailbox') {
      addAddressee(plan.users, target.user, forwardPath);
      if (target.isLimited) plan.limited.add(target.user.accountId);
    } else if (target.kind === 'return') {
      plan.returns.set(target.sender, target.domain);
    } else {
      const { kind, domain, user } = target;
      const routes = kind === 'forward' ? plan.forwards : plan.webhooks;
      const none: PlannedRoute = { domain, recipients: [], users: new Map(), strangers: [] };
      const route = routes.get(domain.id) ?? none;
      routes.set(domain.id, route);
      route.recipients.push(forwardPath);
      if (user) addAddressee(route.users, user, forwardPath);
      else route.strangers.push(forwardPath);
    }
  }
  return plan;
}

/** Where several forward-paths name one account, the first one counts. */
function addAddressee(users: Map<number, Addressee>, user: MailUser, recipient: string): void {
  if (!users.has(user.accountId)) users.set(user.accountId, { ...user, recipient });
}
