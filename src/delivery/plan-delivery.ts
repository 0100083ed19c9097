/** Sorts the recipients of one message by where it goes. */
import type { ActiveDomain } from '../domains/domains.ts';
import type { MailUser } from '../mailstore/mailstore.ts';
import type { Destination } from './resolve-recipient.ts';

export interface ResolvedRecipient {
  readonly forwardPath: string;
  readonly destination: Destination;
}

/** An account, and the forward-path that meant it. */
interface Addressee extends MailUser {
  readonly recipient: string;
}

/** One webhook for each domain: it never hears of the recipients of another. */
export interface PlannedWebhook {
  readonly domain: ActiveDomain;
  /** Forward-paths at this domain. */
  readonly recipients: string[];
  readonly users: Map<number, Addressee>;
  readonly strangers: string[];
}

export interface PlannedForward {
  readonly domain: ActiveDomain;
  /** Forward-paths at this domain, at least one. */
  readonly recipients: string[];
}

export interface DeliveryPlan {
  /** Mailboxes by account: two forward-paths of one account bring one copy. */
  readonly users: Map<number, Addressee>;
  readonly webhooks: Map<number, PlannedWebhook>;
  /** One for each domain, since all of its mail goes to one address. */
  readonly forwards: Map<number, PlannedForward>;
  /** Bounces on their way back, by the address they go to. */
  readonly returns: Map<string, ActiveDomain>;
}

export function planDelivery(recipients: readonly ResolvedRecipient[]): DeliveryPlan {
  const plan: DeliveryPlan = {
    users: new Map(),
    webhooks: new Map(),
    forwards: new Map(),
    returns: new Map(),
  };
  for (const { forwardPath, destination } of recipients) {
    if (destination.kind === 'mailbox') {
      addAddressee(plan.users, destination.user, forwardPath);
    } else if (destination.kind === 'return') {
      plan.returns.set(destination.sender, destination.domain);
    } else if (destination.kind === 'forward') {
      const { domain } = destination;
      const forward = plan.forwards.get(domain.id) ?? { domain, recipients: [] };
      plan.forwards.set(domain.id, forward);
      forward.recipients.push(forwardPath);
    } else {
      addToWebhook(plan, forwardPath, destination);
    }
  }
  return plan;
}

function addToWebhook(
  { webhooks }: DeliveryPlan,
  forwardPath: string,
  { domain, user }: Extract<Destination, { kind: 'webhook' }>,
): void {
  const webhook: PlannedWebhook = webhooks.get(domain.id) ?? {
    domain,
    recipients: [],
    users: new Map(),
    strangers: [],
  };
  webhooks.set(domain.id, webhook);
  webhook.recipients.push(forwardPath);
  if (user) addAddressee(webhook.users, user, forwardPath);
  else webhook.strangers.push(forwardPath);
}

/** Where several forward-paths mean one account, the first is the one it is known by. */
function addAddressee(users: Map<number, Addressee>, user: MailUser, recipient: string): void {
  if (!users.has(user.accountId)) users.set(user.accountId, { ...user, recipient });
}
