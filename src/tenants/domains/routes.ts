/** What happens to the mail of a domain: which claim on its name it goes to, and the route of that claim. */
import { Buffer } from 'node:buffer';
import { sql } from 'kysely';
import { PreparedQuery, type Queries, type Row } from '../../platform/database/database.ts';
import { invalidField } from '../../platform/errors/errors.ts';
import { DAY_MS, type EpochMs } from '../../platform/time/time.ts';
import { parseAddress } from '../../protocols/message/message.ts';
import { checkText } from './domain-names.ts';

export type ForwardMode = Row<'routes'>['forward_mode'];

const WEBHOOK_URL_MAX = 2048;
const WEBHOOK_SECRET_MAX = 255;

/** Standard Webhooks 1.0.0, "Signature scheme": a symmetric secret has 24 to 64 bytes. */
const STANDARD_SECRET_BYTES = { min: 24, max: 64 };
const STANDARD_SECRET_PREFIX = 'whsec_';

export interface Route {
  readonly domain: string;
  readonly forwardMode: ForwardMode;
  readonly webhookUrl?: string;
  readonly webhookSecret?: string;
  /** The secret before a change, while it still signs. */
  readonly webhookSecretPrevious?: string;
  readonly forwardToEmail?: string;
}

/** New settings of a route: they replace the whole route; `''` counts as left out. */
export interface RouteSettings {
  readonly forwardMode: ForwardMode;
  readonly webhookUrl?: string | undefined;
  readonly webhookSecret?: string | undefined;
  readonly forwardToEmail?: string | undefined;
}

type PreviousSecret = Pick<Row<'routes'>, 'webhook_secret_previous' | 'webhook_secret_until'>;
type RouteColumns = Omit<Row<'routes'>, 'domain_id' | keyof PreviousSecret>;

/** How long the previous secret still signs after a change. */
export const PREVIOUS_SIGNS_MS = DAY_MS;

/** @throws Refusal invalid_request, of the field that is named */
export function checkWebhookUrl(text: string, field = 'webhook_url'): string {
  checkText(field, text, WEBHOOK_URL_MAX);
  // The URL parser drops tabs and line ends and repairs missing slashes. The stored URL is shown unchanged, so it must
  // need no repair.
  const url =
    /^https?:\/\/[^\s\p{Cc}/\\?#][^\s\p{Cc}]*$/iu.test(text) && URL.canParse(text) && new URL(text);
  if (!url) throw invalidField(field, 'must be an http or https URL');
  if (url.username !== '' || url.password !== '') {
    throw invalidField(field, 'must not hold credentials');
  }
  return text;
}

/** @throws Refusal invalid_request, of the field that is named */
export function checkWebhookSecret(text: string, field = 'webhook_secret'): string {
  checkText(field, text, WEBHOOK_SECRET_MAX);
  if (!text.startsWith(STANDARD_SECRET_PREFIX)) return text;
  const encoded = text.slice(STANDARD_SECRET_PREFIX.length);
  const key = Buffer.from(encoded, 'base64');
  const { min, max } = STANDARD_SECRET_BYTES;
  // Node skips characters that are not base64: only if the text comes back unchanged was all of it base64.
  if (key.toString('base64') !== encoded || key.length < min || key.length > max) {
    throw invalidField(
      field,
      `must be whsec_ and the padded base64 of ${min} to ${max} bytes, or not begin with whsec_`,
    );
  }
  return text;
}

/**
 * Mail to an address of the domain itself would come straight back: in this mode every local part of the domain is
 * forwarded. Loops over several domains are noticed on the way and ended there.
 */
function checkForwardAddress(text: string, domain: string): string {
  const address = parseAddress(text);
  if (!address) throw invalidField('forward_to_email', 'must be an e-mail address');
  if (address.domain === domain) {
    throw invalidField('forward_to_email', 'must not be an address of the same domain');
  }
  return text;
}

/**
 * Checks a route and returns its columns. Fields that the mode does not use are checked and stored as well, except that
 * `store` clears them all.
 *
 * @param domain name of the claim
 * @throws Refusal invalid_request
 */
export function checkRoute(domain: string, settings: RouteSettings): RouteColumns {
  const { forwardMode } = settings;
  const given: Partial<RouteSettings> = forwardMode === 'store' ? {} : settings;
  const { webhookUrl: url, webhookSecret: secret, forwardToEmail: to } = given;
  if (forwardMode === 'forward_email' && !to) {
    throw invalidField('forward_to_email', 'is required when forward_mode is forward_email');
  }
  if (forwardMode.startsWith('webhook') && !url) {
    throw invalidField('webhook_url', `is required when forward_mode is ${forwardMode}`);
  }
  return {
    forward_mode: forwardMode,
    webhook_url: url ? checkWebhookUrl(url) : null,
    webhook_secret: secret ? checkWebhookSecret(secret) : null,
    forward_to_email: to ? checkForwardAddress(to, domain) : null,
  };
}

/**
 * Replaces the route of a claim. A new secret signs at once, and the one before also signs for 24 hours, so that a
 * receiver can change at any time in between.
 */
export async function replaceRoute(
  tx: Queries,
  domainId: number,
  columns: RouteColumns,
  now: EpochMs,
): Promise<void> {
  const route = tx.selectFrom('routes').selectAll().where('domain_id', '=', domainId);
  const before = await route.executeTakeFirstOrThrow();
  await tx
    .updateTable('routes')
    .set({ ...columns, ...previousSecret(before, columns.webhook_secret, now) })
    .where('domain_id', '=', domainId)
    .execute();
}

function previousSecret(before: Row<'routes'>, secret: string | null, now: number): PreviousSecret {
  const { webhook_secret, webhook_secret_previous, webhook_secret_until } = before;
  if (secret === webhook_secret) return { webhook_secret_previous, webhook_secret_until };
  const stays = secret !== null && webhook_secret !== null;
  return {
    webhook_secret_previous: stays ? webhook_secret : null,
    webhook_secret_until: stays ? now + PREVIOUS_SIGNS_MS : null,
  };
}

/** The secrets that sign a webhook to a URL, the newest first; empty where the route has another URL by now. */
export async function findWebhookSecrets(
  queries: Queries,
  {
    domainId,
    url,
    now,
  }: { readonly domainId: number; readonly url: string; readonly now: EpochMs },
): Promise<string[]> {
  const row = await queries
    .selectFrom('routes')
    .selectAll()
    .where('domain_id', '=', domainId)
    .where('webhook_url', '=', url)
    .executeTakeFirst();
  if (!row) return [];
  return [row.webhook_secret, stillSigning(row, now)].filter((secret) => secret !== null);
}

function stillSigning(row: PreviousSecret, now: number): string | null {
  return now < (row.webhook_secret_until ?? 0) ? row.webhook_secret_previous : null;
}

/** A route in an API answer, without absent fields. */
export function toRoute(domain: string, row: RouteColumns): Route {
  return {
    domain,
    forwardMode: row.forward_mode,
    ...(row.webhook_url === null ? {} : { webhookUrl: row.webhook_url }),
    ...(row.webhook_secret === null ? {} : { webhookSecret: row.webhook_secret }),
    ...(row.forward_to_email === null ? {} : { forwardToEmail: row.forward_to_email }),
  };
}

/** The route of one claim; every claim has one. */
export async function readRoute(
  queries: Queries,
  domain: string,
  domainId: number,
  now: number,
): Promise<Route> {
  const row = await queries
    .selectFrom('routes')
    .selectAll()
    .where('domain_id', '=', domainId)
    .executeTakeFirstOrThrow();
  const previous = stillSigning(row, now);
  const route = toRoute(domain, row);
  return previous === null ? route : { ...route, webhookSecretPrevious: previous };
}

/* Claims, whoever has them: the active one on a name, and names by their ids. */

/** The claim that a name's mail goes to. */
export interface ActiveDomain {
  readonly id: number;
  readonly userId: string;
  readonly name: string;
  /** Since when the claim is active: before that the name may have belonged to another user. */
  readonly activeSince: number;
  readonly route: Route;
  /** Whether an operator suspended it: then its mail is deferred. */
  readonly isSuspended: boolean;
}

/**
 * The active claim on a name. Compiled once: it runs for every recipient and every token, and building a query takes
 * ten times as long as running it.
 */
export const activeClaim = new PreparedQuery(({ name }: { name: string }, queries) =>
  selectActive(queries, name),
);

/** The active claim on a name, with its route. */
export function selectActive(queries: Queries, name: string) {
  return queries
    .selectFrom('domains')
    .innerJoin('routes', 'routes.domain_id', 'domains.id')
    .select(['domains.id', 'domains.user_id', 'domains.verified_at', 'domains.suspended_at'])
    .select(['domains.name', 'forward_mode', 'webhook_url', 'webhook_secret', 'forward_to_email'])
    .where('domains.status', '=', sql.lit('active'))
    .where('domains.name', '=', name);
}

type ActiveRow = Awaited<ReturnType<ReturnType<typeof selectActive>['executeTakeFirstOrThrow']>>;

export function toActive(row: ActiveRow): ActiveDomain {
  const { id, user_id: userId, name, verified_at, suspended_at } = row;
  const isSuspended = suspended_at !== null;
  return {
    id,
    userId,
    name,
    activeSince: verified_at ?? 0,
    route: toRoute(name, row),
    isSuspended,
  };
}

/** The claims of all users on a name. */
export async function findClaimIds(queries: Queries, name: string): Promise<number[]> {
  const rows = await queries
    .selectFrom('domains')
    .select('id')
    .where('name', '=', name.toLowerCase())
    .execute();
  return rows.map(({ id }) => id);
}

/** The names of claims, by their ids. */
export async function findClaimNames(
  queries: Queries,
  ids: readonly number[],
): Promise<ReadonlyMap<number, string>> {
  if (ids.length === 0) return new Map();
  const rows = await queries
    .selectFrom('domains')
    .select(['id', 'name'])
    .where('id', 'in', [...new Set(ids)])
    .execute();
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** Whether there is any claim: without one, nothing was set up yet. */
export async function hasDomains(queries: Queries): Promise<boolean> {
  const row = await queries.selectFrom('domains').select('id').limit(1).executeTakeFirst();
  return row !== undefined;
}

/**
 * How mail for a name is answered: `active` is accepted, `lapsed` was active until lately (450), `expired` was active
 * longer ago (550), `pending` is claimed but never was active, `unknown` is not claimed.
 */
export type DomainState = 'active' | 'lapsed' | 'expired' | 'pending' | 'unknown';

/** How long mail for a claim that became pending again is deferred before it is refused for good. */
const LAPSE_GRACE_MS = 5 * DAY_MS;

/** The state of a name in its canonical form. */
export async function readDomainState(
  read: Queries,
  name: string,
  now: EpochMs,
): Promise<DomainState> {
  const { claims, active, lapsedAt } = await read
    .selectFrom('domains')
    .select(({ fn }) => [
      fn.count<number>('id').as('claims'),
      fn.count<number>('id').filterWhere('status', '=', 'active').as('active'),
      fn.max('lapsed_at').as('lapsedAt'),
    ])
    .where('name', '=', name)
    .executeTakeFirstOrThrow();
  if (claims === 0) return 'unknown';
  if (active > 0) return 'active';
  if (lapsedAt === null) return 'pending';
  return now - lapsedAt < LAPSE_GRACE_MS ? 'lapsed' : 'expired';
}
