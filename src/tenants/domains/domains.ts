/**
 * Domains: who claims which name, the DNS records that prove it, and the route of its mail.
 *
 * `domains` has a row for each user's claim on a name; several users may hold pending claims on the same name, at most
 * one claim is active (a partial unique index ensures it). Each claim has its own DKIM key and selector in its row,
 * four rows of `dns_records` (more during a key rotation, `dkim-rotation.ts`) and one of `routes`. Names are stored in lower
 * case, IDNA-encoded. A deleted claim is removed at once with its records and route; `deleted_domains` has its id until
 * its accounts and deliveries are removed, too, in steps.
 *
 * A transaction that changes a claim's records locks the name first and evaluates it afterwards (`claims.ts`).
 * `verification/` asks DNS; each claim's row says when.
 */
import type { Logger } from 'pino';
import {
  type Database,
  type InTransaction,
  PreparedQuery,
  type Queries,
} from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { type Actor, recordAudit } from '../audit/audit.ts';
import { writeEvents } from '../events/events.ts';
import { domainExists, insertClaim, type NewDomain } from './claim-rows.ts';
import {
  type ClaimChanges,
  type ClaimPage,
  countClaims,
  type Domain,
  evaluateName,
  findClaim,
  hasActiveRival,
  type LockMode,
  listClaims,
  lockClaim,
  logClaimChanges,
  logKeyExchange,
  readClaim,
} from './claims.ts';
import { addNextKey, exchangeKeys, hasNextKey } from './dkim-rotation.ts';
import {
  checkMark,
  type DkimKey,
  type DnsMark,
  type DnsRecord,
  generateDkimKey,
  MX_PRIORITY,
  type NewDkimKey,
  readRecords,
  renameExpected,
  seedRecords,
  writeMark,
} from './dns-records.ts';
import { checkClaimedName, checkText, checkUserId, normalizeDomainName } from './domain-names.ts';
import { type Owner, toOwner, type Whose } from './owner.ts';
import {
  type ActiveDomain,
  activeClaim,
  checkRoute,
  type DomainState,
  findWebhookSecrets,
  type Route,
  type RouteSettings,
  readDomainState,
  readRoute,
  replaceRoute,
  toActive,
} from './routes.ts';

export { checkReason, endDomainDeletion, listDeletedDomains, setSuspended } from './claim-rows.ts';
export type { Domain } from './claims.ts';
export {
  type DkimKey,
  type DnsRecord,
  type DnsRecordStatus,
  writeZone,
} from './dns-records.ts';
export { checkText, checkUserId, normalizeDomainName } from './domain-names.ts';
export {
  type ClaimFilter,
  type ClaimOrder,
  type ClaimPosition,
  countLapsedClaims,
  countPendingClaims,
  findAnyClaim,
  listAllClaims,
  type OperatedDomain,
} from './operator-claims.ts';
export { type Owner, toOwner, type Whose } from './owner.ts';
export {
  type ActiveDomain,
  checkWebhookSecret,
  checkWebhookUrl,
  findClaimIds,
  findClaimNames,
  hasDomains,
  PREVIOUS_SIGNS_MS,
  type Route,
  type RouteSettings,
  selectActive,
  toActive,
} from './routes.ts';
export { countUnableToSend, findSendingObstacle } from './sending.ts';
export { Verification } from './verification/verification.ts';

interface DomainsOptions {
  readonly database: Database;
  /** Our MX host: the name that MX records must have, and that nobody can claim. */
  readonly mailHostname: string;
  /** The name that SPF records must include. */
  readonly spfInclude: string;
  /** Where changes of status are logged. */
  readonly log?: Logger | undefined;
  readonly now?: () => EpochMs;
  /** Makes the key of a new claim; by default RSA of 2048 bits, which takes a tenth of a second. */
  readonly makeDkimKey?: (owner: Owner) => Promise<NewDkimKey>;
}

export interface DomainDetails {
  readonly domain: Domain;
  readonly dns: readonly DnsRecord[];
  readonly route: Route;
  readonly mx: { readonly host: string; readonly priority: number };
}

const ORGANIZATION_ID_MAX = 255;
/** A deleted claim, and the changes of its rivals. */
interface RemovedDomain extends Domain {
  readonly rivals: ClaimChanges;
}

const dkimKey = new PreparedQuery(({ domainId }: { domainId: number }, queries) =>
  queries
    .selectFrom('domains')
    .select(['dkim_selector as selector', 'dkim_private_key as privateKey'])
    .where('id', '=', domainId),
);

/** Every function with an owner sees only that owner's claims; `name` is as the user wrote it. */
export class Domains {
  readonly #database: Database;
  readonly #mailHostname: string;
  readonly #spfInclude: string;
  readonly #log: Logger | undefined;
  readonly #now: () => number;
  readonly #makeDkimKey: (owner: Owner) => Promise<NewDkimKey>;

  constructor(options: DomainsOptions) {
    this.#database = options.database;
    this.#mailHostname = options.mailHostname.toLowerCase();
    this.#spfInclude = options.spfInclude.toLowerCase();
    this.#log = options.log;
    this.#now = options.now ?? Date.now;
    this.#makeDkimKey = options.makeDkimKey ?? generateDkimKey;
  }

  /**
   * Claims a name. While another user's claim is active, the new one stays pending.
   *
   * @param by who is named in the audit log, here and below
   * @param within runs in the transaction, here and below
   * @throws Refusal invalid_request (`domain`, `user_id`, `organization_id`), domain_exists where the
   *   user has it already
   */
  async create(
    input: NewDomain,
    by?: Actor,
    within?: InTransaction<DomainDetails>,
  ): Promise<DomainDetails> {
    const name = checkClaimedName(input.domain, this.#mailHostname);
    const userId = checkUserId(input.userId);
    if (input.organizationId !== undefined) {
      checkText('organization_id', input.organizationId, ORGANIZATION_ID_MAX);
    }
    // Checked before the key pair is made, which takes a tenth of a second.
    if (await findClaim(this.#database.read, userId, name)) throw domainExists(name);
    const key = await this.#makeDkimKey({ userId, organizationId: input.organizationId });
    return this.#database.write(async (tx) => {
      const domain = await insertClaim(tx, { ...input, domain: name }, key, this.#now());
      await tx
        .insertInto('dns_records')
        .values(
          seedRecords(domain.id, {
            mailHostname: this.#mailHostname,
            spfInclude: this.#spfInclude,
            dkim: key,
          }),
        )
        .execute();
      await tx
        .insertInto('routes')
        .values({ domain_id: domain.id, ...checkRoute(name, { forwardMode: 'store' }) })
        .execute();
      if (by)
        await recordAudit(tx, by, { action: 'domain.create', target: name, at: domain.createdAt });
      const details = await this.#details(tx, domain);
      await within?.(tx, details);
      return details;
    });
  }

  /** @throws Refusal domain_not_found */
  get(whose: Whose, name: string): Promise<DomainDetails> {
    return this.#database.snapshot(async (queries) =>
      this.#details(queries, await readClaim(queries, whose, name)),
    );
  }

  /** An owner's claims by their ids. */
  list(page: ClaimPage): Promise<Domain[]> {
    return listClaims(this.#database.read, page);
  }

  /**
   * How many claims an owner has; `most` stands for as many or more.
   *
   * @returns undefined for those of one organization, which no index has
   */
  async count(whose: Whose, most: number): Promise<number | undefined> {
    const { userId, organizationId } = toOwner(whose);
    if (organizationId !== undefined) return undefined;
    return countClaims(this.#database.read, userId, most);
  }

  /** The claim without its records and route. @throws Refusal domain_not_found */
  find(whose: Whose, name: string): Promise<Domain> {
    return readClaim(this.#database.read, whose, name);
  }

  /**
   * Replaces the route as a whole.
   *
   * @throws Refusal domain_not_found, invalid_request (`forward_mode`, `webhook_url`,
   *   `webhook_secret`, `forward_to_email`)
   */
  setRoute(
    whose: Whose,
    name: string,
    settings: RouteSettings,
    by?: Actor,
  ): Promise<DomainDetails> {
    return this.#database.write(async (tx) => {
      const domain = await this.lock(tx, whose, name);
      const at = this.#now();
      await replaceRoute(tx, domain.id, checkRoute(domain.name, settings), at);
      if (by) await recordAudit(tx, by, { action: 'domain.set_route', target: domain.name, at });
      return this.#details(tx, domain);
    });
  }

  /**
   * Sets a record by hand and evaluates the claim.
   *
   * @throws Refusal domain_not_found, dns_record_not_found, invalid_request (`status`,
   *   `observed_value`)
   */
  async markDnsRecord(
    whose: Whose,
    name: string,
    mark: DnsMark,
    by?: Actor,
  ): Promise<DomainDetails> {
    checkMark(mark);
    const { details, changed, selector } = await this.#database.write(async (tx) => {
      const domain = await this.lock(tx, whose, name);
      const now = this.#now();
      await writeMark(tx, domain.id, mark, now);
      if (by)
        await recordAudit(tx, by, { action: 'domain.mark_dns', target: domain.name, at: now });
      const selector = await exchangeKeys(tx, domain.id, now);
      const changed = await evaluateName(tx, domain.name, now);
      const details = await this.#details(tx, await readClaim(tx, whose, name));
      return { details, changed, selector };
    });
    this.logChanges(changed);
    if (this.#log && selector) logKeyExchange(this.#log, details.domain, selector);
    return details;
  }

  /**
   * Gives the claim a next DKIM key, which signs once its record is verified. A claim that has one already is not
   * changed.
   *
   * @throws Refusal domain_not_found
   */
  async rotateDkim(whose: Whose, name: string, by: Actor): Promise<DomainDetails> {
    const found = await readClaim(this.#database.read, whose, name);
    // Made before the transaction, since it takes a tenth of a second.
    const key = (await hasNextKey(this.#database.read, found.id))
      ? undefined
      : await this.#makeDkimKey(toOwner(whose));
    return this.#database.write(async (tx) => {
      const domain = await this.lock(tx, whose, name);
      // Of two calls at once, each makes a key: the first one stays.
      if (key && !(await hasNextKey(tx, domain.id))) {
        const at = this.#now();
        await addNextKey(tx, domain.id, key, at);
        await recordAudit(tx, by, { action: 'domain.rotate_dkim', target: domain.name, at });
      }
      return this.#details(tx, domain);
    });
  }

  /**
   * Updates the records of all claims to our current names; run at the start, since the operator may have changed them.
   * An active claim stays active.
   *
   * @returns how many claims had other names
   */
  adoptNames(): Promise<number> {
    const names = { mailHostname: this.#mailHostname, spfInclude: this.#spfInclude };
    return this.#database.write((tx) => renameExpected(tx, names, this.#now()));
  }

  /** The active claim on a name as a stranger wrote it, or undefined. */
  async findActive(text: string): Promise<ActiveDomain | undefined> {
    const name = normalizeDomainName(text);
    if (name === undefined) return undefined;
    const row = await activeClaim.first(this.#database.read, { name });
    return row && toActive(row);
  }

  /** The secrets that sign a webhook of a claim to a URL, newest first; empty where its route has another URL. */
  webhookSecrets(domainId: number, url: string): Promise<string[]> {
    return findWebhookSecrets(this.#database.read, { domainId, url, now: this.#now() });
  }

  /** How mail for a name as a stranger wrote it is answered. */
  async stateOf(text: string): Promise<DomainState> {
    const name = normalizeDomainName(text);
    return name === undefined ? 'unknown' : readDomainState(this.#database.read, name, this.#now());
  }

  /** The key that signs a claim's mail, or undefined where the claim was deleted. */
  findDkimKey(domainId: number): Promise<DkimKey | undefined> {
    return dkimKey.first(this.#database.read, { domainId });
  }

  /**
   * Locks the owner's claim until the transaction ends: it cannot be changed or deleted meanwhile.
   *
   * @param keepsOff with `changes`, others may lock it so as well
   * @throws Refusal domain_not_found
   */
  lock(tx: Queries, whose: Whose, name: string, keepsOff?: LockMode): Promise<Domain> {
    return lockClaim(tx, whose, name, keepsOff);
  }

  /**
   * Deletes a claim with its records and route; a rival claim may become active, which the caller logs after the commit
   * (`logChanges`). Everything else of the claim is removed in steps by the folders that own it, for each of
   * `listDeletedDomains`.
   *
   * @throws Refusal domain_not_found
   */
  async remove(tx: Queries, whose: Whose, name: string): Promise<RemovedDomain> {
    const domain = await this.lock(tx, whose, name);
    const now = this.#now();
    const data = { domain: domain.name };
    await writeEvents(tx, [{ type: 'domain.deleted', domainId: domain.id, data }], now);
    await tx.deleteFrom('domains').where('id', '=', domain.id).execute();
    await tx.insertInto('deleted_domains').values({ id: domain.id, deleted_at: now }).execute();
    return { ...domain, rivals: await evaluateName(tx, domain.name, now) };
  }

  /** Logs changes after their commit. */
  logChanges(changed: ClaimChanges): void {
    if (this.#log) logClaimChanges(this.#log, changed);
  }

  async #records(queries: Queries, domain: Domain): Promise<readonly DnsRecord[]> {
    const records = await readRecords(queries, domain.id);
    const waits = domain.status === 'pending' && (await hasActiveRival(queries, domain));
    if (!waits) return records;
    return records.map(({ detail, ...record }) => ({
      ...record,
      detail: detail === undefined ? WAITING : `${detail} ${WAITING}`,
    }));
  }

  async #details(queries: Queries, domain: Domain): Promise<DomainDetails> {
    return {
      domain,
      dns: await this.#records(queries, domain),
      route: await readRoute(queries, domain.name, domain.id, this.#now()),
      mx: { host: this.#mailHostname, priority: MX_PRIORITY },
    };
  }
}

/** The detail of the records of a claim while another user's claim is active. */
const WAITING =
  'Another claim on this domain is active: this one takes over once its DKIM record is verified and the DKIM record of the other has failed.';
