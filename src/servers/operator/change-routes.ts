/** Suspending, resuming and deleting: `POST /v2/operator/domains/...` and `/v2/operator/accounts/...`. */
import { Type } from 'typebox';
import { type BulkPosition, type Queue, senderOf } from '../../mail/queue/queue.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import { type EpochMs, untilDone } from '../../platform/time/time.ts';
import {
  type Account,
  type Accounts,
  findAnyAccount,
  findOperated,
} from '../../tenants/accounts/accounts.ts';
import { type Actor, recordAudit } from '../../tenants/audit/audit.ts';
import { checkReason, findAnyClaim, setSuspended } from '../../tenants/domains/domains.ts';
import {
  type Api,
  actorOf,
  contentsOfDomain,
  DomainName,
  Flag,
  Integer,
  type RouteGroup,
  UserId,
} from '../api/api.ts';
import {
  AccountChoice,
  type AccountRouteParts,
  chosenAccount,
  OperatedAccountBody,
  writeAccounts,
} from './account-items.ts';
import {
  Contents,
  type DomainRouteParts,
  OperatedDomainBody,
  writeOperatedDomain,
} from './domain-routes.ts';
import { orderBulk } from './queue-orders.ts';

export interface ChangeRouteParts extends DomainRouteParts, AccountRouteParts {
  readonly accounts: Accounts;
  readonly queue: Pick<Queue, 'bulk'>;
  /** The same on all nodes. */
  readonly now: () => EpochMs;
}

const DomainChoice = {
  domain: DomainName,
  user_id: Type.Optional(UserId),
};

/** The routes that suspend, resume and delete. */
export function operatorChangeRoutes(parts: ChangeRouteParts): RouteGroup {
  return (app) => {
    addSuspensionOfDomain(app, parts);
    addDeleteDomain(app, parts);
    addSuspensionOfAccount(app, parts);
  };
}

function addSuspensionOfDomain(app: Api, parts: ChangeRouteParts): void {
  app.post('/v2/operator/domains/suspend', {
    config: { refusals: ['domain_not_found'] },
    schema: {
      summary: 'Suspend a domain',
      description:
        'Nobody can sign in to its accounts, and their sockets end. Mail to it is deferred (450), so that its sender keeps it. Its deliveries wait. One that is suspended already keeps its time and its reason.',
      operationId: 'suspendDomain',
      body: Type.Object({
        ...DomainChoice,
        reason: Type.Optional(Type.String({ examples: ['unpaid since March'] })),
      }),
      response: { 200: OperatedDomainBody },
    },
    handler: async (request) => {
      const { domain, user_id, reason } = request.body;
      if (reason !== undefined) checkReason(reason);
      const by = actorOf(request);
      const { id } = await changeDomain(parts, by, 'suspend', request.body);
      // Each step is repeated when the call is repeated: a node may have died in between.
      await parts.accounts.endAccess(id, 'suspended');
      await orderAll(parts, by, id, 'hold');
      return writeDomain(parts, domain, user_id);
    },
  });
  app.post('/v2/operator/domains/resume', {
    config: { refusals: ['domain_not_found'] },
    schema: {
      summary: 'Resume a domain',
      description: 'Ends its suspension; its deliveries go on.',
      operationId: 'resumeDomain',
      body: Type.Object(DomainChoice),
      response: { 200: OperatedDomainBody },
    },
    handler: async (request) => {
      const { domain, user_id } = request.body;
      const by = actorOf(request);
      const { id } = await changeDomain(parts, by, 'resume', { domain, user_id });
      await orderAll(parts, by, id, 'release');
      return writeDomain(parts, domain, user_id);
    },
  });
}

/** Holds the waiting deliveries of a suspended domain, or releases them. */
async function orderAll(
  { queue }: ChangeRouteParts,
  { actor }: Actor,
  domainId: number,
  action: 'hold' | 'release',
): Promise<void> {
  const filter = { domainIds: [domainId] };
  const order = { action, filter, isDryRun: false, heldBy: 'suspension' } as const;
  const by = `${actor}, who ${action === 'hold' ? 'suspended' : 'resumed'} its domain`;
  // It changes nothing where the domain was resumed meanwhile.
  await untilDone<BulkPosition>((next) => queue.bulk({ ...order, ...next }, by));
}

interface DomainChange {
  readonly domain: string;
  readonly user_id?: string | undefined;
  readonly reason?: string;
}

async function changeDomain(
  { database, now }: ChangeRouteParts,
  by: Actor,
  action: 'suspend' | 'resume',
  { domain, user_id, reason }: DomainChange,
) {
  return database.write(async (tx) => {
    const claim = await findAnyClaim(tx, domain, user_id);
    const at = now();
    if (await setSuspended(tx, claim.id, action === 'suspend' ? at : undefined, reason)) {
      await recordAudit(tx, by, { action: `domain.${action}`, target: claim.name, at });
    }
    return claim;
  });
}

async function writeDomain(parts: ChangeRouteParts, domain: string, userId: string | undefined) {
  return writeOperatedDomain(parts, await findAnyClaim(parts.database.read, domain, userId));
}

function addDeleteDomain(app: Api, parts: ChangeRouteParts): void {
  app.post('/v2/operator/domains/delete', {
    config: { refusals: ['domain_not_found'] },
    schema: {
      summary: 'Delete a domain of any user',
      description:
        'Without `confirm` nothing is changed: the answer counts what would be deleted. With `confirm`, which has to be the name of the domain, the domain is deleted with its accounts, their mail and its deliveries.',
      operationId: 'deleteAnyDomain',
      body: Type.Object({
        ...DomainChoice,
        confirm: Type.Optional(Type.String({ description: 'The name of the domain, once more.' })),
      }),
      response: {
        200: Type.Object({
          would_remove: Type.Optional(Contents),
          deleted: Type.Optional(DomainName),
          removed: Type.Optional(Contents),
        }),
      },
    },
    handler: async (request) => {
      const { domain, user_id, confirm } = request.body;
      const claim = await findAnyClaim(parts.database.read, domain, user_id);
      const counts = await contentsOfDomain(parts.database.read, claim.id);
      if (confirm === undefined) return { would_remove: counts };
      if (confirm.toLowerCase() !== claim.name) {
        throw invalidField('confirm', `must be the name of the domain, ${claim.name}`);
      }
      const recorded = { by: actorOf(request), counts };
      await parts.accounts.removeDomain(claim.userId, claim.name, recorded);
      return { deleted: claim.name, removed: counts };
    },
  });
}

/** Whether waiting mail goes, too, and how much went. */
const dropWaiting = Type.Optional(
  Flag(
    'Drop what it sent and what still waits: no bounce is sent, and its owner sees `bounced`. Otherwise its mail goes on. What is being attempted right now is not dropped.',
  ),
);
const SuspendedBody = Type.Object(
  {
    ...OperatedAccountBody.properties,
    dropped: Type.Optional(Integer('How many deliveries were dropped.', 120)),
  },
  { title: 'SuspendedAccount', description: 'An account after its suspension.' },
);

function addSuspensionOfAccount(app: Api, parts: ChangeRouteParts): void {
  app.post('/v2/operator/accounts/suspend', {
    config: { refusals: ['account_not_found'] },
    schema: {
      summary: 'Suspend an account of any user',
      description: 'Its tokens stop, its sockets end, and mail to it is deferred (450).',
      operationId: 'suspendAnyAccount',
      body: Type.Object({ ...AccountChoice, drop_waiting: dropWaiting }),
      response: { 200: SuspendedBody },
    },
    handler: async (request) => {
      const { drop_waiting: drops = false } = request.body;
      const id = chosenAccount(request.body);
      const by = actorOf(request);
      const account = await setStatus(parts, by, id, 'suspended');
      if (!drops) return writeAccount(parts, account);
      // After the suspension: what it sends from now on is refused.
      const domain = await findAnyClaim(parts.database.read, account.domain, account.userId);
      const senders = [senderOf({ ...account, domainId: domain.id, accountId: id })];
      const filter = { domainIds: [domain.id], senders, kind: 'send' };
      const order = { action: 'drop', filter, isDryRun: false, heldBy: 'operator' } as const;
      const target = JSON.stringify({ account: account.address });
      const { changed } = await untilDone<BulkPosition>((next) =>
        orderBulk(parts, by, { ...order, ...next }, target),
      );
      return { ...(await writeAccount(parts, account)), dropped: changed };
    },
  });
  app.post('/v2/operator/accounts/resume', {
    config: { refusals: ['account_not_found'] },
    schema: {
      summary: 'Resume an account of any user',
      description: 'It accepts mail again, and its owner can sign in.',
      operationId: 'resumeAnyAccount',
      body: Type.Object(AccountChoice),
      response: { 200: OperatedAccountBody },
    },
    handler: async (request) => {
      const id = chosenAccount(request.body);
      return writeAccount(parts, await setStatus(parts, actorOf(request), id, 'active'));
    },
  });
}

async function setStatus(
  { database, accounts }: ChangeRouteParts,
  by: Actor,
  id: number,
  status: 'active' | 'suspended',
): Promise<Account> {
  const found = await findAnyAccount(database.read, id);
  if (!found) throw new Refusal('account_not_found', `there is no account ${id}`);
  return accounts.update(found.userId, id, { status }, by);
}

async function writeAccount(parts: ChangeRouteParts, account: Account) {
  const found = await findOperated(parts.database, [account.id]);
  const [written] = await writeAccounts(parts, found, parts.now());
  if (!written) throw new Error('one account was written as none');
  return written;
}
